"""Clusters of nodes, and readers of node lists: one row for each node, or one row for several equal nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Final, TypeVar

from gpusched_env.errors import TraceError
from gpusched_env.problem.cluster import MOST_GPUS, Cluster, NodeGroup
from gpusched_env.traces.parsing.fields import Place
from gpusched_env.traces.parsing.report import ReadReport
from gpusched_env.traces.parsing.streams import csv_header, csv_rows

Node = TypeVar("Node")

GPU_TYPE: Final = NodeGroup(1, 1).gpu_type  # assumed for nodes without a GPU type: that of the built-in model profiles
UNNAMED: Final = f"nodes whose GPU type the file does not name, taken for {GPU_TYPE}"
NO_RACKS: Final = "racks made up, one for each kind of node (GPU type and GPUs per node): the file names none"
HOST: Final = 8  # [GPU] per node, assumed where the files of Philly and Helios give only the number of nodes
SHARED: Final = f"nodes taken for {HOST} GPUs each, and open to the jobs of every virtual cluster"
# Format -> columns of the name of a virtual cluster and of its number of nodes
VIRTUAL_CLUSTERS: Final = {"helios": ("", "num"), "philly": ("vc", "node num")}
SWITCHES: Final = ("num_switch", "num_node_p_switch", "num_gpu_p_node")


def in_racks(nodes: Iterable[tuple[int, str, str, Node]]) -> tuple[list[NodeGroup], list[Node]]:
    """Return the groups of nodes given by GPUs, GPU type ("" = unknown), rack and node, and the nodes in their order.

    Kinds, which are GPUs and GPU type, come as they first occur, in a kind its racks. A rack with nodes of several
    kinds becomes a rack for each of them.
    """
    kinds: dict[tuple[int, str], dict[str, list[Node]]] = {}
    for gpus, gpu_type, rack, node in nodes:
        kinds.setdefault((gpus, gpu_type), {}).setdefault(rack, []).append(node)
    groups: list[NodeGroup] = []
    for (gpus, gpu_type), racks in kinds.items():
        for count, equal in groupby(racks.values(), len):
            many = len(list(equal))
            groups.append(NodeGroup(count * many, gpus, gpu_type or GPU_TYPE, count if many > 1 else None))
    return groups, [node for racks in kinds.values() for several in racks.values() for node in several]


class Machines:
    """The nodes that a reader keeps: a group for each kind (GPUs per node, GPU type, nodes per rack), by first row."""

    def __init__(self, format: str, path: Path, things: str) -> None:
        self.report = ReadReport(format, str(path), things=things)
        self.nodes: Counter[tuple[int, str, int | None]] = Counter()
        self.gpus = 0

    def add(
        self, place: Place, nodes: int, gpus_per_node: int, gpu_type: str = "", nodes_per_rack: int | None = None
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


@dataclass(frozen=True)
class NodeList:
    """Column names of a list with one row for each node; 0 GPUs = a CPU node.

    ``gpu_type`` is "" if the file has no types; ``names`` are all columns of a file without a header line.
    """

    node: str
    gpus: str
    gpu_type: str = ""
    names: tuple[str, ...] = ()


NODE_LISTS: Final = {
    "openb": NodeList("sn", "gpu", "model"),
    "pai": NodeList("machine", "cap_gpu", "gpu_type", ("machine", "gpu_type", "cap_cpu", "cap_mem", "cap_gpu")),
    "philly": NodeList("machineId", "number of GPUs"),
    "spot": NodeList("node_name", "gpu_capacity_num", "gpu_model"),
}


def read_nodes(path: Path, name: str) -> tuple[Cluster, ReadReport]:
    """Read a file of the format ``name`` with one row for each node; nodes without GPUs are dropped."""
    layout = NODE_LISTS[name]
    machines = Machines(name, path, "nodes")
    columns = [layout.node, layout.gpus, *filter(None, [layout.gpu_type])]
    seen: set[str] = set()
    for place, (node, text, *types) in csv_rows(path, columns, layout.names):
        if node in seen:
            place.refuse(layout.node, node, "this node occurs twice; remove one of the two rows")
        seen.add(node)
        gpus = place.gpus(layout.gpus, text)
        gpu_type = "".join(types)
        if gpus and layout.gpu_type and not gpu_type:
            place.refuse(layout.gpu_type, "", "a node with GPUs needs their type; add it or remove the row")
        machines.add(place, 1, gpus, gpu_type)
    return machines.cluster()


def read_virtual_clusters(path: Path, name: str) -> tuple[Cluster, ReadReport]:
    """Read a file with the number of nodes of each virtual cluster; every node is assumed to have 8 GPUs."""
    machines = Machines(name, path, "virtual clusters")
    columns = VIRTUAL_CLUSTERS[name]
    for place, (_, nodes) in csv_rows(path, columns):
        machines.add(place, place.whole(columns[1], nodes, "nodes"), HOST)
    machines.report.notes[SHARED] = machines.gpus // HOST
    return machines.cluster()


def read_switches(path: Path, name: str) -> tuple[Cluster, ReadReport]:
    """Read a cluster of Tiresias (``num_switch,num_node_p_switch,num_gpu_p_node,...``); a switch becomes a rack."""
    machines = Machines(name, path, "rows")
    for place, texts in csv_rows(path, SWITCHES):
        switches, nodes, gpus = map(place.whole, SWITCHES, texts, ("switches", "nodes", "GPUs"))
        machines.add(place, switches * nodes, gpus, nodes_per_rack=nodes)
    return machines.cluster()


def read_philly_nodes(path: Path) -> tuple[Cluster, ReadReport]:
    """Read Philly's list of machines or its list of virtual clusters; the header determines which of the two it is."""
    machines = NODE_LISTS["philly"].node in csv_header(path)
    return read_nodes(path, "philly") if machines else read_virtual_clusters(path, "philly")
