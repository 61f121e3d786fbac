"""Slurm's files and a twin: machines and known parameters from them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Final

from gpusched_env.errors import GpuschedError
from gpusched_env.problem.cluster import Cluster, NodeGroup
from gpusched_env.problem.partitions import Partition
from gpusched_env.traces.slurm_files.description import SlurmCluster, SlurmPartition
from gpusched_env.twin.conf_changes import KEYS, site_parameters
from gpusched_env.twin.fitting import Policy
from gpusched_env.twin.inferred_priorities import Aging
from gpusched_env.twin.model import Pool

# Parameters that the fit leaves as slurm.conf has them.
KEPT: Final = (
    "queue_depth", "bf_resolution_s", "bf_max_job_test", "bf_max_job_user", "bf_max_job_start", "bf_one_resv_per_job",
    "youngest_first",
)  # fmt: skip
REST: Final = "other"  # pool of the nodes that are in no partition


def pools_of(slurm: SlurmCluster) -> tuple[Pool, ...]:
    """Return the pools of a cluster: partitions that share nodes are in one pool; nodes of no partition are left out.

    Where partitions overlap only partly, or have different tiers, the pool says which nodes each of them has, and what
    happens to its jobs if jobs of a higher tier need their GPUs.
    """
    rows = {partition.name: set(slurm.rows_of(partition)) for partition in slurm.partitions}
    tiers = {partition.name: partition.priority_tier for partition in slurm.partitions}
    pools = []
    for names, nodes in _joined(slurm):
        if not names:
            return (Pool(REST, slurm.cluster.groups, node_names=tuple(node.name for node in slurm.nodes)),)
        alike = all(rows[name] == set(nodes) and tiers[name] == tiers[names[0]] for name in names)
        order = _order(slurm, nodes, alike)
        groups = tuple(
            NodeGroup(len(list(run)), gpus, kind) for (gpus, kind), run in groupby(_kind(slurm, row) for row in order)
        )
        number = {row: at for at, row in enumerate(order)}
        sets = tuple(
            Partition(
                name,
                nodes=node_list(sorted(number[row] for row in rows[name])),
                tier=tiers[name],
                preempt_mode=_mode(slurm, name),
                grace_s=_partition(slurm, name).grace_s,
            )
            for name in ([] if alike else names)
        )
        told = tuple(slurm.nodes[row].name for row in order)
        pools.append(Pool("+".join(names), groups, tuple(names), sets, node_names=told))
    return tuple(pools)


def _partition(slurm: SlurmCluster, name: str) -> SlurmPartition:
    return next(one for one in slurm.partitions if one.name == name)


def _mode(slurm: SlurmCluster, name: str) -> str:
    """Return what happens to jobs of a partition: that of the partition, else that of the cluster.

    Only REQUEUE can be played; under any other mode, the twin does not preempt the jobs.
    """
    modes = (_partition(slurm, name).preempt_mode or slurm.scheduling.preempt_mode).upper().split(",")
    return "requeue" if "REQUEUE" in modes else "off"


def not_played(slurm: SlurmCluster) -> tuple[str, ...]:
    """Tell in sentences which settings of the partitions change when jobs start, and are not played."""
    found = []
    for name in sorted(one.name for one in slurm.partitions):
        if (qos := _partition(slurm, name).settings.get("qos", "")) not in ("", "N/A"):
            found.append(f"partition {name!r} has the QOS {qos!r}; the limits of a partition's QOS are not played")
        if slurm.scheduling.preempt_type.lower() != "preempt/partition_prio":
            continue
        mode = _partition(slurm, name).preempt_mode or slurm.scheduling.preempt_mode
        if _mode(slurm, name) == "off" and mode.upper() not in ("", "OFF"):
            found.append(f"partition {name!r} has PreemptMode={mode}; its jobs are not preempted in the twin")
    return tuple(found)


def _joined(slurm: SlurmCluster) -> list[tuple[list[str], list[int]]]:
    """Return the partitions that share nodes, and these nodes, ascending; without partitions, all nodes."""
    joined: list[tuple[list[str], set[int]]] = []
    for partition in slurm.partitions:
        names, nodes = [partition.name], set(slurm.rows_of(partition))
        if not nodes:
            continue
        for other in [other for other in joined if other[1] & nodes]:
            joined.remove(other)
            names, nodes = other[0] + names, nodes | other[1]
        joined.append((names, nodes))
    return [(names, sorted(nodes)) for names, nodes in joined] or [([], list(range(len(slurm.nodes))))]


def _order(slurm: SlurmCluster, nodes: Sequence[int], by_kind: bool) -> list[int]:
    """Return nodes in the order in which a pool numbers them; by kind, the kind of the first node comes first."""
    if not by_kind:
        return list(nodes)
    kinds = list(dict.fromkeys(_kind(slurm, row) for row in nodes))
    return sorted(nodes, key=lambda row: (kinds.index(_kind(slurm, row)), row))


def _kind(slurm: SlurmCluster, row: int) -> tuple[int, str]:
    """Return the number and the type of the GPUs of a node."""
    return slurm.nodes[row].gpus, slurm.cluster.gpu_types[slurm.cluster.nodes["gpu_type"][row]]


def node_list(numbers: Sequence[int]) -> str:
    """Write ascending numbers of nodes as numbers and ranges, such as ``0-3,8``."""
    texts = []
    for _, run in groupby(enumerate(numbers), key=lambda pair: pair[1] - pair[0]):
        own = [number for _, number in run]
        texts.append(str(own[0]) if len(own) == 1 else f"{own[0]}-{own[-1]}")
    return ",".join(texts)


def pools_of_texts(
    cluster: str, partitions: Sequence[str], machines_of: Callable[[str], Cluster] = Cluster.parse
) -> tuple[Pool, ...]:
    """Return the pools of ``NAME[+NAME...]=CLUSTER`` texts, or one pool of all machines if there are none.

    ``machines_of`` reads machines; ``cluster`` empty = those of the partitions.
    """
    if bool(cluster) == bool(partitions):
        raise GpuschedError("twin: give the machines by --conf FILES, by --cluster 16x8, or by --partition NAME=16x8")
    if cluster:
        return (Pool("all", machines_of(cluster).groups),)
    pools = []
    for text in partitions:
        names, equals, machines = text.partition("=")
        if not equals or not names:
            raise GpuschedError(f"--partition {text!r}: write NAME=CLUSTER, such as gpu=16x8@A100 or gpu+debug=16x8")
        pools.append(Pool(names, machines_of(machines).groups, tuple(names.split("+"))))
    return tuple(pools)


def known_policy(slurm: SlurmCluster) -> Policy:
    """Return what Slurm's files say of the policy besides the weights; the fit keeps or improves it."""
    told = site_parameters(slurm)
    aging = Aging(**{item.name: told.pop(item.name) for item in dataclasses.fields(Aging)})
    tiers = told.pop("preempt") == "tier" and any(_mode(slurm, one.name) == "requeue" for one in slurm.partitions)
    own = {name: told.pop(name) for name in ("backfill", "bf_interval_s", "bf_window_s")}
    kept = {name: told[name] for name in KEPT if KEYS[name].name in slurm.scheduling.parameters}
    return Policy(aging=aging, preempt="tier" if tiers else "off", kept=kept, **own)
