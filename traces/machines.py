"""Collect the nodes that a reader keeps and build a Cluster of them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Final

from gpusched_env.errors import TraceError
from gpusched_env.problem.cluster import MOST_GPUS, Cluster, NodeGroup
from gpusched_env.traces.parsing.fields import Place
from gpusched_env.traces.parsing.report import ReadReport

GPU_TYPE: Final = NodeGroup(1, 1).gpu_type  # assumed for nodes without a GPU type: that of the built-in model profiles
UNNAMED: Final = f"nodes whose GPU type the file does not name, taken for {GPU_TYPE}"
NO_RACKS: Final = "racks made up, one for each kind of node (GPU type and GPUs per node): the file names none"


class Machines:
    """The nodes that a reader keeps: a group for each kind (GPUs per node, GPU type, nodes per rack), by first row."""

    def __init__(self, format: str, path: Path, things: str) -> None:
        self.report = ReadReport(format, str(path), things=things)
        self.nodes: Counter[tuple[int, str, int | None]] = Counter()
        self.gpus = 0

    def add(
        self,
        place: Place,
        nodes: int,
        gpus_per_node: int,
        gpu_type: str = "",
        nodes_per_rack: int | None = None,
    ) -> None:
        """Keep ``nodes`` equal nodes; a row without GPUs is dropped and counted."""
        self.report.rows += 1
        gpus = nodes * gpus_per_node
        if not gpus:
            self.report.drop("no GPUs", place.number)
            return
        self.gpus += gpus
        if self.gpus > MOST_GPUS:
            place.refuse("number of GPUs", gpus, f"more than {MOST_GPUS:,} in all; correct or remove the row")
        self.nodes[gpus_per_node, gpu_type, nodes_per_rack] += nodes

    def cluster(self) -> tuple[Cluster, ReadReport]:
        """Build the cluster; if the file names no racks, each kind of node gets one rack."""
        report = self.report
        report.kept = report.rows - sum(report.dropped.values())
        if not self.nodes:
            raise TraceError(f"{report.path}: no GPUs.\n{report.describe()}\nCheck that this is the right file")
        if unnamed := sum(nodes for (_, gpu_type, _), nodes in self.nodes.items() if not gpu_type):
            report.notes[UNNAMED] = unnamed
        if free := sum(per_rack is None for _, _, per_rack in self.nodes):
            report.notes[NO_RACKS] = free
        groups = [
            NodeGroup(nodes, gpus, gpu_type or GPU_TYPE, per_rack)
            for (gpus, gpu_type, per_rack), nodes in self.nodes.items()
        ]
        return Cluster(groups), report
