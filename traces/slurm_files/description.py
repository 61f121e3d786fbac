"""What Slurm's files say of a cluster: nodes, partitions, and how jobs are ordered."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from gpusched_env.problem.cluster import Cluster

UP, RESERVED, MAINTENANCE, DRAINED, DOWN, FUTURE, UNKNOWN = (
    "up", "reserved", "maintenance", "drained", "down", "future", "unknown",
)  # fmt: skip
# Word or mark of a state -> condition. Of several, the last in CONDITIONS decides. Other words mean that a node is up.
WORDS: Final = {
    "UNKNOWN": UNKNOWN, "UNK": UNKNOWN, "FUTURE": FUTURE, "FUTR": FUTURE,
    "DOWN": DOWN, "ERROR": DOWN, "FAIL": DOWN, "FAILG": DOWN, "FAILING": DOWN, "INVAL": DOWN, "INVALID": DOWN,
    "INVALID_REG": DOWN, "NOT_RESPONDING": DOWN, "NO_RESPOND": DOWN, "*": DOWN,
    "DRAIN": DRAINED, "DRAINED": DRAINED, "DRAINING": DRAINED, "DRNG": DRAINED,
    "MAINT": MAINTENANCE, "$": MAINTENANCE, "RESERVED": RESERVED, "RESV": RESERVED,
}  # fmt: skip
CONDITIONS: Final = (UP, RESERVED, MAINTENANCE, DRAINED, DOWN, UNKNOWN, FUTURE)
MARKS: Final = "*~#$-@+!%^"  # marks that sinfo appends to a state


@dataclass(frozen=True, slots=True)
class SlurmNode:
    """A node.

    Parameters
    ----------
    name : NodeName
    gpus : GPUs of ``gpu_type`` [GPU]; 0 = a node without GPUs
    gpu_type : type of the GPUs in Slurm's files; "" = not told
    switch : leaf switch or block; "" = not told
    state : state when the file was written, such as ``MIXED+DRAIN`` or ``idle*``; "" = not told
    features : Feature, or AvailableFeatures
    weight : Weight; Slurm fills nodes of low weight first
    """

    name: str
    gpus: int
    gpu_type: str = ""
    switch: str = ""
    state: str = ""
    features: tuple[str, ...] = ()
    weight: int = 1

    @property
    def condition(self) -> str:
        """One of CONDITIONS: what the state means for new jobs."""
        words = self.state.upper().split("+")
        found = {WORDS.get(word.rstrip(MARKS), UP) for word in words}
        found |= {WORDS.get(mark, UP) for word in words for mark in word if mark in MARKS}
        return UNKNOWN if not self.state else max(found, key=CONDITIONS.index)


@dataclass(frozen=True, slots=True)
class SlurmPartition:
    """A partition.

    Parameters
    ----------
    name : PartitionName
    nodes : names of its nodes, also of those without GPUs
    max_time_s : MaxTime [s]; inf = unlimited
    default_time_s : DefaultTime [s]; None = not set, so that MaxTime is the limit of a job that names none
    priority_tier : PriorityTier; jobs of a higher tier are considered first
    priority_factor : PriorityJobFactor, part of a job's priority
    default : whether jobs that name no partition go here
    state : UP, DOWN (jobs wait), DRAIN (no new jobs) or INACTIVE
    preempt_mode : PreemptMode of the partition; "" = that of the cluster
    grace_s : GraceTime between the notice and the end of a preempted job [s]
    settings : all keys of its lines in lower case -> values
    """

    name: str
    nodes: tuple[str, ...] = ()
    max_time_s: float = math.inf
    default_time_s: float | None = None
    priority_tier: int = 1
    priority_factor: int = 1
    default: bool = False
    state: str = "UP"
    preempt_mode: str = ""
    grace_s: float = 0.0
    settings: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def limit_s(self) -> float:
        """Limit of a job that names none [s]; inf = unlimited."""
        return self.max_time_s if self.default_time_s is None else self.default_time_s


@dataclass(frozen=True, slots=True)
class SlurmScheduling:
    """How jobs are ordered and started; what the files do not say has Slurm's default.

    Parameters
    ----------
    backfill : whether SchedulerType is sched/backfill
    parameters : SchedulerParameters -> value; "" = a flag such as bf_continue
    weights : age, assoc, fairshare, jobsize, partition, qos -> PriorityWeight...; those of weight 0 are left out
    tres_weights : PriorityWeightTRES, such as gres/gpu -> weight
    priority_type : PriorityType; priority/basic = first in, first out
    priority_flags : PriorityFlags in upper case, such as FAIR_TREE
    favor_small : PriorityFavorSmall
    max_age_s : PriorityMaxAge [s]: age at which the factor of the age is 1
    half_life_s : PriorityDecayHalfLife [s]; 0 = usage does not decay
    calc_period_s : PriorityCalcPeriod [s]
    preempt_type : PreemptType: preempt/none, preempt/partition_prio or preempt/qos
    preempt_mode : PreemptMode in upper case, such as OFF, REQUEUE, CANCEL or SUSPEND,GANG
    exempt_s : PreemptExemptTime [s]: time for which a job runs before it may be preempted
    damping : FairShareDampeningFactor
    accounted : AccountingStorageTRES; GPUs are accounted only if it has gres/gpu
    """

    backfill: bool = True
    parameters: Mapping[str, str] = field(default_factory=dict)
    weights: Mapping[str, float] = field(default_factory=dict)
    tres_weights: Mapping[str, float] = field(default_factory=dict)
    priority_type: str = "priority/multifactor"
    priority_flags: tuple[str, ...] = ()
    favor_small: bool = False
    max_age_s: float = 7 * 86_400.0
    half_life_s: float = 7 * 86_400.0
    calc_period_s: float = 300.0
    preempt_type: str = "preempt/none"
    preempt_mode: str = "OFF"
    exempt_s: float = 0.0
    damping: float = 1.0
    accounted: tuple[str, ...] = ()


@dataclass(frozen=True)
class SlurmCluster:
    """A cluster of Slurm.

    Parameters
    ----------
    cluster : its nodes with GPUs; the leaf switches, or blocks, are its racks
    nodes : row i is node i of ``cluster``; a node with GPUs of several types is a node for each type, of one name
    others : nodes that are not in ``cluster``: without GPUs, or FUTURE
    partitions : in the order of the files
    scheduling : how jobs are ordered and started
    settings : all other keys of slurm.conf in lower case -> values; what it has, it says
    """

    cluster: Cluster
    nodes: tuple[SlurmNode, ...]
    others: tuple[SlurmNode, ...] = ()
    partitions: tuple[SlurmPartition, ...] = ()
    scheduling: SlurmScheduling = SlurmScheduling()
    settings: Mapping[str, str] = field(default_factory=dict, repr=False)

    def rows_of(self, partition: SlurmPartition) -> tuple[int, ...]:
        """Return the rows of ``nodes``, and so of ``cluster.nodes``, that belong to a partition."""
        own = set(partition.nodes)
        return tuple(row for row, node in enumerate(self.nodes) if node.name in own)

    def gpus_of(self, partition: SlurmPartition) -> int:
        """Return the number of GPUs of a partition [GPU]."""
        return sum(self.nodes[row].gpus for row in self.rows_of(partition))

    @property
    def conditions(self) -> dict[str, int]:
        """Condition -> number of nodes of ``cluster`` in it, in the order of CONDITIONS; without zeros."""
        found = [node.condition for node in self.nodes]
        return {condition: found.count(condition) for condition in CONDITIONS if condition in found}
