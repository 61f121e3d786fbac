"""First in, first out: strict, skipping, or with EASY backfill."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final

from gpusched_env.baselines.estimates import EstimatingScheduler, is_strict, reserved_s
from gpusched_env.baselines.list_policies.keys import ARRIVAL
from gpusched_env.baselines.list_policies.scheduler import ListRules, ListScheduler
from gpusched_env.errors import SchedulerError, unknown_name
from gpusched_env.simulator import Simulation

VARIANTS: Final = ("strict", "skip", "easy")


@dataclass
class Fifo(ListScheduler, EstimatingScheduler):
    """Start jobs in order of arrival: FIFO with or without backfill.

    If the first waiting job does not fit, GPUs are idle that later jobs could use. The three variants differ in what
    later jobs may do in this case.

    * ``fifo``: ``variant="strict"``. The first job that does not fit blocks all jobs behind it (head-of-line blocking).
    * ``fifo-skip``: ``variant="skip"``. Jobs that do not fit are skipped, and later jobs start; large gangs may starve.
    * ``fifo-easy``: ``variant="easy"``. The first waiting job has a reservation, and a later job starts only if it does
      not delay the first one (EASY backfill).

    Parameters
    ----------
    variant : "strict" (default), "skip" or "easy", see above
    placement : placement rule of all jobs; default best fit
    estimator, sigma, estimator_seed : source of run times for "easy", see :class:`EstimatingScheduler`; the other
        variants read no run times

    Notes
    -----
    EASY reserves a number of GPUs, not particular GPUs. ``shadow`` is the earliest time at which, by the estimated ends
    of the running jobs, enough GPUs for the first waiting job are free. ``extra`` is the number of GPUs left over at
    that time. A later job may start if it ends by ``shadow`` even on its slowest placement, or if it needs at most
    ``extra`` GPUs. With true run times, backfill therefore never delays the first waiting job, provided that the
    placement rule and the job accept any free GPUs: no partition, GPU type or number of nodes binds the job. With noisy
    estimates, backfill may delay it. The reservation is recomputed at every decision point, and when a running job
    passes its user's estimate, in O(running log running).

    The field ``queue`` of a scenario overrides "strict" and "skip"; "easy" ignores it.

    References
    ----------
    D. Lifka, "The ANL/IBM SP scheduling system", JSSPP 1995 (EASY).
    """

    left_s = staticmethod(reserved_s)

    variant: str = "strict"
    placement: str = "pack"

    not_parameters: ClassVar[dict[str, str]] = {
        "strict": "fifo blocks behind the first job that does not fit, fifo-skip starts whatever fits"
    }

    def __post_init__(self) -> None:
        """Check the variant; only "easy" reads run times."""
        super().__post_init__()
        if self.variant not in VARIANTS:
            raise SchedulerError(unknown_name("FIFO variant", self.variant, VARIANTS))
        self._played = self.variant
        if self.variant != "easy":
            self.clairvoyant = False

    @property
    def name(self) -> str:
        """Name in tables, which contains the variant because papers rarely say which FIFO they ran."""
        return f"fifo-{self._played}"

    def rules(self, simulation: Simulation) -> ListRules:
        """Return the rules; the scenario may override the queue discipline."""
        if self.variant == "easy":
            return ListRules(
                ARRIVAL,
                self.placement,
                strict=True,
                backfills=True,
                estimates=self.estimates(simulation),
            )
        strict = is_strict(simulation.view_for(self), self.variant == "strict")
        self._played = "strict" if strict else "skip"
        return ListRules(ARRIVAL, self.placement, strict=strict)
