"""SJF-BSBF and SJF-FFS: shortest job first, where jobs may share GPUs with running jobs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from gpusched_env.baselines.checking import check
from gpusched_env.baselines.estimates import is_strict
from gpusched_env.baselines.list_policies.keys import ARRIVAL, SIZE
from gpusched_env.baselines.list_policies.scheduler import ListRules, ListScheduler
from gpusched_env.core.sharing.choices import BENEFIT, MEASURED, PLACEMENTS, SEARCH
from gpusched_env.errors import SchedulerError
from gpusched_env.problem.instance import SHORTEST_ROUND_S
from gpusched_env.simulator import Simulation
from gpusched_env.support.units import LATEST_S

ORDERS: Final = ("sjf", "fifo")
RUNNING_TIMES: Final = ("solo", "measured")


@dataclass
class SjfBsbf(ListScheduler):
    """Start waiting jobs, shortest first; if too few GPUs are free, share GPUs with running jobs; never preempt.

    Two jobs on one GPU slow each other down, but the second job need not wait until the first has finished. For a pair
    of jobs, Theorem 1 of the paper compares the mean job completion time (JCT) of sharing now with that of running one
    job after the other. SJF-BSBF lets a job share GPUs only with jobs for which sharing is better, the best ones first.

    * ``sjf-bsbf``: ``benefit_test=True`` (best sharing benefit first).
    * ``sjf-ffs``: ``benefit_test=False`` (first-fit sharing). There is no test; the job takes the first GPUs with
      enough memory.

    Parameters
    ----------
    benefit_test : True = share only if Theorem 1 predicts a smaller mean JCT for the pair; partners with the smallest
        mean come first. False = SJF-FFS
    sub_batch_search : True (default) = the new job may split its batch into smaller parts (gradient accumulation),
        which need less memory but more time; False = whole batches only
    running_time : remaining time of a running job in Theorem 1. "solo" (default) = at its rate alone on its GPUs, as
        the theorem assumes; "measured" = at its present rate, which is lower if it already shares GPUs (as in the
        authors' code)
    placement : GPUs of a job. "consolidate" (default) = best fit on free GPUs; "bsbf" = free GPUs of the machines with
        the fewest gangs; "bsbfs" = GPUs of one machine, free or shared, and otherwise like "bsbf". The last two are
        from the authors' code
    order : order of waiting jobs. "sjf" (default) = by remaining run time, computed for the whole batch, alone on the
        ideal placement; "fifo" = by arrival
    strict : True = the first job that does not fit blocks all jobs behind it; False (default) = such jobs are skipped
    round_s : decide only at multiples of this time [s]; the authors' code has 60 or 150. 0 (default) = decide at every
        event

    Notes
    -----
    This scheduler is a reconstruction: only the abstract of the paper is certain. ``docs/sjf_bsbf.md`` has the theorem
    and all choices. Ties: the earliest arrival, then the lowest id. In a scenario without GPU sharing, both policies
    equal ``sjf``. The field ``queue`` of a scenario overrides ``strict``. A decision point takes O(seats + running
    jobs) per waiting job.

    References
    ----------
    Y. Luo, Q. Wang, S. Shi, J. Lai, S. Qi, J. Zhang, X. Wang, "Scheduling Deep Learning Jobs in Multi-Tenant GPU
    Clusters via Wise Resource Sharing", IWQoS 2024, arXiv 2407.13088 (Theorem 1). Prototype: Lai-JX/Scheduler, May
    2024.
    """

    benefit_test: bool = True
    sub_batch_search: bool = True
    running_time: str = "solo"
    placement: str = "consolidate"
    order: str = "sjf"
    strict: bool = False
    round_s: float = 0.0
    clairvoyant = True
    knows_partitions = False  # it expects that no gang is preempted

    def __post_init__(self) -> None:
        """Check the parameters."""
        check(self.name, self, running_time=RUNNING_TIMES, placement=PLACEMENTS, order=ORDERS)
        if self.round_s != 0 and not SHORTEST_ROUND_S <= self.round_s <= LATEST_S:
            raise SchedulerError(
                f"{self.name}: round_s is {self.round_s}: it must be 0, or {SHORTEST_ROUND_S:g} to {LATEST_S:g} seconds"
            )

    @property
    def name(self) -> str:
        """Name in tables: ``sjf-bsbf`` or ``sjf-ffs``."""
        return "sjf-bsbf" if self.benefit_test else "sjf-ffs"

    def rules(self, simulation: Simulation) -> ListRules:
        """Return the rules; the scenario may override the queue discipline, and its rounds replace those of ours."""
        choices = (
            self.benefit_test * BENEFIT
            | self.sub_batch_search * SEARCH
            | (self.running_time == "measured") * MEASURED
            | PLACEMENTS[self.placement]
        )
        return ListRules(
            SIZE if self.order == "sjf" else ARRIVAL,
            "pack",
            strict=is_strict(simulation.view_for(self), self.strict),
            choices=choices,
            round_s=self.round_s if simulation.instance.semantics.round_s == 0 else 0.0,
        )
