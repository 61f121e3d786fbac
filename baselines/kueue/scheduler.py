"""Kueue: admission of jobs by quotas that queues lend to each other."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Final

from gpusched_env.baselines.checking import check
from gpusched_env.baselines.estimates import is_strict
from gpusched_env.baselines.queues.scheduler import QueueScheduler
from gpusched_env.baselines.queues.state import ANY, KUEUE, LOWER, NEVER, NEWER, Rules
from gpusched_env.baselines.registry import parameters_in
from gpusched_env.errors import SchedulerError
from gpusched_env.problem.tenants import TenantTree
from gpusched_env.simulator import ClusterView
from gpusched_env.simulator.scheduler import check_no_nan

WITHIN: Final = {"never": NEVER, "lower": LOWER, "newer": NEWER}
RECLAIM: Final = {"never": NEVER, "lower": LOWER, "any": ANY}
BORROW_WITHIN: Final = {"never": 0, "lower": 1}
QUEUEING: Final = {"best-effort": 0, "strict": 1}


@dataclass
class Kueue(QueueScheduler):
    """Start jobs within the quotas of their queues, lend idle quota, and take it back by preemption if allowed.

    Each leaf of the tree of tenants is a queue, and the tree is the cohort. A queue may use its quota, and beyond it
    what others do not use, up to the limits ``borrow`` and ``lend``. In a cycle, the first job of each queue asks. Jobs
    that fit without borrowing come first, then those that borrow from a nearer cohort, then higher priority, then age.

    Parameters
    ----------
    queueing : "best-effort" (default) = a job that does not fit lets later jobs of its queue pass; "strict" = it blocks
        its queue, and reserves quota for itself unless ``reclaim`` is "any" (BestEffortFIFO and StrictFIFO)
    within : which jobs of its own queue a job may preempt: "never" (default), "lower" = those of lower priority,
        "newer" = also newer jobs of equal priority (withinClusterQueue)
    reclaim : which jobs of queues that borrow a job may preempt that fits into the quota of its queue, or of a tenant
        above it that the others are not below: "never" (default), "lower" = those of lower priority, "any"
        (reclaimWithinCohort)
    borrow_within : "lower" = also a queue beyond its quota may preempt jobs of lower priority in queues that borrow;
        default "never" (borrowWithinCohort; without effect if ``fair``)
    threshold : with ``borrow_within``, jobs of a priority above this one are not preempted by a borrower; default inf
        (maxPriorityThreshold)
    fair : True = fair sharing: the queue with the lowest share comes first, and jobs of the queue with the highest are
        preempted first; default False
    initial : False = fair sharing without the strategy LessThanInitialShare; default True
    placement : placement rule of all jobs; default best fit

    Notes
    -----
    docs/kueue.md lists all choices. If preemption is free, a job starts at once after its victims have gone; otherwise
    quota and GPUs are kept for it until then. As in Kueue without Topology-Aware Scheduling, victims are chosen by
    quota, whatever number of nodes a job demands, so it may find no place after they have gone. The field ``queue`` of
    a scenario overrides ``queueing``. The field ``rules`` of a tenant sets the first five parameters for its queue, as
    a ClusterQueue does.

    References
    ----------
    Kueue 0.14: documentation of ClusterQueue, Cohort and Preemption, KEP-1714 (fair sharing), and source, pkg/scheduler
    and pkg/cache/scheduler.
    """

    queueing: str = "best-effort"
    within: str = "never"
    reclaim: str = "never"
    borrow_within: str = "never"
    threshold: float = math.inf
    fair: bool = False
    initial: bool = True
    placement: str = "pack"

    def __post_init__(self) -> None:
        """Check the names of policies."""
        check("kueue", self, queueing=QUEUEING, within=WITHIN, reclaim=RECLAIM, borrow_within=BORROW_WITHIN)

    @property
    def name(self) -> str:
        """Name in tables: ``kueue``, followed by ``-fair`` (fair sharing) or ``-reclaim`` if this is on."""
        if self.fair:
            return "kueue-fair"
        return "kueue" if self.reclaim == "never" else "kueue-reclaim"

    def rules_of(self, view: ClusterView, tenants: TenantTree) -> list[Rules]:
        """Return the rules of the jobs of each tenant, some of which its field ``rules`` may set."""
        found = list[Rules]()
        for name, text in zip(tenants.names, tenants.rules, strict=True):
            where = f"tenant {name!r}, rules {text!r}"
            own = parameters_in(type(self), where, text)
            check_no_nan(own, where)
            try:
                found.append(dataclasses.replace(self, **own).rules(view))
            except SchedulerError as error:
                raise SchedulerError(f"{where}: {error}") from error
        return found

    def rules(self, view: ClusterView) -> Rules:
        """Return the rules of the kernels."""
        return {
            "policy": KUEUE,
            "strict": is_strict(view, self.queueing == "strict"),
            "within": WITHIN[self.within],
            "reclaim": RECLAIM[self.reclaim],
            "borrows": BORROW_WITHIN[self.borrow_within],
            "threshold": self.threshold,
            "by_share": self.fair,
            "initial": self.initial,
        }
