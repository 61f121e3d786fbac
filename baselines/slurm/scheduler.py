"""Slurm: multifactor priority, fair share, backfill, and preemption by priority class."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import ClassVar, Final

from gpusched_env.baselines.checking import AT_LEAST_1, FINITE, FINITE_OR_0, Range, check
from gpusched_env.baselines.slurm.fair_share import FairTree
from gpusched_env.baselines.slurm.passes import next_slurm
from gpusched_env.baselines.slurm.past_usage import PastUsage
from gpusched_env.baselines.slurm.priority import SIZE_FACTORS
from gpusched_env.baselines.slurm.run import BACKFILL, recall, state_of
from gpusched_env.baselines.slurm.state import SlurmState
from gpusched_env.core.placement.rules import rule_number, shares_by
from gpusched_env.errors import SchedulerError
from gpusched_env.problem.tenants import TenantTree
from gpusched_env.simulator import CompiledScheduler, Simulation

POSITIVE: Final = ("max_age_s", "damping", "default_limit_s", "bf_window_s", "bf_resolution_s")
NOT_NEGATIVE: Final = (
    "age_weight", "fair_share_weight", "size_weight", "qos_weight", "gpu_weight", "partition_weight",
    "decay_half_life_s", "bf_interval_s", "bf_max_job_user", "bf_max_job_start", "bf_min_prio_reserve",
    "preempt_exempt_s", "grace_s",
)  # fmt: skip
KNOWN: Final[dict[str, Range | Collection[str]]] = {
    "backfill": tuple(BACKFILL),
    "fair_share": ("tree", "classic"),
    "size_factor": SIZE_FACTORS,
    "preempt": ("off", "class", "tier", "qos"),
    "limits": ("user", "oracle"),
    **dict.fromkeys(POSITIVE, FINITE),
    **dict.fromkeys(NOT_NEGATIVE, FINITE_OR_0),
    **dict.fromkeys(("queue_depth", "bf_max_job_test", "calc_period_s"), AT_LEAST_1),
}
MOST_SLOTS: Final = 10_000_000


@dataclass
class Slurm(CompiledScheduler):
    """Start jobs in order of Slurm's multifactor priority, and fill gaps by backfill.

    Slurm is the batch system of most research clusters. The priority of a job is a weighted sum of factors from 0 to 1,
    cut to a whole number: its age, the fair share of its tenant, its size, its QOS, and its part of the GPUs. At each
    event, the main pass starts jobs in order of priority until one does not fit. A backfill cycle then goes through the
    queue. By the time limits of running jobs, it plans the first time at which each job fits, and starts those whose
    time has come. With conservative backfill, no job may delay the plan of a job before it; with EASY, only the first
    waiting job has a plan.

    ``slurm`` has Slurm's default weights, 0, so that jobs are in order of arrival.

    Parameters
    ----------
    age_weight, fair_share_weight, size_weight, qos_weight, gpu_weight : weights of the factors
        (PriorityWeightAge, ...FairShare, ...JobSize, ...QOS, ...TRES of gres/gpu), default 0
    max_age_s : wait [s] after which the age factor is 1 (PriorityMaxAge), default 7 days. The wait of a preempted job
        begins at its last stop
    fair_share : "tree" (default) = Fair Tree; "classic" = 2^(-usage / share / damping)
    damping : FairShareDampeningFactor of "classic", default 1
    decay_half_life_s : half-life of the usage [s] (PriorityDecayHalfLife), default 7 days; 0 = usage does not decay
    calc_period_s : time [s] between two computations of usage and priorities (PriorityCalcPeriod), default 300
    size_factor : "large" (default) = large jobs first; "small" = small jobs first (PriorityFavorSmall); "relative" =
        GPUs / minutes of the time limit (SMALL_RELATIVE_TO_TIME)
    limits : time limits of jobs: "user" (default) = ``estimate_s`` of the workload; "oracle" = true run times on the
        slowest placement, which makes the scheduler clairvoyant
    default_limit_s : time limit [s] of jobs without ``estimate_s`` (DefaultTime), default 1 day
    queue_depth : jobs that the main pass looks at (default_queue_depth), default 100
    backfill : "conservative" (default), "easy" or "none"
    bf_interval_s : least time [s] between two backfill cycles, default 30; 0 = a cycle at every event
    bf_window_s : how far plans look ahead [s], default 1 day. It should be as long as the longest time limit
    bf_resolution_s : length [s] of a slot of the plan, default 60; ends of jobs are rounded up to slots
    bf_max_job_test : jobs that a cycle looks at, default 100
    bf_max_job_user : of these, jobs of one tenant; default 0 = any number
    bf_max_job_start : jobs that a cycle starts; default 0 = any number
    bf_min_prio_reserve : jobs of lower priority get no plan, default 0
    preempt : "off" (default); "class" = a job that is first in the queue and does not fit preempts jobs of lower
        priority classes, and jobs of higher classes come first in the queue; "tier" = likewise for jobs of partitions
        of lower tiers (PreemptType=partition_prio); "qos" = likewise for jobs of the QOS that its own QOS lists
        (PreemptType=qos)
    youngest_first : False (default) = jobs of the lowest class are preempted first; True = the latest starts
    preempt_exempt_s : time [s] for which a job runs before it may be preempted (PreemptExemptTime), default 0
    placement : placement rule of all jobs; default best fit
    partition_weight : weight of the partition's priority / the highest of all partitions (PriorityWeightPartition),
        default 0
    bf_one_resv_per_job : False (default) = a job that names several partitions may have a plan in each of them; True =
        only in the first that gets one
    grace_s : with preempt=class, time [s] for which a victim runs on before it is preempted (GraceTime), default 0.
        With preempt=tier, partitions have their own, and with preempt=qos, QOS

    Notes
    -----
    Ties of priority: the earliest arrival, then the lowest id. Plans are numbers of GPUs, not particular ones; if
    some job demands a number of nodes, they are particular nodes, and those for later reserve whole nodes. A
    tenant's limits ``most`` and ``jobs`` are those of an association (GrpTRES, GrpJobs): jobs over them, or over
    limits of their QOS (:class:`gpusched_env.problem.qos.Qos`), wait and block no others. A job that names several
    partitions is in the queue once for each; each of these requests counts as a job in ``queue_depth`` and
    ``bf_max_job_*``.
    docs/slurm.md has the details, and the deviations from Slurm. A cycle takes O(running jobs + slots + tested jobs x
    slots).

    References
    ----------
    A. Yoo, M. Jette, M. Grondona, "SLURM: Simple Linux Utility for Resource Management", JSSPP 2003; Slurm's
    documentation: "Multifactor Priority Plugin", "Fair Tree Fairshare Algorithm", "Scheduling Configuration Guide",
    "Preemption".
    """

    policy: ClassVar = next_slurm
    age_weight: float = 0.0
    fair_share_weight: float = 0.0
    size_weight: float = 0.0
    qos_weight: float = 0.0
    gpu_weight: float = 0.0
    max_age_s: float = 604_800.0
    fair_share: str = "tree"
    damping: float = 1.0
    decay_half_life_s: float = 604_800.0
    calc_period_s: float = 300.0
    size_factor: str = "large"
    limits: str = "user"
    default_limit_s: float = 86_400.0
    queue_depth: int = 100
    backfill: str = "conservative"
    bf_interval_s: float = 30.0
    bf_window_s: float = 86_400.0
    bf_resolution_s: float = 60.0
    bf_max_job_test: int = 100
    bf_max_job_user: int = 0
    bf_max_job_start: int = 0
    bf_min_prio_reserve: float = 0.0
    preempt: str = "off"
    youngest_first: bool = False
    preempt_exempt_s: float = 0.0
    placement: str = "pack"
    partition_weight: float = 0.0
    bf_one_resv_per_job: bool = False
    grace_s: float = 0.0

    relies_on_decisions = True  # a cycle counts as done, whether or not its starts were carried out
    name = "slurm"

    def __post_init__(self) -> None:
        """Check the parameters."""
        check("slurm", self, **KNOWN)
        if self.bf_window_s / self.bf_resolution_s > MOST_SLOTS:
            raise SchedulerError(f"slurm: bf_window_s / bf_resolution_s is more than {MOST_SLOTS:,}: enlarge the slots")
        rule_number(self.placement)
        if shares_by(self.placement):
            raise SchedulerError(f"slurm: placement {self.placement!r} shares GPUs; choose a rule that does not")
        self.clairvoyant = self.limits == "oracle"
        self.needs = () if self.clairvoyant or self.backfill == "none" else ("estimates",)
        self._past: PastUsage | None = None
        self._shares: tuple[TenantTree, FairTree] | None = None

    def remember(self, past: PastUsage) -> None:
        """Begin runs with this usage of tenants, for a run that is taken over (:func:`simulator.begin`)."""
        self._past = past

    def begin(self, simulation: Simulation, alone: bool) -> SlurmState:
        """Begin with an empty queue, and with the usage of the past if there is one."""
        own = state_of(simulation, self)
        if self._past is not None:
            recall(own, self._past, simulation.instance.tenancy[0].names)
        self.assist(simulation, own)
        return own

    def assist(self, simulation: Simulation, own: SlurmState) -> None:
        """Compute the fair-share factors of the leaves from the decayed usage, once in a period."""
        if self.fair_share_weight == 0.0:
            return
        tree = simulation.instance.tenancy[0]
        if self._shares is None or self._shares[0] is not tree:
            self._shares = tree, FairTree(tree.parent, tree.weight)
        fair = self._shares[1]
        own.factor[:] = fair.ranked(own.usage) if self.fair_share == "tree" else fair.classic(own.usage, self.damping)
