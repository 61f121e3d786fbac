"""Read Slurm's own files as a cluster, its partitions and its scheduling parameters."""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from pathlib import Path
from typing import Final

from gpusched_env.errors import TraceError
from gpusched_env.problem.cluster import MOST_GPUS, Cluster
from gpusched_env.traces.node_lists import NO_RACKS, UNNAMED, in_racks
from gpusched_env.traces.parsing.fields import Place
from gpusched_env.traces.parsing.report import ReadReport
from gpusched_env.traces.parsing.slurm_fields import UNLIMITED, UNTOLD, span_s
from gpusched_env.traces.slurm_files.description import (
    FUTURE,
    UNKNOWN,
    UP,
    SlurmCluster,
    SlurmNode,
    SlurmPartition,
    SlurmScheduling,
)  # fmt: skip
from gpusched_env.traces.slurm_files.gres import GpuCounts, whole_gpus
from gpusched_env.traces.slurm_files.kinds import KINDS, SINFO, Facts, NodeFacts, PartitionFacts, kind_of

FACTORS: Final = ("age", "assoc", "fairshare", "jobsize", "partition", "qos")
BESIDE: Final = ("gres.conf", "topology.yaml", "topology.conf")  # read together with a slurm.conf of the same folder
SLICED: Final = "only slices of GPUs (MIG)"
SLICES: Final = "slices of GPUs (MIG) on nodes that have whole GPUs too; left out"
LATER: Final = "FUTURE: it does not exist yet"
SPLIT: Final = "nodes with GPUs of several types, taken as one node for each type"
UNEQUAL: Final = "nodes whose number of GPUs is another in gres.conf; the other file's is used"
LOST: Final = "names in partitions that no file describes as nodes; left out"
OFF: Final = "names on switches or in blocks that no file describes as nodes; left out"
NO_SWITCH: Final = "nodes on no switch of topology.conf, which become racks of their own kinds"
MIXED: Final = "switches with nodes of several kinds (GPU type, GPUs per node), which become one rack for each kind"
UNACCOUNTED: Final = "AccountingStorageTRES does not list gres/gpu: sacct tells no GPUs"
STATED: Final = "nodes {}, when the files were written; they stay in the cluster"


def read_slurm_cluster(*paths: Path | str) -> tuple[SlurmCluster, ReadReport]:
    """Read files of Slurm that describe one cluster, in any order; what each of them is shows in its first lines.

    The files are ``slurm.conf``, ``gres.conf``, ``topology.conf``, the output of ``scontrol show node`` and ``scontrol
    show partition``, and tables of ``sinfo`` with their headers. If the only path is a slurm.conf, the ``gres.conf``
    and ``topology.yaml`` (else ``topology.conf``) beside it are read too, and the files that it includes. If several
    files tell the GPUs of a node, the first in the order of this list counts, and for its state the last. GPUs without
    a type are V100. The report counts nodes. Sources: slurm.conf(5), gres.conf(5), topology.conf(5), topology.yaml(5),
    sinfo(1), scontrol(1).
    """
    if not paths:
        raise TraceError("read_slurm_cluster: no file given; give slurm.conf or another file that describes the nodes")
    files = [Path(path).expanduser() for path in paths]
    kinds = {path: kind_of(path) for path in files}
    if list(kinds.values()) == ["slurm.conf"]:
        beside = [files[0].parent / name for name in BESIDE]
        found = {path.name: path for path in beside if path.is_file() and path != files[0]}
        if "topology.yaml" in found:  # Slurm then ignores topology.conf
            found.pop("topology.conf", None)
        kinds |= {path: name for name, path in found.items()}
    facts = Facts()
    for kind, read in KINDS.items():
        for path in [path for path, own in kinds.items() if own == kind]:
            read(path, facts)
    return _Builder(facts, files[0], list(kinds)).build()


