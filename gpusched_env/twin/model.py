"""The twin of a cluster as a file: machines, tenants, policy, and how well a replay of the log agrees with the log."""

from __future__ import annotations

import dataclasses
import json
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from gpusched_env.errors import GpuschedError, ScenarioError
from gpusched_env.problem.cluster import Cluster, NodeGroup
from gpusched_env.problem.instance import Instance, Semantics
from gpusched_env.problem.node_counts import room_in, usable_rooms
from gpusched_env.problem.partitions import PARTITION as SET
from gpusched_env.problem.partitions import AskedTypes, Partition, Partitions, Reservation, nodes_of
from gpusched_env.problem.qos import QOS
from gpusched_env.problem.tenants import PRIORITY, ROOT, Tenant, Tenants
from gpusched_env.problem.workload import MAX_NODES, MIN_NODES, TENANT, Profiles, Workload
from gpusched_env.scenarios.convert import build
from gpusched_env.support.files import write_whole
from gpusched_env.twin.files import read_json
from gpusched_env.twin.policies import with_parameters
from gpusched_env.twin.sacctmgr import qos_for

VERSION: Final = 1  # of the file
PARTITION: Final = "virtual_cluster"  # attribute: partition of each job
WAIT: Final = "wait_s"  # attribute: recorded wait [s]
EARLIER: Final = "earlier_s"  # attribute: time of runs of Kueue before the recorded start [s]
CLUSTER_QUEUE: Final = "cluster_queue"  # attribute: ClusterQueue of each job of Kueue
ALL: Final = "all"  # partition, size or tenant in a row about all jobs; leaf of jobs that name no tenant
NOBODY: Final = "/"  # leaf of jobs that name no tenant, where an account is named ALL


