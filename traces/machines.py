"""Collect the nodes that a reader keeps, then hand them over as a Cluster."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Final

from gpusched_env.cluster import MOST_GPUS, Cluster, NodeGroup
from gpusched_env.errors import TraceError
from gpusched_env.traces.parsing.fields import Place
from gpusched_env.traces.parsing.report import ReadReport

GPU_TYPE: Final = NodeGroup(1, 1).gpu_type  # where the file names none: the built-in model profiles know this one
UNNAMED: Final = f"nodes whose GPU type the file does not name, taken for {GPU_TYPE}"
NO_RACKS: Final = "racks that stand for kinds of nodes (GPU type and GPUs a node), as the file names none"


class Machines:
    """Nodes by kind. Equal nodes become one group, in the order of the first row of each kind.

    Parameters
    ----------
    format, path, things : of the report; ``things`` are what a row of the file stands for
    """

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
        """Keep equal nodes, or drop and count a row without GPUs.

        Raises
        ------
        TraceError : there are now more GPUs than any cluster has
        """
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
        """Build the cluster; where the file names no racks, each kind of node has one.

        Raises
        ------
        TraceError : nothing was kept
        """
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
