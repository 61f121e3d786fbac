"""Node objects of Kubernetes as a cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from gpusched_env.errors import TraceError
from gpusched_env.problem.cluster import Cluster
from gpusched_env.traces.kubernetes.objects import (
    GPU_RESOURCE,
    SLICES,
    Table,
    gpus,
    kubernetes_objects,
    labels,
    parts_of_gpus,
    product,
    table,
    tables,
    text,
)
from gpusched_env.traces.node_lists import NO_RACKS, Machines, in_racks
from gpusched_env.traces.parsing.fields import Place
from gpusched_env.traces.parsing.report import ReadReport

# Labels that tell the rack of a node, with what its racks are inside of: names of racks may repeat in other blocks.
# Source: Kueue's page on topology-aware scheduling, and the documentation of GKE, EKS, OKE and NVIDIA's Topograph
RACKS: Final = (
    *("topology.kubernetes.io/block", "topology.kubernetes.io/rack"),
    *("cloud.provider.com/topology-block", "cloud.provider.com/topology-rack"),
    *("cloud.google.com/gce-topology-block", "cloud.google.com/gce-topology-subblock"),
    *("topology.k8s.aws/network-node-layer-2", "topology.k8s.aws/network-node-layer-3"),
    *("oci.oraclecloud.com/rdma.network_block_id", "oci.oraclecloud.com/rdma.local_block_id"),
    *("network.topology.nvidia.com/spine", "network.topology.nvidia.com/leaf"),
)
REPLICAS: Final = "nvidia.com/gpu.replicas"  # label: above 1, a GPU counts as several
SLICED_TIME: Final = "GPUs that share their time, each of which counts as several"
UNRACKED: Final = "nodes without a label of their rack, which become racks of their own kinds"
CORDONED: Final = "nodes cordoned (unschedulable), when the file was written; they stay in the cluster"
NOT_READY: Final = "nodes that are not ready, when the file was written; they stay in the cluster"
FAULTS: Final = "node.kubernetes.io/"  # keys of the taints that Kubernetes sets; those of a site, jobs may tolerate
OTHER: Final = "object of another kind than Node"


def read_kubernetes_nodes(path: Path) -> tuple[Cluster, ReadReport]:
    """Read nodes; ``allocatable`` tells their GPUs, labels their type and their rack.

    The resource is ``nvidia.com/gpu``, beside which ``amd.com/gpu`` counts; if no node has it, the only resource whose
    name ends in ``/gpu``. Nodes whose GPUs are slices, or share their time, are dropped and counted.
    """
    return _read(path)[:2]


def kubernetes_node_names(path: Path) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the names of the nodes of :func:`read_kubernetes_nodes` in the order of its cluster, and the closed."""
    return _read(path)[2:]


def _read(path: Path) -> tuple[Cluster, ReadReport, tuple[str, ...], tuple[str, ...]]:
    machines = Machines("kubernetes", path, "nodes")
    report = machines.report
    report.unit = "record"
    resource = _resource(path)
    seen: set[str] = set()
    closed: list[str] = []
    nodes: list[tuple[int, str, str, str]] = []  # GPUs, type, rack and name
    for place, record in kubernetes_objects(path):
        if table(place, record).get("kind") != "Node":
            report.rows += 1
            report.drop(OTHER, place.number)
            continue
        name, _, metadata = labels(place, record)
        if name in seen:
            place.refuse("metadata.name", name, "this node occurs twice; remove one of the two")
        seen.add(name)
        marks, allocatable = table(place, metadata, "labels"), table(place, record, "status", "allocatable")
        count, gpu_type = gpus(place, allocatable, resource) or 0, product(place, marks, allocatable)
        if reason := _divided(place, marks, gpu_type) or ("" if count else parts_of_gpus(allocatable, resource)):
            report.rows += 1
            report.drop(reason, place.number)
            continue
        if count and (why := _closed(place, record)):
            report.note(why, place.number)
            closed.append(name)
        machines.add(place, 1, count, gpu_type)
        if count:
            rack = "/".join(text(place, marks, key) for key in RACKS)
            nodes.append((count, gpu_type, rack.strip("/") and rack, name))
    if resource != GPU_RESOURCE:
        report.columns.append(f"the GPU is the resource {resource}")
    machines.cluster()
    free = sum(not rack for _, _, rack, _ in nodes)
    if free < len(nodes):
        del report.notes[NO_RACKS]
        report.notes |= {UNRACKED: free} if free else {}
    groups, names = in_racks(nodes)
    return Cluster(groups), report, tuple(names), tuple(closed)


def _closed(place: Place, record: Table) -> str:
    """Return why a node starts no jobs; "" = it does."""
    spec = table(place, record, "spec")
    if spec.get("unschedulable") is True:
        return CORDONED
    faults = [
        text(place, one, "effect") in ("NoSchedule", "NoExecute")
        for one in tables(place, spec, "taints")
        if text(place, one, "key").startswith(FAULTS)
    ]
    conditions = tables(place, table(place, record, "status"), "conditions")
    unready = (one.get("status") != "True" for one in conditions if one.get("type") == "Ready")
    return NOT_READY if any(faults) or any(unready) else ""


def _divided(place: Place, marks: Table, gpu_type: str) -> str:
    """Return why the GPUs of a node are no whole ones, though their resource is that of whole GPUs; "" = they are."""
    if "-MIG-" in gpu_type:  # the strategy single
        return SLICES
    return SLICED_TIME if gpu_type.endswith("-SHARED") or text(place, marks, REPLICAS) not in ("", "0", "1") else ""


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