class _Builder:
    """What turns the facts into a cluster; ``files`` are those that were read."""

    def __init__(self, facts: Facts, path: Path, files: list[Path]) -> None:
        self.facts = facts
        self.report = ReadReport("slurm", str(path), unit="node", things="nodes")
        if len(files) > 1:
            self.report.columns.append("files: " + ", ".join(file.name for file in files))

    def build(self) -> tuple[SlurmCluster, ReadReport]:
        facts, report = self.facts, self.report
        if not facts.nodes:  # gres.conf is the only file
            facts.nodes = {name: NodeFacts() for name in facts.gres.nodes}
        kept: list[SlurmNode] = []
        others: list[SlurmNode] = []
        for name, told in facts.nodes.items():
            report.rows += 1
            gpus = self._gpus(name, told)
            if whole := whole_gpus(gpus):
                if slices := sum(gpus.values()) - sum(whole.values()):
                    report.notes[SLICES] = report.notes.get(SLICES, 0) + slices
                gpus = whole
            found = _nodes(name, told, gpus, facts.switches.get(name, ""))
            reason = "" if whole else SLICED if gpus else "no GPUs"
            reason = LATER if found[0].condition == FUTURE else reason
            (others if reason else kept).extend(found)
            report.drop_many(reason, 1 if reason else 0)
            report.kept += not reason
            if len(found) > 1 and not reason:
                report.notes[SPLIT] = report.notes.get(SPLIT, 0) + 1
        self._check(kept)
        cluster, nodes = self._cluster(kept)
        slurm = SlurmCluster(
            cluster,
            nodes,
            tuple(others),
            tuple(partition_of(facts, told) for told in facts.partitions.values()),
            scheduling_of(facts),
            {key: value for key, (_, value) in facts.settings.items()},
        )
        self._remark(slurm)
        return slurm, report

    def _gpus(self, name: str, told: NodeFacts) -> GpuCounts:
        """Return the GPUs of a node; gres.conf adds their types, and replaces what no other file tells."""
        gres = self.facts.gres
        if told.gpus is None:
            return gres.nodes.get(name, {} if self.facts.configured else gres.everywhere)
        typed = gres.of(name)
        if not told.gpus or not typed:
            return told.gpus
        if sum(typed.values()) != sum(told.gpus.values()):
            self.report.notes[UNEQUAL] = self.report.notes.get(UNEQUAL, 0) + 1
            return (
                {next(iter(typed)): sum(told.gpus.values())} if [*told.gpus] == [""] and len(typed) == 1 else told.gpus
            )
        return typed if "" in told.gpus else told.gpus

    def _check(self, kept: list[SlurmNode]) -> None:
        """Refuse a cluster without GPUs, or with more than a cluster may have."""
        path, gpus = self.report.path, sum(node.gpus for node in kept)
        if not kept:
            raise TraceError(
                f"{path}: no GPUs.\n{self.report.describe()}\nCheck that nodes have Gres=gpu:NUMBER; a table of "
                f"sinfo tells GPUs if it was written by {SINFO}"
            )
        if gpus > MOST_GPUS:
            raise TraceError(f"{path}: {gpus:,} GPUs, more than {MOST_GPUS:,}; correct Gres, or the names of the nodes")

    def _cluster(self, kept: list[SlurmNode]) -> tuple[Cluster, tuple[SlurmNode, ...]]:
        """Return the cluster and its nodes in its order: kinds as they first occur, in a kind the switches."""
        groups, nodes = in_racks((node.gpus, node.gpu_type, node.switch, node) for node in kept)
        notes, switched = self.report.notes, any(node.switch for node in kept)
        if untyped := sum(not node.gpu_type for node in nodes):
            notes[UNNAMED] = untyped
        if not switched:
            notes[NO_RACKS] = len({(node.gpus, node.gpu_type) for node in nodes})
        elif free := sum(not node.switch for node in nodes):
            notes[NO_SWITCH] = free
        used = Counter(switch for _, _, switch in {(node.gpus, node.gpu_type, node.switch) for node in nodes})
        if mixed := sum(count > 1 for switch, count in used.items() if switch):
            notes[MIXED] = mixed
        return Cluster(groups), tuple(nodes)

    def _remark(self, slurm: SlurmCluster) -> None:
        """Write the remarks on states, partitions and accounting into the report."""
        notes, known = self.report.notes, self.facts.nodes
        for condition, count in slurm.conditions.items():
            if condition not in (UP, UNKNOWN):
                notes[STATED.format(condition)] = count
        if lost := {name for partition in slurm.partitions for name in partition.nodes if name not in known}:
            notes[LOST] = len(lost)
        if off := self.facts.switches.keys() - known.keys():
            notes[OFF] = len(off)
        self.report.columns += [_line(slurm, partition) for partition in slurm.partitions]
        if self.facts.settings:
            self.report.columns.append(f"scheduler: {'backfill' if slurm.scheduling.backfill else 'no backfill'}")
            accounted = slurm.scheduling.accounted
            if not any(name == "gres/gpu" or name.startswith("gres/gpu:") for name in accounted):
                self.report.columns.append(UNACCOUNTED)


def _nodes(name: str, told: NodeFacts, gpus: GpuCounts, switch: str) -> list[SlurmNode]:
    """Return the node, or a node for each type of its GPUs."""
    return [
        SlurmNode(name, count, kind, switch, told.state, told.features, told.weight)
        for kind, count in (gpus or {"": 0}).items()
    ]


