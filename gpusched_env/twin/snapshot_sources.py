"""Snapshots by ``FORMAT:PATH``, and what a forecast knows of the nodes of the cluster."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from gpusched_env.errors import GpuschedError, unknown_name
from gpusched_env.problem.workload import Workload
from gpusched_env.traces.kubernetes.nodes import kubernetes_node_names
from gpusched_env.traces.kubernetes.objects import GPU_RESOURCE
from gpusched_env.traces.parsing.bad_rows import skipping_bad_rows
from gpusched_env.traces.parsing.columns import since_epoch
from gpusched_env.traces.parsing.detection import recognise
from gpusched_env.traces.parsing.sources import AUTO
from gpusched_env.traces.reading import SIGNATURES
from gpusched_env.traces.slurm_files.reading import read_slurm_cluster
from gpusched_env.twin.history import USER
from gpusched_env.twin.kubernetes_snapshots import read_kueue_snapshot, read_pods_snapshot
from gpusched_env.twin.outages import CLOSED
from gpusched_env.twin.snapshot import Snapshot, read_snapshot, with_node_names
from gpusched_env.twin.squeue import COLUMNS as SQUEUE_COLUMNS
from gpusched_env.twin.squeue import read_squeue

JSON: Final = "json"
OBJECTS: Final[dict[str, Callable[[Path, float, str], Snapshot]]] = {
    "kubernetes": read_pods_snapshot,
    "kueue": read_kueue_snapshot,
    "volcano": read_pods_snapshot,
}
SQUEUE: Final = "squeue"
FORMATS: Final = (JSON, SQUEUE, *OBJECTS)


def snapshot_of(
    source: str,
    at: str | None = None,
    gpus_per_node: int = 0,
    gpu_resource: str = GPU_RESOURCE,
    skip_bad_rows: bool = False,
) -> Snapshot:
    """Read ``FILE.json``, or ``FORMAT:FILE`` with one of FORMATS, or ``auto:FILE``, whose format is recognised.

    ``at`` : when it was written, ``YYYY-MM-DDTHH:MM:SS``; of objects of Kubernetes in UTC, or with a zone.
    ``gpus_per_node`` : of squeue, for jobs without TRES.
    """
    kind, colon, path = source.partition(":")
    if not colon or Path(source).exists():
        kind, path = JSON, source
    if kind == AUTO:
        known = {name: SQUEUE_COLUMNS if name == SQUEUE else SIGNATURES[name] for name in FORMATS[1:]}
        kind = recognise(Path(path), known, or_csv=False)
    if kind not in FORMATS:
        names = unknown_name("format of a snapshot", kind, FORMATS)
        raise GpuschedError(f"--snapshot {source!r}: {names}; give FILE.json, or FORMAT:FILE")
    if kind == JSON:
        if at is not None:
            raise GpuschedError(f"--at {at!r}: the field time of {path} tells it; leave out --at")
        return read_snapshot(path)
    time_s = math.nan if at is None else _time_s(at, zoned=kind != SQUEUE)
    with skipping_bad_rows() if skip_bad_rows else nullcontext():
        if kind == SQUEUE:
            return read_squeue(path, time_s, gpus_per_node)
        return OBJECTS[kind](Path(path), time_s, gpu_resource)


def _time_s(at: str, zoned: bool) -> float:
    """Return the seconds since 1970 of a text; one with a zone only if ``zoned``."""
    try:
        moment = datetime.fromisoformat(at)
    except ValueError:
        moment = None
    if moment is None or (moment.tzinfo is not None and not zoned):
        zone = "in UTC, or with a zone" if zoned else "in the zone of the file"
        raise GpuschedError(f"--at {at!r}: write YYYY-MM-DDTHH:MM:SS, {zone}")
    return since_epoch(moment if moment.tzinfo is None else moment.astimezone(UTC).replace(tzinfo=None))


def recorded_nodes(cluster: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the names of the nodes of ``FORMAT:PATH``, in the order of the cluster, and of those that are closed.

    Both are empty if it names none. Closed are nodes that are down, drained, in maintenance, cordoned or not ready.
    ``slurm`` and ``kubernetes`` name nodes; a node of Slurm with GPUs of several types occurs once for each of them in
    the order.
    """
    cluster = cluster.strip()
    kind, colon, path = cluster.partition(":")
    if not colon and cluster.endswith(".conf"):
        kind, path = "slurm", cluster
    if kind == "slurm" and path:
        slurm, _ = read_slurm_cluster(*([path] if Path(path).exists() else path.split(",")))
        closed = tuple(dict.fromkeys(node.name for node in slurm.nodes if node.condition in CLOSED))
        return tuple(node.name for node in slurm.nodes), closed
    return kubernetes_node_names(Path(path)) if kind == "kubernetes" and path else ((), ())


def named_by(cluster: str, snapshot: Snapshot) -> Snapshot:
    """Return the snapshot with the names of the nodes of ``FORMAT:PATH``, and with those of them that are closed."""
    names, closed = recorded_nodes(cluster)
    if not names:
        return snapshot
    closed = tuple(dict.fromkeys((*snapshot.closed, *closed)))
    return dataclasses.replace(with_node_names(snapshot, names), closed=closed)


def namespaces_as_users(workload: Workload) -> Workload:
    """Return jobs of Kubernetes with their namespace as their user, as snapshots have it; other jobs as they are."""
    told = workload.attributes
    if USER in told or "namespace" not in told:
        return workload
    return dataclasses.replace(workload, attributes={**told, USER: told["namespace"]})
