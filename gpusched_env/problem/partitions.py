"""Partitions and reservations: which nodes each job may use, and when."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from gpusched_env.errors import ScenarioError, WorkloadError, unknown_name
from gpusched_env.problem.cluster import Cluster
from gpusched_env.problem.node_counts import demands_of, room_in, usable_rooms
from gpusched_env.problem.performance import known_types
from gpusched_env.problem.workload import GPU_TYPES, Workload
from gpusched_env.support.plain_data import set_fields

if TYPE_CHECKING:
    from gpusched_env.problem.instance import Semantics

__all__ = ["Partition", "Partitions", "Reservation"]

PREEMPT_MODES: Final = ("requeue", "off")
NO_MODES: Final = {  # Slurm's other modes, and why they are refused
    "cancel": "no decision ends a running job; take requeue",
    "suspend": "a gang without GPUs cannot stay in their memory; take requeue",
    "gang": "gangs do not take turns on GPUs; take requeue",
    "within": "jobs of one partition or QOS do not preempt each other; take off or requeue",
}
PARTITION: Final = "partition"  # attribute: name of the partition to which each job is submitted
QUEUE: Final = "queue"  # attribute: name of the queue of each job


@dataclass(frozen=True)
class Partition:
    """A named set of nodes, and the limits of the jobs that are submitted to it. Partitions may overlap.

    Parameters
    ----------
    name : name, unique among the partitions
    nodes : numbers of its nodes, such as ``0-3,8``; empty = all nodes
    gpu_type : of these, only the nodes of this type; empty = any type
    max_time_s : longest time limit of a job [s] (MaxTime)
    default_time_s : time limit of jobs that give none [s] (DefaultTime); None = ``max_time_s``
    max_gpus : most GPUs of a job [GPU]; None = any number
    default : whether jobs that name no partition belong to it
    tier : jobs of a higher tier go first (PriorityTier), >= 0
    priority : factor of the priority of its jobs, relative to other partitions (PriorityJobFactor), >= 0
    preempt_mode : what happens to its jobs if jobs of a higher tier need their GPUs (PreemptMode): "requeue" = they are
        preempted and wait again, "off" = nothing
    grace_s : time for which they run on before they are preempted [s] (GraceTime), >= 0
    """

    name: str
    nodes: str = ""
    gpu_type: str = ""
    max_time_s: float = math.inf
    default_time_s: float | None = None
    max_gpus: int | None = None
    default: bool = False
    tier: int = 1
    priority: float = 1.0
    preempt_mode: str = "requeue"
    grace_s: float = 0.0

    def __post_init__(self) -> None:
        """Check the values."""
        where = f"partition {self.name!r}"
        check_mode(where, self.preempt_mode, self.grace_s)
        _check_set(where, self.name, self.nodes)
        if not self.max_time_s > 0:
            raise ScenarioError(f"{where}: max_time_s is {self.max_time_s}: give a number of seconds > 0")
        if self.default_time_s is not None and not 0 < self.default_time_s <= self.max_time_s:
            raise ScenarioError(f"{where}: default_time_s is {self.default_time_s}: give 0 < seconds <= max_time_s")
        if self.max_gpus is not None and self.max_gpus < 1:
            raise ScenarioError(f"{where}: max_gpus is {self.max_gpus}: give a number of GPUs >= 1, or leave it out")
        if self.tier < 0:
            raise ScenarioError(f"{where}: tier is {self.tier}: give a whole number >= 0")
        if not (self.priority >= 0 and math.isfinite(self.priority)):
            raise ScenarioError(f"{where}: priority is {self.priority}: give a finite number >= 0")


@dataclass(frozen=True)
class Reservation:
    """Nodes that are closed from ``start_s`` to ``end_s`` to all jobs but those of the named tenants.

    Parameters
    ----------
    name : name in error messages
    start_s, end_s : simulated times [s]
    nodes, gpu_type : as for a partition
    tenants : leaves of the tree of tenants whose jobs may use the nodes; empty = nobody, as for maintenance
    planned : whether schedulers know it before it begins; False = a fault
    drain : whether gangs that hold the nodes run on, as on drained nodes: only nothing more starts there
    """

    name: str
    start_s: float
    end_s: float
    nodes: str = ""
    gpu_type: str = ""
    tenants: tuple[str, ...] = ()
    planned: bool = True
    drain: bool = False

    def __post_init__(self) -> None:
        """Check the values."""
        where = f"reservation {self.name!r}"
        _check_set(where, self.name, self.nodes)
        if not 0 <= self.start_s < self.end_s < math.inf:
            raise ScenarioError(
                f"{where}: start_s is {self.start_s} and end_s {self.end_s}: give 0 <= start_s < end_s, finite"
            )
        if self.tenants and not self.planned:
            raise ScenarioError(f"{where}: it is not planned, so it closes its nodes to all; leave out its tenants")


@dataclass(frozen=True)
class Partitions:
    """The partitions and reservations of a scenario.

    Parameters
    ----------
    partitions : in any order; empty = one partition of all nodes without limits
    reservations : in any order
    by : attribute of the workload that names the partition of each job, such as ``virtual_cluster``, ``queue`` or
        ``tenant``, or several with commas between them. Without this attribute, or with an empty name, a job belongs
        to the default partition
    """

    partitions: tuple[Partition, ...] = ()
    reservations: tuple[Reservation, ...] = ()
    by: str = PARTITION

    def __post_init__(self) -> None:
        """Check the names."""
        for what, listed in (("partition", self.partitions), ("reservation", self.reservations)):
            refuse_twice(f"partitions: {what} ", [item.name for item in listed], "each")
        if sum(partition.default for partition in self.partitions) > 1:
            raise ScenarioError("partitions: several partitions are the default; keep one")

    def as_dict(self) -> dict[str, Any]:
        """Return plain data for JSON; fields with their default values are left out."""
        partitions, reservations = (
            [set_fields(item) for item in rows] for rows in (self.partitions, self.reservations)
        )
        return {"partitions": partitions, "reservations": reservations, "by": self.by}


class Choices(NamedTuple):
    """The partitions in which each job may start: those that it names and whose limits it keeps.

    Those of a job are in the order of their tiers, the highest first, then in that in which the job names them. O =
    number of pairs of a job and a partition, ascending by job.
    """

    first: np.ndarray  # int32 [J + 1], first pair of each job
    job: np.ndarray  # int32 [O], row of the job
    partition: np.ndarray  # int32 [O]
    node_set: np.ndarray  # int32 [O]

    @property
    def several(self) -> bool:
        """Whether some job has several partitions."""
        return len(self.job) > len(self.first) - 1

    @property
    def further(self) -> np.ndarray:
        """Boolean [O]: whether the pair is not the first of its job."""
        found = np.ones(len(self.job), bool)
        found[self.first[:-1]] = False
        return found


class NodeSets(NamedTuple):
    """The nodes that jobs may use. Jobs of one partition with the same GPU types and reservations share a set.

    S = number of sets, R = number of reservations, N = number of nodes, P = number of partitions.
    """

    of_job: np.ndarray  # int32 [J], set of each job; of several partitions, that of the first
    partition: np.ndarray  # int32 [J], partition of each job, the first of several
    belongs: np.ndarray  # Boolean [S, N], whether a node is in the partition of the set, and of its GPU types
    reserved: np.ndarray  # Boolean [R, N], nodes of each reservation
    barred: np.ndarray  # Boolean [R, S], whether the reservation closes its nodes to the jobs of the set
    start_s: np.ndarray  # float64 [R] [s]
    end_s: np.ndarray  # float64 [R] [s]
    partitions: tuple[Partition, ...]  # P of them
    planned: np.ndarray  # Boolean [R], whether schedulers know the reservation before it begins
    choices: Choices
    drains: np.ndarray  # Boolean [R], whether gangs run on at the beginning of the reservation

    def limits_s(self, claimed_s: np.ndarray, partition: np.ndarray) -> np.ndarray:
        """float64 [n] [s]: time limits of jobs: what they claim, else that of their partitions; inf = none."""
        default = [p.max_time_s if p.default_time_s is None else p.default_time_s for p in self.partitions]
        return np.where(np.isnan(claimed_s), np.array(default)[partition], claimed_s)

    def choice_of(self, job: np.ndarray, gang: np.ndarray, node: np.ndarray) -> np.ndarray:
        """int64 [G]: the first pair of each gang's job whose partition has all nodes of the gang, else its first pair.

        Parameters
        ----------
        job : int [G], row of each gang's job
        gang, node : int [n], gangs and the nodes that they hold
        """
        found = self.choices.first[job].astype(np.int64)
        left = np.ones(len(job), bool) if self.choices.several else np.zeros(len(job), bool)
        at = found.copy()
        while left.any():
            outside = ~self.belongs[self.choices.node_set[at[gang]], node]
            inside = np.bincount(gang[outside], minlength=len(job)) == 0
            found = np.where(left & inside, at, found)
            left &= ~inside & (at + 1 < self.choices.first[job + 1])
            at = np.where(left, at + 1, at)
        return found

    def closes_s(self, rules: Semantics) -> np.ndarray:
        """float64 [R] [s]: time at which each reservation closes its nodes, so that they are free at its start.

        Where gangs run on, the nodes close at the start.
        """
        return np.where(self.drains, self.start_s, closing_times(self.start_s, rules))


def closing_times(start_s: np.ndarray, rules: Semantics) -> np.ndarray:
    """float64 [n] [s]: when nodes close that must be free at some times: gangs that must leave are checkpointed first.

    With rounds, the nodes close at the last round before.
    """
    times = np.maximum(start_s - rules.checkpoint_s, 0.0)
    late = times + rules.checkpoint_s > np.maximum(start_s, rules.checkpoint_s)
    times = np.where(late, np.nextafter(times, -np.inf), times)
    if rules.round_s > 0:
        rounds = np.floor(times / rules.round_s)
        times = np.where(rounds * rules.round_s > times, rounds - 1, rounds) * rules.round_s
    return times


class AskedTypes(NamedTuple):
    """The GPU types that jobs ask for, in the attribute GPU_TYPES; K = number of different demands."""

    of_job: np.ndarray  # int [J], demand of each job
    nodes: np.ndarray  # Boolean [K, N], nodes of the types
    names: tuple[str, ...]  # K of them, as the jobs write them
    ignored: int  # jobs that ask for types that the cluster lacks, and may use all nodes

    @classmethod
    def of(cls, workload: Workload, cluster: Cluster) -> AskedTypes:
        """Return the demands of all jobs; letters may be of either case.

        A job that asks only for types that the cluster lacks may use all nodes, and is counted: how would a log run on
        other machines?
        """
        texts, of_job = np.array([""]), np.zeros(len(workload), np.intp)
        if GPU_TYPES in workload.attributes:
            texts, of_job = np.unique(workload.attributes[GPU_TYPES].astype(str), return_inverse=True)
        types = [name.casefold() for name in cluster.gpu_types]
        asked = [{part.strip().casefold() for part in text.split("|")} - {""} for text in texts.tolist()]
        lost = np.array([bool(names) and names.isdisjoint(types) for names in asked])
        able = np.array(
            [[not names or lack or name in names for name in types] for names, lack in zip(asked, lost, strict=True)]
        )
        return cls(of_job, able[:, cluster.nodes["gpu_type"]], tuple(texts.tolist()), int(lost[of_job].sum()))


def node_sets(
    rules: Partitions, cluster: Cluster, workload: Workload, types: AskedTypes, leaves: np.ndarray, known: Sequence[str]
) -> NodeSets:
    """Compile partitions and reservations for the jobs of a workload.

    Parameters
    ----------
    types : the GPU types that the jobs ask for
    leaves : str [J], name of each job's tenant
    known : names of all leaves of the tree of tenants, also of those without jobs
    """
    partitions = rules.partitions or (Partition("all", default=True),)
    # Boolean [P, K, N]: nodes of each partition and each demand for GPU types
    inside = np.array([nodes_of(item, cluster) for item in partitions])[:, None] & types.nodes
    job, partition = _partitions_of(rules, partitions, workload)
    limits = [limit for limit, _, _ in _limits(partitions, inside, cluster, workload, types, job, partition)]
    if len(job) > len(workload):
        limits.append(_unable(inside, cluster, workload, types, job, partition))
    kept = _kept(job, np.logical_or.reduce(limits))
    job, partition = job[kept], partition[kept]
    for item in rules.reservations:
        for name in item.tenants:
            if name not in known:
                raise ScenarioError(f"reservation {item.name!r}: {unknown_name('tenant', name, known)}")
    rights = [np.isin(leaves, item.tenants)[job] for item in rules.reservations]
    found, of_pair = np.unique(np.stack([partition, types.of_job[job], *rights]), axis=1, return_inverse=True)
    of_pair = of_pair.reshape(-1).astype(np.int32)
    first = np.searchsorted(job, np.arange(len(workload) + 1)).astype(np.int32)
    shape = len(rules.reservations), len(cluster.nodes)
    reserved = [nodes_of(item, cluster) for item in rules.reservations]
    sets = NodeSets(
        of_pair[first[:-1]],
        partition[first[:-1]],
        inside[found[0], found[1]],
        np.array(reserved, bool).reshape(shape),
        found[2:] == 0,
        np.array([r.start_s for r in rules.reservations], float),
        np.array([r.end_s for r in rules.reservations], float),
        partitions,
        np.array([r.planned for r in rules.reservations], bool),
        Choices(first, job, partition, of_pair),
        np.array([r.drain for r in rules.reservations], bool),
    )
    _refuse_over_limits(sets, inside, cluster, workload, types)
    return sets


def only_partition(by: str) -> str:
    """Tell that jobs have the attribute PARTITION and not ``by``; a column of that name used to be read as QUEUE."""
    return f"unknown attribute {by!r}; the jobs have {PARTITION!r}: set by = {PARTITION!r}, or leave out that column"


def _kept(job: np.ndarray, bad: np.ndarray) -> np.ndarray:
    """Boolean [O]: the pairs that remain: those that are not bad; of a job that has no other ones, the first."""
    begins = np.ones(len(job), bool)
    begins[1:] = job[1:] != job[:-1]
    lost = np.bincount(job[~bad], minlength=int(job.max(initial=-1)) + 1) == 0
    return ~bad | (begins & lost[job])


def _partitions_of(
    rules: Partitions, partitions: Sequence[Partition], workload: Workload
) -> tuple[np.ndarray, np.ndarray]:
    """Return the row and the partition of each pair of a job and a partition that it names; int32 [O] each."""
    rows = {item.name: row for row, item in enumerate(partitions)}
    default = next((row for row, item in enumerate(partitions) if item.default), -1)
    if rules.by not in workload.attributes:
        if rules.by == QUEUE and PARTITION in workload.attributes:
            raise ScenarioError(f"partitions.by: {only_partition(rules.by)}")
        if default < 0:
            known = unknown_name("attribute", rules.by, workload.attributes)
            raise ScenarioError(f"partitions.by: {known}; choose one of them, or make one partition the default")
        return np.arange(len(workload), dtype=np.int32), np.full(len(workload), default, np.int32)
    texts, of_job = np.unique(workload.attributes[rules.by].astype(str), return_inverse=True)
    named = []
    for text in texts.tolist():
        names = [text] if text in rows else list(dict.fromkeys(part.strip() for part in text.split(",")))
        if "" in names and "," in text:
            raise ScenarioError(f"partitions: a job names {text!r}, which has an empty name; correct the list")
        found = [rows.get(name, default if name == "" else -1) for name in names]
        if -1 in found:
            name = names[found.index(-1)]
            told = unknown_name("partition", name, rows) if name else "no partition, and none is the default"
            raise ScenarioError(f"partitions: a job names {told}; list it, or leave out such jobs")
        named.append(sorted(found, key=lambda row: -partitions[row].tier))
    counts = np.array([len(found) for found in named])
    begins = np.cumsum(counts) - counts
    job = np.repeat(np.arange(len(workload), dtype=np.int32), counts[of_job])
    of_pair = of_job[job]
    at = np.arange(len(job)) - np.searchsorted(job, job) + begins[of_pair]
    return job, np.array([row for found in named for row in found], np.int32)[at]


def _limits(
    partitions: Sequence[Partition],
    inside: np.ndarray,
    cluster: Cluster,
    workload: Workload,
    types: AskedTypes,
    job: np.ndarray,
    partition: np.ndarray,
) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Return for each kind of limit, and for each pair of a job and a partition: is it over, what it wants, the limit.

    The kinds are the GPUs of the partition, ``max_gpus`` and ``max_time_s``.
    """
    gpus, claimed_s = workload.jobs["gpus"][job], workload.jobs["estimate_s"][job]
    usable, demand = usable_rooms(workload, cluster)
    room = room_in(inside, usable)[partition, types.of_job[job], demand[job]]
    most = np.array([np.inf if p.max_gpus is None else p.max_gpus for p in partitions])[partition]
    longest = np.array([p.max_time_s for p in partitions])[partition]
    return [(gpus > room, gpus, room), (gpus > most, gpus, most), (claimed_s > longest, claimed_s, longest)]


