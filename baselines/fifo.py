"""First in, first out: strict, skipping, or with EASY backfill."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np

from gpusched_env.baselines.estimates import EstimatingScheduler, is_strict
from gpusched_env.baselines.listed.keys import ARRIVAL
from gpusched_env.baselines.listed.run import ListedRun, ListRules, listed_run
from gpusched_env.errors import SchedulerError, unknown_name
from gpusched_env.simulator import ClusterView, Decision, Simulation, Start

VARIANTS: Final = ("strict", "skip", "easy")


@dataclass
class Fifo(EstimatingScheduler):
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
    placement rule accepts any free GPUs. With noisy estimates, backfill may delay it. The reservation is recomputed at
    every decision point, and when a running job passes its user's estimate, in O(running log running).

    The field ``queue`` of a scenario overrides "strict" and "skip"; "easy" ignores it.

    References
    ----------
    D. Lifka, "The ANL/IBM SP scheduling system", JSSPP 1995 (EASY).
    """

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

    def reset(self, view: ClusterView) -> None:
        """Let the scenario override the queue discipline."""
        super().reset(view)
        if self.variant != "easy":
            self._played = "strict" if is_strict(view, self.variant == "strict") else "skip"

    def player(self, simulation: Simulation) -> ListedRun | None:
        """Return the compiled loop; None for "easy", which has none."""
        if type(self) is not Fifo or self.variant == "easy":
            return None
        strict = is_strict(simulation.view_for(self), self.variant == "strict")
        return listed_run(self, simulation, ListRules(ARRIVAL, self.placement, strict=strict))

    def decide(self, view: ClusterView) -> Iterable[Decision]:
        """Start jobs in order of arrival."""
        waiting = view.waiting
        if self.variant != "easy":
            yield from view.list_schedule(waiting, self.placement, self._played == "strict")
            return
        yield from view.list_schedule(waiting, self.placement, strict=True)
        waiting = view.waiting
        if len(waiting) > 1 and view.free_gpus > 0:
            yield from self._backfill(view, waiting)
            if view.free_gpus > 0:
                yield from self.wait_for_overrun(view)

    def _backfill(self, view: ClusterView, waiting: np.ndarray) -> Iterable[Decision]:
        head, later = waiting[0], waiting[1:]
        running = view.running
        ends = self.ends_s(view, running)
        by_end = np.argsort(ends, kind="stable")
        supply = view.free_gpus + np.cumsum(view.gpus[running][by_end])
        enough = int(np.searchsorted(supply, view.gpus[head]))
        if enough == len(supply):  # nothing runs, and the placement rule refuses the first job
            shadow, extra = np.inf, 0
        else:
            shadow = ends[by_end[enough]]
            by_shadow = int(np.searchsorted(ends[by_end], shadow, side="right")) - 1  # includes all jobs that end then
            extra = int(supply[by_shadow] - view.gpus[head])
        fits_before = view.now_s + self.longest_s(view, later) <= shadow
        for job, before in zip(later.tolist(), fits_before.tolist(), strict=True):
            gang = int(view.gpus[job])
            if (before or gang <= extra) and view.can_place(job, self.placement):
                yield Start(job, self.placement)
                extra -= 0 if before else gang
