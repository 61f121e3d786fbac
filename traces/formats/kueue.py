"""Workload objects of Kueue: JSON lines, a JSON list, or the List that ``kubectl get workloads -A -o json`` writes."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Final, NamedTuple

from gpusched_env.traces.kubernetes.objects import (
    GPU_RESOURCE,
    Table,
    gpus,
    kubernetes_objects,
    labels,
    table,
    tables,
    template_gpus,
    text,
    when,
    whole,
)
from gpusched_env.traces.parsing.bad_rows import skippable
from gpusched_env.traces.parsing.columns import JobColumns
from gpusched_env.traces.parsing.fields import Place
from gpusched_env.traces.parsing.report import ReadReport
from gpusched_env.workload import Workload

OTHER: Final = "object of another kind than Workload"
EVICTED: Final = "jobs that were evicted before; their start is their last admission, and earlier runs are lost"
PARTIAL: Final = "jobs admitted with fewer pods than they asked for"
STARTS: Final = ("Admitted", "QuotaReserved", "PodsReady")  # the first of these conditions is the start


class Admission(NamedTuple):
    """What Kueue gave to a Workload."""

    gpus: int | None  # None = not told
    flavors: tuple[str, ...]  # flavors of the GPUs
    pods: int  # 0 = not told


def read_kueue(path: Path, gpu_resource: str = GPU_RESOURCE) -> tuple[Workload, ReadReport]:
    """Read Workloads; objects of other kinds are counted.

    The arrival is ``creationTimestamp``, the start the time of the condition Admitted (else QuotaReserved, else
    PodsReady), and the end that of Finished. The gang is ``resourceUsage`` of the admission, summed over its pod sets,
    else the requests of the pod sets times their count. ``maximumExecutionTimeSeconds`` becomes ``estimate_s``. The job
    id is the number of the object from 0. Attributes: original_id (namespace/name), namespace, queue (the LocalQueue),
    cluster_queue, gpu_type (the flavors, joined by ``|``), status (reason of Finished), priority and wait_s (numbers:
    start minus arrival [s]). Source: the API reference of Kueue, Workload.

    Parameters
    ----------
    gpu_resource : name of the resource that is a GPU

    Raises
    ------
    TraceError : damaged JSON, or a malformed field
    """
    report = ReadReport("kueue", str(path), unit="record")
    names = ("original_id", "namespace", "queue", "cluster_queue", "gpu_type", "status")
    jobs = JobColumns(report, *names, numbers={"priority": "q", "wait_s": "d"})
    for place, record in kubernetes_objects(path):
        with skippable:
            if table(place, record).get("kind") != "Workload":
                jobs.drop(place, OTHER)
                continue
            _read(place, record, jobs, gpu_resource)
    return jobs.workload("kueue", dated=True)


def _read(place: Place, record: Table, jobs: JobColumns, gpu_resource: str) -> None:
    name, namespace, metadata = labels(place, record)
    original = f"{namespace}/{name}"
    jobs.refuse_duplicate(place, "metadata.name", original)
    spec, status = table(place, record, "spec"), table(place, record, "status")
    met: dict[str, Table] = {}
    evicted, reason = False, ""
    for condition in tables(place, status, "conditions"):
        kind = text(place, condition, "type")
        evicted |= kind in ("Evicted", "Preempted", "Requeued")
        if condition.get("status") == "True":
            met[kind] = condition
            reason = text(place, condition, "reason") if kind == "Finished" else reason
    arrival = when(place, metadata, "creationTimestamp")
    started = next((met[kind] for kind in STARTS if kind in met), {})
    start, end = (when(place, one, "lastTransitionTime") for one in (started, met.get("Finished", {})))
    admission = table(place, status, "admission")
    given = _admission(place, admission, gpu_resource)
    pod_sets = tables(place, spec, "podSets")
    used = _request(place, pod_sets, gpu_resource) if given.gpus is None else given.gpus
    priority = whole(place, spec, "priority", 0)
    limit = whole(place, spec, "maximumExecutionTimeSeconds", 0)
    unusable = _unusable(arrival, start, end, used)
    if unusable or arrival is None or start is None or end is None or used is None:
        jobs.drop(place, unusable)
        return
    if used and end > start:
        if evicted:
            jobs.note(place, EVICTED)
        if 0 < given.pods < sum(max(whole(place, pod_set, "count", 1), 0) for pod_set in pod_sets):
            jobs.note(place, PARTIAL)
    cluster_queue = text(place, admission, "clusterQueue")
    told = (original, namespace, text(place, spec, "queueName"), cluster_queue, "|".join(given.flavors), reason)
    estimate_s = float(limit) if limit > 0 else math.nan
    jobs.add(place, arrival, used, end - start, *told, estimate_s=estimate_s, priority=priority, wait_s=start - arrival)


def _unusable(arrival: float | None, start: float | None, end: float | None, used: int | None) -> str:
    """Return why a Workload is no job; "" = it is one."""
    if arrival is None:
        return "no submission time"
    if start is None:
        return "never started"
    if end is None:
        return "still running at the end of the log"
    if end < start:
        return "ended before it started"
    if start < arrival:
        return "started before it was submitted"
    return "number of GPUs unknown" if used is None else ""


def _admission(place: Place, admission: Table, gpu_resource: str) -> Admission:
    """Return the GPUs of an admission; ``resourceUsage`` is already multiplied by the number of pods."""
    found: int | None = None
    flavors: dict[str, None] = {}
    pods = 0
    for assigned in tables(place, admission, "podSetAssignments"):
        usage = table(place, assigned, "resourceUsage")
        own = gpus(place, usage, gpu_resource)
        if own is None and usage:
            own = 0
        found = found if own is None else (found or 0) + own
        flavor = text(place, table(place, assigned, "flavors"), gpu_resource)
        flavors |= {flavor: None} if flavor else {}
        pods += max(whole(place, assigned, "count", 0), 0)
    return Admission(found, tuple(flavors), pods)


def _request(place: Place, pod_sets: list[Table], gpu_resource: str) -> int | None:
    """Return the GPUs that pod sets request; None = there are no pod sets."""
    found: int | None = None
    for pod_set in pod_sets:
        own = template_gpus(place, table(place, pod_set, "template", "spec"), gpu_resource) or 0
        found = (found or 0) + own * max(whole(place, pod_set, "count", 1), 0)
    return found