def _unable(
    inside: np.ndarray, cluster: Cluster, workload: Workload, types: AskedTypes, job: np.ndarray, partition: np.ndarray
) -> np.ndarray:
    """Boolean [O]: whether the partition of a pair has too few GPUs of the types on which the job's model runs."""
    runs = np.isfinite(workload.profiles.compute_s[:, known_types(workload, cluster)])
    kinds = range(len(cluster.gpu_types))
    usable, demand = usable_rooms(workload, cluster)
    gpus = np.stack([room_in(inside & (cluster.nodes["gpu_type"] == kind), usable) for kind in kinds], axis=3)
    room = (runs[workload.jobs["profile"][job]] * gpus[partition, types.of_job[job], demand[job]]).sum(axis=1)
    lacks: np.ndarray = room < workload.jobs["gpus"][job]
    return lacks


def _refuse_over_limits(
    sets: NodeSets, inside: np.ndarray, cluster: Cluster, workload: Workload, types: AskedTypes
) -> None:
    """Raise an error about the first job that exceeds a limit of its partition, and so could never start."""
    rows = np.arange(len(workload), dtype=np.int32)
    kinds = ("GPUs in all", "give it more nodes"), ("max_gpus", "raise it"), ("max_time_s", "raise it")
    found = _limits(sets.partitions, inside, cluster, workload, types, rows, sets.partition)
    for (bad, wanted, limit), (what, remedy) in zip(found, kinds, strict=True):
        if bad.any():
            row = int(np.argmax(bad))
            hint = ""
            wants = f"{wanted[row]:g} {'s' if what == 'max_time_s' else 'GPUs'}"
            if asked := types.names[types.of_job[row]]:
                wants += f" of the types {asked}"
            if what == "GPUs in all" and (asked or demands_of(workload, cluster) is not None):
                hint = " (ignore_types and ignore_nodes play them anywhere)"
            raise WorkloadError(
                f"workload {workload.name!r}, job {workload.jobs['id'][row]}: it wants {wants}, and its partition "
                f"{sets.partitions[sets.partition[row]].name!r} has {what} {limit[row]:g}; {remedy}, or leave out such "
                f"jobs{hint}"
            )


