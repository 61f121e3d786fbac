"""Readers of node lists: files with one row for each node, or one row for several equal nodes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gpusched_env.problem.cluster import Cluster
from gpusched_env.traces.machines import Machines
from gpusched_env.traces.parsing.report import ReadReport
from gpusched_env.traces.parsing.streams import csv_header, csv_rows

HOST: Final = 8  # [GPU] per node, assumed where the files of Philly and Helios give only the number of nodes
SHARED: Final = f"nodes taken for {HOST} GPUs each, and open to the jobs of every virtual cluster"
# Format -> columns of the name of a virtual cluster and of its number of nodes
VIRTUAL_CLUSTERS: Final = {"helios": ("", "num"), "philly": ("vc", "node num")}
SWITCHES: Final = ("num_switch", "num_node_p_switch", "num_gpu_p_node")


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