@dataclass(frozen=True)
class Pool:
    """Machines that run the jobs of some partitions; pools share no machine, and each is played alone.

    Parameters
    ----------
    name : name
    groups : the machines
    partitions : names of the partitions whose jobs run here; empty = the jobs of all partitions
    sets : the nodes of each of these partitions, and its tier; empty = any job may run on any machine
    reservations : times in which nodes were out of use
    node_names : names of the nodes, in their order; a node with GPUs of several types has several rows; empty = unknown

    Raises
    ------
    ScenarioError : no machines, sets of other partitions, or names of other nodes
    """

    name: str
    groups: tuple[NodeGroup, ...]
    partitions: tuple[str, ...] = ()
    sets: tuple[Partition, ...] = ()
    reservations: tuple[Reservation, ...] = ()
    node_names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Check that there are machines, and one set for each partition."""
        if not self.groups:
            raise ScenarioError(f"pool {self.name!r}: it has no machines; list node groups")
        if self.sets and sorted(one.name for one in self.sets) != sorted(self.partitions):
            raise ScenarioError(f"pool {self.name!r}: sets must have one entry for each of its partitions")
        if self.node_names and len(self.node_names) != sum(group.count for group in self.groups):
            raise ScenarioError(f"pool {self.name!r}: node_names must have one name for each of its nodes")

    @property
    def cluster(self) -> Cluster:
        """The machines as a cluster."""
        return Cluster(self.groups)

    @property
    def numbers(self) -> dict[str, list[int]]:
        """Name of each node whose name is known -> its numbers."""
        found: dict[str, list[int]] = {}
        for number, name in enumerate(self.node_names):
            found.setdefault(name, []).append(number)
        return found

    def room_of(self, workload: Workload, names: np.ndarray) -> np.ndarray:
        """int64 [J]: GPUs of all machines that each job may use if it is in the partition of this name.

        Those that its number of nodes or its GPU types exclude do not count; 0 = not a partition of this pool.
        """
        cluster = self.cluster
        free, demand = usable_rooms(workload, cluster)  # [D, N]
        types = AskedTypes.of(workload, cluster)
        able = types.nodes  # [K, N]
        inside = {one.name: nodes_of(one, cluster) for one in self.sets}
        at = [inside.get(name, slice(None)) for name in self.partitions]
        of_name = zip(self.partitions, at, strict=True)
        room = {name: room_in(able[:, own], free[:, own]) for name, own in of_name}  # [K, D]
        otherwise = room_in(able, np.zeros_like(free) if self.partitions else free)
        different, of_job = np.unique(names, return_inverse=True)
        table = np.array([room.get(name, otherwise) for name in different.tolist()])
        return table[of_job, types.of_job, demand]


@dataclass(frozen=True)
class GroupScore:
    """How well predicted waits agree with recorded ones, for the scored jobs of one partition and size.

    Parameters
    ----------
    partition, size : names; ``ALL`` = any. A size is a range of gang sizes, such as "1" or "2-8"
    jobs : number of jobs
    recorded_median_s, predicted_median_s, recorded_mean_s, predicted_mean_s : waits [s]
    error_median_s, error_90_s : median and 90th percentile of abs(predicted - recorded) [s]
    bias_s : mean of predicted - recorded [s]
    rank_correlation : Spearman's rho of the waits; NaN = one of the two is constant
    distance : largest difference of the distribution functions of the waits, 0..1 (Kolmogorov-Smirnov)
    """

    partition: str
    size: str
    jobs: int
    recorded_median_s: float
    predicted_median_s: float
    recorded_mean_s: float
    predicted_mean_s: float
    error_median_s: float
    error_90_s: float
    bias_s: float
    rank_correlation: float
    distance: float


@dataclass(frozen=True)
class Score:
    """Agreement of a replay with the log after ``split_s``, which the fit has not seen.

    Parameters
    ----------
    groups : one row for all jobs, then rows by partition, by size, and by both
    held_error : mean over hours of abs(predicted - recorded part of the GPUs that jobs hold), until the last arrival
    held_recorded, held_predicted : part of the GPUs that jobs hold, from the first to the last arrival of the log
    unseen : whether the fit has not seen these jobs; False = nothing was held back
    """

    groups: tuple[GroupScore, ...] = ()
    held_error: float = math.nan
    held_recorded: float = math.nan
    held_predicted: float = math.nan
    unseen: bool = True

    @property
    def overall(self) -> GroupScore:
        """The row about all jobs."""
        if not self.groups:
            raise GpuschedError("twin: it has no score; fit it again with a log that is longer than its first part")
        return self.groups[0]


@dataclass(frozen=True)
class Remainder:
    """Something in the log that the twin does not explain.

    Parameters
    ----------
    what : what it is, in words
    jobs : number of jobs that it concerns
    hours : time of these jobs, or of the GPUs if ``unit`` says so
    unit : "job h" or "GPU h"
    """

    what: str
    jobs: int
    hours: float
    unit: str = "job h"


@dataclass(frozen=True)
class Twin:
    """A cluster and its policy, as fitted to a log.

    ``gpusched twin fit`` writes it as JSON with exactly these fields; times are in seconds since the first arrival of
    the log.

    Parameters
    ----------
    log : source of the log as given, ``FORMAT:PATH``
    scheduler : spec of the fitted policy, such as ``slurm:age_weight=1000,backfill=easy``. The class of a job in it is
        ``classes[its QOS] + partition_classes[its partition]``
    pools : machines, and the partitions that use them
    tenants : the tree of tenants and their shares; None = one tenant
    tenant_columns : attributes of a job whose values, joined by "/", are the name of its leaf: ``("account", "user")``
    classes, partition_classes : class of each QOS and of each partition, numbers >= 0; names that are missing have 0
    class_most : class whose factor in the priority is 1; 0 = no job has a class
    gpu_speeds : speed of each GPU type relative to the machines of the log; missing = 1
    local_queues : ``namespace/name`` of each LocalQueue of Kueue -> its ClusterQueue
    stopped : ClusterQueue or LocalQueue that is stopped -> its stopPolicy; forecasts start none of its jobs
    fewest_nodes : whether a job that tells no nodes runs on as few as hold it, in equal parts; False = on any
    split_s : end of the part of the log that was fitted [s]
    score : agreement on the rest of the log
    remainders : what the twin does not explain
    notes : choices and warnings of the fit, in sentences
    reading : options of ``read_trace`` with which the log was read
    version : layout of the file
    """

    log: str
    scheduler: str
    pools: tuple[Pool, ...]
    tenants: Tenants | None = None
    tenant_columns: tuple[str, ...] = ()
    classes: dict[str, float] = field(default_factory=dict)
    partition_classes: dict[str, float] = field(default_factory=dict)
    class_most: float = 0.0
    gpu_speeds: dict[str, float] = field(default_factory=dict)
    local_queues: dict[str, str] = field(default_factory=dict)
    stopped: dict[str, str] = field(default_factory=dict)
    fewest_nodes: bool = False
    split_s: float = 0.0
    score: Score = Score()
    remainders: tuple[Remainder, ...] = ()
    notes: tuple[str, ...] = ()
    reading: dict[str, Any] = field(default_factory=dict)
    version: int = VERSION

    def __post_init__(self) -> None:
        """Check what no other class checks."""
        if self.version != VERSION:
            raise ScenarioError(f"version is {self.version}: this release reads version {VERSION}; fit the twin again")
        if not self.pools:
            raise ScenarioError("pools is empty: give at least one pool of machines")
        listed = [partition for pool in self.pools for partition in pool.partitions]
        if len(set(listed)) < len(listed) or (len(self.pools) > 1 and not all(pool.partitions for pool in self.pools)):
            raise ScenarioError("pools: each partition must belong to exactly one pool")

    @property
    def gpus(self) -> int:
        """Number of GPUs of all pools."""
        return sum(group.count * group.gpus for pool in self.pools for group in pool.groups)

    @property
    def of_kueue(self) -> bool:
        """Whether its log is Kueue's."""
        return CLUSTER_QUEUE in self.tenant_columns

    def problems(self, workload: Workload) -> list[Problem]:
        """Return a playable problem for each pool that has jobs.

        Jobs that no pool can run are in no problem: their partition belongs to none, or their gang is too large.
        """
        rows = self.pool_of(workload)
        return [self.problem(number, workload, np.flatnonzero(rows == number)) for number in np.unique(rows[rows >= 0])]

    def problem(self, number: int, workload: Workload, rows: np.ndarray) -> Problem:
        """Return the problem of the pool of this number with the jobs ``rows``."""
        pool, chosen = self.pools[number], self.asking(workload.select(rows))
        cluster = pool.cluster
        speeds = np.array([self.gpu_speeds.get(name, 1.0) for name in cluster.gpu_types])
        jobs = chosen.jobs.copy()
        rules = Semantics()
        # Runs that were evicted include the costs of the preemption, which are no work.
        earlier_s = chosen.attributes.get(EARLIER, 0.0) - rules.checkpoint_s - rules.restore_s
        jobs["duration_s"] += np.maximum(earlier_s, 0.0)
        if (speeds != 1.0).any():  # recorded seconds are iterations of a machine of speed 1
            unit = Profiles.unit("V100").rows[0]
            row = {name: unit[name] for name in unit.dtype.names} | {"compute_s": 1.0 / speeds}
            profiles = Profiles.from_rows([row], cluster.gpu_types)
            jobs["iterations"], jobs["duration_s"] = jobs["duration_s"], np.nan
        else:
            profiles = Profiles.unit(*cluster.gpu_types)
        jobs["profile"] = 0
        told = {TENANT: self.leaves(chosen), PRIORITY: self.class_of(chosen)}
        divided = bool(pool.sets or pool.reservations)
        if divided:
            told[SET] = _lists_in(chosen, pool.partitions) if pool.sets else np.full(len(chosen), "")
        chosen = dataclasses.replace(chosen, jobs=jobs, profiles=profiles, attributes={**chosen.attributes, **told})
        sets = Partitions(pool.sets, pool.reservations) if divided else None
        instance = Instance(cluster, chosen, semantics=rules, tenants=self.tree_of(chosen), partitions=sets)
        return Problem.of(pool, instance, chosen, rows, self._spec(told[PRIORITY]))

    def without_outages(self) -> Twin:
        """Return the twin with all nodes in use at all times, for another time than that of its log."""
        return self.with_pools([dataclasses.replace(pool, reservations=()) for pool in self.pools])

    def with_pools(self, pools: Sequence[Pool]) -> Twin:
        """Return the twin with these pools."""
        return dataclasses.replace(self, pools=tuple(pools))

    def pool_of(self, workload: Workload) -> np.ndarray:
        """int64 [J]: number of the pool of each job; -1 = no pool can run it.

        It is the pool of the first partition that the job names and that has room for its gang.
        """
        workload = self.asking(workload)
        gpus, lists = workload.jobs["gpus"], workload.attributes.get(PARTITION, np.array([""]))
        longest = int(np.strings.count(lists.astype(str), ",").max(initial=0)) + 1
        found = np.full(len(gpus), -1)
        for position in reversed(range(longest)):
            names = partitions_of(workload, position)
            for number, pool in enumerate(self.pools):
                found[gpus <= pool.room_of(workload, names)] = number
        return found

    def asking(self, workload: Workload) -> Workload:
        """Return the jobs with the nodes on which they run, if the twin knows it: equal parts in the largest nodes."""
        if not self.fewest_nodes:
            return workload
        largest: dict[str, int] = {}
        for pool in self.pools:
            nodes = pool.cluster.nodes["gpus"]
            own = {one.name: nodes[nodes_of(one, pool.cluster)] for one in pool.sets}
            largest |= {name: int(own.get(name, nodes).max()) for name in pool.partitions or ("",)}
        different, of_job = np.unique(partitions_of(workload), return_inverse=True)
        size = np.array([largest.get(name, max(largest.values())) for name in different.tolist()])[of_job]
        gpus = workload.jobs["gpus"]
        fewest = -(-gpus // size)
        fewest = np.where(gpus % fewest == 0, fewest, 0)
        told = {name: workload.attributes.get(name, np.zeros(len(gpus), np.int64)) for name in (MIN_NODES, MAX_NODES)}
        asked = {name: np.where(told[MAX_NODES] > 0, own, fewest) for name, own in told.items()}
        return dataclasses.replace(workload, attributes={**workload.attributes, **asked})

    def leaves(self, workload: Workload) -> np.ndarray:
        """Return the name of the leaf of each job; str [J]."""
        return leaf_names(workload, self.tenant_columns)

    def groups_of(self, workload: Workload) -> np.ndarray:
        """Return the partition of each job, or with Kueue its ClusterQueue, by which scores are told; str [J]."""
        return self.leaves(workload) if self.of_kueue else partitions_of(workload)

    def tree_of(self, workload: Workload) -> Tenants | None:
        """Return the tenants and the QOS, with names that the twin does not know; these are not limited."""
        if self.tenants is None:
            return None
        tenants = self.tenants
        if tenants.qos:
            told = qos_for(tenants.qos, workload)[0] if QOS in workload.attributes else ()
            tenants = dataclasses.replace(tenants, qos=told)
        if not tenants.tree:
            return tenants
        known = {tenant.name for tenant in tenants.tree}
        new = [name for name in dict.fromkeys(workload.attributes[TENANT].tolist()) if name not in known]
        return dataclasses.replace(tenants, tree=tenants.tree + grown_tree(new, known))

    def class_of(self, workload: Workload) -> np.ndarray:
        """float64 [J]: class of each job; with Kueue, the priority that it tells."""
        if self.of_kueue:
            of_snapshot = workload.attributes.get(PRIORITY, np.zeros(len(workload)))
            return workload.attributes.get("priority", of_snapshot).astype(float)
        names = workload.attributes.get(QOS, np.full(len(workload), ""))
        return _looked_up(names, self.classes) + _looked_up(partitions_of(workload), self.partition_classes)

    def _spec(self, classes: np.ndarray) -> str:
        """Return the policy for jobs of these classes: the scheduler divides classes by the largest of its jobs."""
        if not self.class_most or not self.scheduler.startswith("slurm"):
            return self.scheduler
        return with_parameters(self.scheduler, qos_times=float(classes.max(initial=0.0)) / self.class_most)

    def as_dict(self) -> dict[str, Any]:
        """Return plain data for JSON; NaN becomes None."""
        data = {item.name: getattr(self, item.name) for item in dataclasses.fields(self)}
        data["pools"] = [
            {"name": pool.name, "groups": [group.as_dict() for group in pool.groups], "partitions": pool.partitions}
            | ({"sets": _rules(pool)["partitions"]} if pool.sets else {})
            | ({"reservations": _rules(pool)["reservations"]} if pool.reservations else {})
            | ({"node_names": pool.node_names} if pool.node_names else {})
            for pool in self.pools
        ]
        data["tenants"] = None if self.tenants is None else self.tenants.as_dict()
        data["score"] = dataclasses.asdict(self.score)
        data["remainders"] = [dataclasses.asdict(one) for one in self.remainders]
        return _without_nan(data)


class Problem(NamedTuple):
    """One pool with its jobs, ready to be played."""

    pool: Pool
    instance: Instance
    rows: np.ndarray  # int64, row of each job of the instance in the workload that the twin was asked about
    spec: str  # the policy for these jobs

    @classmethod
    def of(cls, pool: Pool, instance: Instance, jobs: Workload, rows: np.ndarray, spec: str) -> Problem:
        """Return the problem of ``jobs``, which are these ``rows`` of the workload; the instance sorts them."""
        order = np.argsort(jobs.jobs["id"], kind="stable")
        back = order[np.searchsorted(jobs.jobs["id"][order], instance.workload.jobs["id"])]
        return cls(pool, instance, rows[back], spec)

    @property
    def name(self) -> str:
        """Name of the pool."""
        return self.pool.name


def ignored_by(problems: Sequence[Problem]) -> tuple[str, ...]:
    """Tell how many jobs ask for what their pools lack, in words."""
    counts = Counter[str]()
    for problem in problems:
        counts.update(problem.instance.ignored)
    return tuple(f"{count:,} {words}, and run on any" for words, count in counts.items())


def partitions_of(workload: Workload, position: int = 0) -> np.ndarray:
    """Return the partition of each job at this position of its list, or an empty text; str [J]."""
    names = workload.attributes.get(PARTITION)
    if names is None:
        return np.full(len(workload), "")
    different, of_job = np.unique(names.astype(str), return_inverse=True)
    chosen = [[*text.split(","), *[""] * position][position] for text in different.tolist()]
    return np.array(chosen)[of_job]


def _lists_in(workload: Workload, known: Sequence[str]) -> np.ndarray:
    """Return the partitions that each waiting job names, without those of other pools, joined by commas; str [J]."""
    names = workload.attributes.get(PARTITION, np.full(len(workload), ""))
    different, of_job = np.unique(names.astype(str), return_inverse=True)
    lists = [",".join(name for name in text.split(",") if name in known) for text in different.tolist()]
    return np.array(lists)[of_job]


def leaf_names(workload: Workload, columns: tuple[str, ...]) -> np.ndarray:
    """Return these attributes of each job, joined by "/"; ``ALL`` where all are empty or missing; str [J].

    A user without an account is ``/user``, because an account may have the same name. If an account is named ``ALL``,
    jobs that name nobody are ``NOBODY``.
    """
    told = [workload.attributes[column].astype(str) for column in columns if column in workload.attributes]
    texts = told[0] if told else np.full(len(workload), "")
    for values in told[1:]:
        texts = np.strings.add(np.strings.add(texts, "/"), values)
    nobody = NOBODY if told and (told[0] == ALL).any() else ALL
    return np.where(np.strings.strip(texts, "/") == "", nobody, texts)


def grown_tree(leaves: list[str], known: set[str]) -> tuple[Tenant, ...]:
    """Return tenants of weight 1 for leaves ``account/user`` and for their accounts, if these are not known."""
    tree = []
    for name in leaves:
        account, slash, _ = name.partition("/")
        if slash and account and account not in known:
            known.add(account)
            tree.append(Tenant(account))
        tree.append(Tenant(name, parent=account if slash and account else ROOT))
    return tuple(tree)


def read_twin(path: str | Path) -> Twin:
    """Read a file of ``gpusched twin fit``.

    Raises
    ------
    ScenarioError : a file that cannot be read, or a field that is missing, unknown or wrong
    """
    data = read_json(path, "twin", "write one with gpusched twin fit")
    if isinstance(data, dict) and isinstance(score := data.get("score"), dict):
        groups = score.get("groups")
        rows = [_with_nan(row) for row in groups] if isinstance(groups, list) else groups
        data["score"] = _with_nan(score) | {"groups": rows}
    return build(Twin, data, str(path))


def write_twin(twin: Twin, path: str | Path) -> None:
    """Write a twin as JSON, atomically.

    Raises
    ------
    GpuschedError : the file cannot be written
    """
    write_whole(Path(path), json.dumps(twin.as_dict(), indent=2, allow_nan=False) + "\n")


def _rules(pool: Pool) -> dict[str, Any]:
    return Partitions(pool.sets, pool.reservations).as_dict()


def _looked_up(names: np.ndarray, values: dict[str, float]) -> np.ndarray:
    different, of_job = np.unique(names.astype(str), return_inverse=True)
    return np.array([values.get(name, 0.0) for name in different.tolist()], float)[of_job]


def _without_nan(data: Any) -> Any:
    if isinstance(data, dict):
        return {name: _without_nan(value) for name, value in data.items()}
    if isinstance(data, list | tuple):
        return [_without_nan(value) for value in data]
    return None if isinstance(data, float) and math.isnan(data) else data


def _with_nan(data: Any) -> Any:
    return (
        {name: math.nan if value is None else value for name, value in data.items()} if isinstance(data, dict) else data
    )
