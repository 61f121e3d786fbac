"""Read a cluster description by ``format:path``. To add a format, write one reader and add it to CLUSTER_READERS."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

from gpusched_env.problem.cluster import Cluster
from gpusched_env.traces.kubernetes.nodes import read_kubernetes_nodes
from gpusched_env.traces.node_lists import read_nodes, read_philly_nodes, read_switches, read_virtual_clusters
from gpusched_env.traces.parsing.report import ReadReport
from gpusched_env.traces.parsing.sources import split_here
from gpusched_env.traces.slurm_files.reading import read_slurm_cluster

ClusterReader = Callable[[Path], tuple[Cluster, ReadReport]]


def read_slurm_files(path: Path) -> tuple[Cluster, ReadReport]:
    """Read files of Slurm as :func:`read_slurm_cluster` does; commas separate the paths of several files."""
    paths = [path] if path.exists() else str(path).split(",")
    slurm, report = read_slurm_cluster(*paths)
    return slurm.cluster, report


CLUSTER_READERS: Final[dict[str, ClusterReader]] = {
    "bsbf": partial(read_switches, name="bsbf"),
    "helios": partial(read_virtual_clusters, name="helios"),
    "kubernetes": read_kubernetes_nodes,
    "muri": partial(read_switches, name="muri"),
    "openb": partial(read_nodes, name="openb"),
    "pai": partial(read_nodes, name="pai"),
    "philly": read_philly_nodes,
    "slurm": read_slurm_files,
    "spot": partial(read_nodes, name="spot"),
    "tiresias": partial(read_switches, name="tiresias"),
}


def read_cluster(source: str) -> tuple[Cluster, ReadReport]:
    """Read ``format:path``, for example ``openb:openb_node_list_gpu_node.csv``, and report what was kept and dropped.

    ``format:@name`` means the file that ``gpusched traces fetch name`` downloaded. If a file does not name its GPU
    types or racks, the notes of the report say what was assumed.

    Raises
    ------
    TraceError : an unknown format, or a malformed file; the message names the file, line, field and remedy
    FetchError : an unknown file name
    """
    name, path = split_here(source, "cluster", CLUSTER_READERS)
    return CLUSTER_READERS[name](path)
