"""Slurm's files and a twin: machines and known parameters from them, and fitted weights as a fragment of slurm.conf."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any, Final

from gpusched_env.baselines.registry import make_scheduler
from gpusched_env.baselines.slurm.scheduler import Slurm
from gpusched_env.errors import GpuschedError
from gpusched_env.problem.cluster import Cluster, NodeGroup
from gpusched_env.problem.partitions import Partition
from gpusched_env.traces.slurm_files.description import SlurmCluster, SlurmPartition
from gpusched_env.twin.fitting import DAY_S, Policy
from gpusched_env.twin.inferred_priorities import Aging
from gpusched_env.twin.model import Pool, Twin

MINUTE_S: Final = 60.0
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
            return (Pool(REST, slurm.cluster.groups),)
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
        pools.append(Pool("+".join(names), groups, tuple(names), sets))
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


def node_numbers(slurm: SlurmCluster, pools: Sequence[Pool]) -> list[dict[str, list[int]]]:
    """Return for each pool of :func:`pools_of`: name of a node -> its numbers in the pool."""
    found = []
    for (_, nodes), pool in zip(_joined(slurm), pools, strict=True):
        number: dict[str, list[int]] = {}
        for at, row in enumerate(_order(slurm, nodes, not pool.sets and pool.name != REST)):
            number.setdefault(slurm.nodes[row].name, []).append(at)
        found.append(number)
    return found


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
    told = slurm.scheduling
    for key, seconds in (("PriorityMaxAge", told.max_age_s), ("PriorityCalcPeriod", told.calc_period_s)):
        if not math.isfinite(seconds):
            written = slurm.settings.get(key.lower(), "")
            raise GpuschedError(f"slurm.conf, field {key!r}: {written!r}: give a time such as 14-0, or remove the line")
    flags = told.priority_flags
    aging = Aging(
        max_age_s=max(told.max_age_s, MINUTE_S),
        fair_share="classic" if "NO_FAIR_TREE" in flags else "tree",
        decay_half_life_s=told.half_life_s if math.isfinite(told.half_life_s) else 0.0,
        calc_period_s=max(told.calc_period_s, 1.0),
    )
    tiers = told.preempt_type.lower() == "preempt/partition_prio" and any(
        _mode(slurm, partition.name) == "requeue" for partition in slurm.partitions
    )
    backfill = "conservative" if told.backfill else "none"
    policy = Policy(aging=aging, backfill=backfill, preempt="tier" if tiers else "off")
    for key, name, unit in (("bf_interval", "bf_interval_s", 1.0), ("bf_window", "bf_window_s", MINUTE_S)):
        value = told.parameters.get(key, "")
        if value.isdigit() and int(value) > 0:
            changed: dict[str, Any] = {name: int(value) * unit}
            policy = dataclasses.replace(policy, **changed)
    return policy


def slurm_conf(twin: Twin) -> str:
    """Return the policy of a twin as lines of slurm.conf, with comments on what has to be set elsewhere.

    The parts of the cluster in a twin's size factor are those of a pool. Slurm takes those of the whole cluster, so
    with several pools its weight is scaled to the largest pool.
    """
    rules = make_scheduler(twin.scheduler)
    if not isinstance(rules, Slurm):
        raise GpuschedError(
            f"--slurm-conf: the policy is {twin.scheduler}; only that of the scheduler slurm can be written"
        )
    largest = max(pool.cluster.gpus for pool in twin.pools)
    size = rules.size_weight * twin.gpus / largest
    scale = rules.qos_weight / twin.class_most if twin.class_most else 0.0
    qos, partition = (scale * max(one.values(), default=0.0) for one in (twin.classes, twin.partition_classes))
    if not twin.class_most:
        qos = rules.qos_weight
    lines = [
        f"# Fitted by gpusched twin fit to {twin.log}; only the proportions of the weights matter.",
        "PriorityType=priority/multifactor",
        f"PriorityWeightAge={rules.age_weight:.0f}",
        f"PriorityMaxAge={_days(rules.max_age_s)}",
        f"PriorityWeightFairshare={rules.fair_share_weight:.0f}",
        f"PriorityDecayHalfLife={_days(rules.decay_half_life_s)}",
        f"PriorityCalcPeriod={max(round(rules.calc_period_s / MINUTE_S), 1)}",
        f"PriorityWeightJobSize={size:.0f}",
        f"PriorityFavorSmall={'YES' if rules.size_factor == 'small' else 'NO'}",
        f"PriorityWeightQOS={qos:.0f}",
        f"PriorityWeightPartition={partition:.0f}",
        f"SchedulerType=sched/{'builtin' if rules.backfill == 'none' else 'backfill'}",
    ]
    if rules.preempt == "tier":
        lines += ["PreemptType=preempt/partition_prio", "PreemptMode=REQUEUE"]
    if rules.gpu_weight:
        lines.append(f"PriorityWeightTRES=gres/gpu={rules.gpu_weight:.0f}")
    if rules.fair_share == "classic":
        lines.append("PriorityFlags=NO_FAIR_TREE")
    if rules.backfill != "none":
        window = round(rules.bf_window_s / MINUTE_S)
        parameters = f"bf_interval={max(round(rules.bf_interval_s), 1)},bf_window={window},"
        lines.append(
            f"SchedulerParameters={parameters}bf_resolution={max(round(rules.bf_resolution_s), 1)},"
            f"bf_max_job_test={rules.bf_max_job_test},default_queue_depth={rules.queue_depth}"
        )
    if rules.backfill == "easy":
        lines.append(
            "# The twin plans only the first waiting job (EASY). Slurm plans all; bf_max_job_test=1 is no substitute."
        )
    if qos:
        lines.append("# Priorities of QOS, relative to each other (sacctmgr modify qos NAME set Priority=N):")
        lines += [f"#   {_word(name)} {1000 * scale * value / qos:.0f}" for name, value in sorted(twin.classes.items())]
    if partition:
        lines.append("# PriorityJobFactor of the partitions, relative to each other (on the lines PartitionName=...):")
        lines += [
            f"#   {_word(name)} {1000 * scale * value / partition:.0f}"
            for name, value in sorted(twin.partition_classes.items())
        ]
    return "".join(f"{line}\n" for line in lines)


def _days(seconds: float) -> str:
    """Write a time as ``D-HH:MM:SS``."""
    days, rest = divmod(round(seconds), round(DAY_S))
    return f"{days}-{rest // 3600:02d}:{rest // 60 % 60:02d}:{rest % 60:02d}"


def _word(name: str) -> str:
    """Write a name of the log on one line."""
    return "".join(one if one.isprintable() else "?" for one in name) or "(none)"
