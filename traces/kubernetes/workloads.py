"""Workload objects of Kueue: what one says of its job."""

from __future__ import annotations

import math
from typing import Final, NamedTuple

from gpusched_env.traces.kubernetes.objects import (
    PodSpec,
    Table,
    gpus,
    labels,
    table,
    tables,
    template_gpus,
    text,
    typed,
    when,
    whole,
)
from gpusched_env.traces.parsing.fields import Place

WORKLOAD: Final = "Workload"
STARTS: Final = ("Admitted", "QuotaReserved", "PodsReady")  # the first of these conditions is the start
PAST: Final = ("accumulatedPastExecutionTimeSeconds", "accumulatedPastExexcutionTimeSeconds")  # of v1beta2, v1beta1
EVICTIONS: Final = ("Evicted", "Preempted", "Requeued")


class Admission(NamedTuple):
    """What Kueue gave to a Workload."""

    cluster_queue: str
    gpus: int | None  # None = not told
    flavors: tuple[str, ...]  # flavors of the GPUs
    pods: int  # 0 = not told


class QueuedWork(NamedTuple):
    """A Workload; times are in seconds since 1970, None = not yet or not told."""

    name: str  # namespace/name
    namespace: str
    queue: str  # the LocalQueue
    admission: Admission
    arrival_s: float | None
    start_s: float | None
    end_s: float | None
    gpus: int | None  # GPUs of the admission, else those that the pods request [GPU]; None = not told
    pods: int  # pods that it asks for
    limit_s: float  # NaN = none
    priority: int
    evicted: bool
    earlier_s: int  # time of the runs before its last admission [s]; 0 = none, or not told
    reason: str  # of its end
    active: bool


def workload_of(place: Place, record: Table, gpu_resource: str) -> QueuedWork:
    """Return what a Workload says."""
    name, namespace, metadata = labels(place, record)
    spec, status = table(place, record, "spec"), table(place, record, "status")
    met: dict[str, Table] = {}
    evicted, reason = False, ""
    for condition in tables(place, status, "conditions"):
        kind = text(place, condition, "type")
        evicted |= kind in EVICTIONS
        if condition.get("status") == "True":
            met[kind] = condition
            reason = text(place, condition, "reason") if kind == "Finished" else reason
    arrival = when(place, metadata, "creationTimestamp")
    started = next((met[kind] for kind in STARTS if kind in met), {})
    start, end = (when(place, one, "lastTransitionTime") for one in (started, met.get("Finished", {})))
    given = _admission(place, table(place, status, "admission"), gpu_resource)
    pod_sets = tables(place, spec, "podSets")
    used = _requested(place, pod_sets, gpu_resource) if given.gpus is None else given.gpus
    priority = whole(place, spec, "priority", 0)
    limit = whole(place, spec, "maximumExecutionTimeSeconds", 0)
    return QueuedWork(
        f"{namespace}/{name}",
        namespace,
        text(place, spec, "queueName"),
        given,
        arrival,
        start,
        end,
        used,
        sum(max(whole(place, pod_set, "count", 1), 0) for pod_set in pod_sets),
        float(limit) if limit > 0 else math.nan,
        priority,
        evicted,
        max(0, *(whole(place, status, key, 0) for key in PAST)),
        reason,
        spec.get("active") is not False,
    )


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
    return Admission(text(place, admission, "clusterQueue"), found, tuple(flavors), pods)


def _requested(place: Place, pod_sets: list[Table], gpu_resource: str) -> int | None:
    """Return the GPUs that pod sets request; None = there are no pod sets."""
    found: int | None = None
    for pod_set in pod_sets:
        own = template_gpus(place, typed(place, table(place, pod_set, "template", "spec"), PodSpec), gpu_resource) or 0
        found = (found or 0) + own * max(whole(place, pod_set, "count", 1), 0)
    return found