def refuse_twice(where: str, names: Sequence[str], what: str) -> None:
    """Refuse a name that is listed twice; ``where`` begins the message, and ``what`` needs its own name."""
    if (twice := next((name for name in names if names.count(name) > 1), None)) is not None:
        raise ScenarioError(f"{where}{twice!r} is listed twice; give {what} its own name")


def check_mode(where: str, mode: str, grace_s: float) -> None:
    """Refuse a mode of preemption, or a grace time [s], that there is not."""
    for word in str(mode).lower().split(","):  # Slurm writes capitals, and lists such as SUSPEND,GANG
        if word.strip() in NO_MODES:
            raise ScenarioError(f"{where}: preempt_mode {mode!r} is not supported: {NO_MODES[word.strip()]}")
    if mode not in PREEMPT_MODES:
        raise ScenarioError(f"{where}: {unknown_name('preempt_mode', str(mode), PREEMPT_MODES)}")
    if not 0 <= grace_s < math.inf:
        raise ScenarioError(f"{where}: grace_s is {grace_s}: give a finite number of seconds >= 0")


def _check_set(where: str, name: str, nodes: str) -> None:
    if not name:
        raise ScenarioError(f"{where}: the name is empty; give it one")
    if nodes and not re.fullmatch(r"\d+(-\d+)?(,\d+(-\d+)?)*", nodes):
        raise ScenarioError(f"{where}: nodes is {nodes!r}: write numbers and ranges, such as 0-3,8")


def nodes_of(item: Partition | Reservation, cluster: Cluster) -> np.ndarray:
    """Boolean [N]: the nodes of a partition or a reservation."""
    where = f"{type(item).__name__.lower()} {item.name!r}"
    nodes, gpu_type = item.nodes, item.gpu_type
    found = np.full(len(cluster.nodes), not nodes)
    for part in nodes.split(",") if nodes else ():
        first, last = (int(number) for number in (part.split("-") * 2)[:2])
        if last < first or last >= len(cluster.nodes):
            raise ScenarioError(
                f"{where}: nodes {part!r}: give numbers from 0 to {len(cluster.nodes) - 1}, the lower one first"
            )
        found[first : last + 1] = True
    if gpu_type:
        if gpu_type not in cluster.gpu_types:
            raise ScenarioError(f"{where}: {unknown_name('GPU type', gpu_type, cluster.gpu_types)}")
        found &= cluster.nodes["gpu_type"] == cluster.gpu_types.index(gpu_type)
    if not found.any():
        raise ScenarioError(f"{where}: it has no nodes; give nodes of its GPU type")
    return found