def _line(slurm: SlurmCluster, partition: SlurmPartition) -> str:
    """Return a partition in a line of the report."""
    nodes = len(set(partition.nodes))
    default = " (default)" if partition.default else ""
    limit = "no limit" if math.isinf(partition.max_time_s) else f"limit {partition.max_time_s / 3600:g} h"
    tier = f"tier {partition.priority_tier}"
    return f"partition {partition.name}{default}: {nodes:,} nodes, {slurm.gpus_of(partition):,} GPUs, {limit}, {tier}"


def limit_s(place: Place, field: str, text: str) -> float | None:
    """Return a time limit [s]; inf = unlimited, None = not set."""
    if text.upper() in UNLIMITED:
        return math.inf
    return None if text.upper() in {word.upper() for word in UNTOLD} else span_s(place, field, text)


def partition_of(facts: Facts, told: PartitionFacts) -> SlurmPartition:
    """Return a partition from its keys."""
    place, pairs = told.place, told.pairs
    longest = limit_s(place, "MaxTime", pairs.get("maxtime", "UNLIMITED"))
    tier = pairs.get("prioritytier", pairs.get("priority", "1"))
    return SlurmPartition(
        pairs["partitionname"],
        facts.nodes_of(told),
        math.inf if longest is None else longest,
        limit_s(place, "DefaultTime", pairs.get("defaulttime", "NONE")),
        place.whole("PriorityTier", tier, "tier"),
        place.whole("PriorityJobFactor", pairs.get("priorityjobfactor", "1"), "factor"),
        pairs.get("default", "").upper() == "YES",
        pairs.get("state", "UP").upper(),
        pairs.get("preemptmode", "").upper(),
        place.seconds("GraceTime", pairs.get("gracetime", "0")),
        pairs,
    )


def scheduling_of(facts: Facts) -> SlurmScheduling:
    """Return how jobs are ordered and started; what is not said has Slurm's default."""
    default = SlurmScheduling()
    told = facts.settings

    def text(key: str, otherwise: str) -> str:
        return told[key.lower()][1] if key.lower() in told else otherwise

    def seconds(key: str, otherwise: float) -> float:
        if key.lower() not in told:
            return otherwise
        found = limit_s(told[key.lower()][0], key, told[key.lower()][1])
        return otherwise if found is None else found

    def weight(key: str, otherwise: str = "") -> float:
        place, amount = told.get(key.lower(), (None, otherwise))
        return float(amount) if place is None else place.whole(key, amount, "weight")

    keys = {name: f"PriorityWeight{name}" for name in FACTORS}
    weights = {name: weight(key) for name, key in keys.items() if key.lower() in told}
    flags = text("PriorityFlags", "").upper()
    pairs = (entry.partition("=") for entry in text("SchedulerParameters", "").split(",") if entry.strip())
    return dataclasses.replace(
        default,
        backfill=text("SchedulerType", "sched/backfill").lower().removeprefix("sched/") == "backfill",
        parameters={name.strip().lower(): value.strip() for name, _, value in pairs},
        weights={name: value for name, value in weights.items() if value},
        tres_weights=_tres_weights(facts),
        priority_type=text("PriorityType", default.priority_type).lower(),
        priority_flags=tuple(flag.strip() for flag in flags.split(",") if flag.strip()),
        favor_small=text("PriorityFavorSmall", "NO").upper() == "YES",
        max_age_s=seconds("PriorityMaxAge", default.max_age_s),
        half_life_s=seconds("PriorityDecayHalfLife", default.half_life_s),
        calc_period_s=seconds("PriorityCalcPeriod", default.calc_period_s),
        preempt_type=text("PreemptType", default.preempt_type).lower(),
        preempt_mode=text("PreemptMode", default.preempt_mode).upper(),
        exempt_s=max(seconds("PreemptExemptTime", 0.0), 0.0),
        damping=weight("FairShareDampeningFactor", "1"),
        accounted=tuple(name.strip() for name in text("AccountingStorageTRES", "").lower().split(",") if name.strip()),
    )


def _tres_weights(facts: Facts) -> dict[str, float]:
    key = "PriorityWeightTRES"
    if key.lower() not in facts.settings:
        return {}
    place, text = facts.settings[key.lower()]
    weights = {}
    for entry in text.split(","):
        name, _, amount = entry.partition("=")
        weights[name.strip().lower()] = place.amount(key, amount, "weight")
    return weights
