"""Node objects of Kubernetes as a cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from gpusched_env.errors import TraceError
from gpusched_env.problem.cluster import Cluster
from gpusched_env.traces.kubernetes.objects import GPU_RESOURCE, Table, gpus, kubernetes_objects, labels, table, text
from gpusched_env.traces.node_lists import Machines
from gpusched_env.traces.parsing.report import ReadReport

PRODUCT: Final = "nvidia.com/gpu.product"  # label of the GPU type, which NVIDIA's feature discovery writes
CORDONED: Final = "nodes cordoned (unschedulable), when the file was written; they stay in the cluster"
OTHER: Final = "object of another kind than Node"


def read_kubernetes_nodes(path: Path) -> tuple[Cluster, ReadReport]:
    """Read nodes; ``allocatable`` tells their GPUs, and the label ``nvidia.com/gpu.product`` their type.

    The resource is ``nvidia.com/gpu``; if no node has it, the only resource whose name ends in ``/gpu``.
    """
    return _read(path)[:2]


def kubernetes_node_names(path: Path) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the names of the nodes of :func:`read_kubernetes_nodes` in the order of its cluster, and the cordoned."""
    return _read(path)[2:]


def _read(path: Path) -> tuple[Cluster, ReadReport, tuple[str, ...], tuple[str, ...]]:
    machines = Machines("kubernetes", path, "nodes")
    report = machines.report
    report.unit = "record"
    resource = _resource(path)
    seen: set[str] = set()
    cordoned: list[str] = []
    kinds: dict[tuple[int, str], list[str]] = {}  # a kind of node is a group of the cluster
    for place, record in kubernetes_objects(path):
        if table(place, record).get("kind") != "Node":
            report.rows += 1
            report.drop(OTHER, place.number)
            continue
        name, _, metadata = labels(place, record)
        if name in seen:
            place.refuse("metadata.name", name, "this node occurs twice; remove one of the two")
        seen.add(name)
        count = gpus(place, table(place, record, "status", "allocatable"), resource) or 0
        gpu_type = text(place, table(place, metadata, "labels"), PRODUCT)
        if count and table(place, record, "spec").get("unschedulable") is True:
            report.note(CORDONED, place.number)
            cordoned.append(name)
        machines.add(place, 1, count, gpu_type)
        if count:
            kinds.setdefault((count, gpu_type), []).append(name)
    if resource != GPU_RESOURCE:
        report.columns.append(f"the GPU is the resource {resource}")
    return *machines.cluster(), tuple(name for names in kinds.values() for name in names), tuple(cordoned)


def _resource(path: Path) -> str:
    """Return the name of the resource that is a GPU."""
    names: dict[str, None] = {}
    for place, record in kubernetes_objects(path):
        allocatable: Table = table(place, record, "status") if isinstance(record, dict) else {}
        names |= dict.fromkeys(name for name in table(place, allocatable, "allocatable") if name.endswith("/gpu"))
        if GPU_RESOURCE in names:
            return GPU_RESOURCE
    if len(names) > 1:
        raise TraceError(f"{path}: {' and '.join(names)} could be the GPU; remove one of them from the file")
    return next(iter(names), GPU_RESOURCE)
