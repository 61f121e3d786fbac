"""Workload objects of Kueue: what one says of its job."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from typing import Final, NamedTuple

from gpusched_env.traces.kubernetes.gangs import parts_of
from gpusched_env.traces.kubernetes.objects import (
    AMD,
    NO_GPUS,
    SHARES,
    PodSpec,
    Table,
    demand,
    entries,
    gpus,
    labels,
    parts_of_gpus,
    requested,
    table,
    tables,
    text,
    typed,
    when,
    whole,
)
from gpusched_env.traces.parsing.fields import Place

WORKLOAD: Final = "Workload"
HOST: Final = "kubernetes.io/hostname"  # level of a topology that is a node
MOST_DOMAINS: Final = 100_000  # in a slice
STARTS: Final = ("Admitted", "QuotaReserved", "PodsReady")  # the first of these conditions is the start
PAST: Final = ("accumulatedPastExecutionTimeSeconds", "accumulatedPastExexcutionTimeSeconds")  # of v1beta2, v1beta1
EVICTIONS: Final = ("Evicted", "Preempted", "Requeued")


class Admission(NamedTuple):
    """What Kueue gave to a Workload."""

    cluster_queue: str
    gpus: int | None  # None = not told
    flavors: tuple[str, ...]  # flavors of the GPUs
    pods: int  # 0 = not told
    parts: tuple[tuple[int, int], ...]  # pods and GPUs of each, by pod set
    nodes: dict[str, int]  # name of each node -> GPUs there; empty = not told
    part: str  # as in QueuedWork


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
    part: str  # what it requests of GPUs besides whole ones; "" = nothing
    cpus: bool  # whether its pods ask for CPUs or memory
    nodes: tuple[int, int]  # least and most; (0, 0) = the pods have different numbers of GPUs


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
    earlier_s = max(0, *(whole(place, status, key, 0) for key in PAST))
    if start is None and end is not None and earlier_s > 0:  # Kueue 0.15 takes the condition Admitted back at the end
        start, earlier_s = end - earlier_s, 0
    given = _admission(place, table(place, status, "admission"), gpu_resource)
    pod_sets = tables(place, spec, "podSets")
    sets = _pod_sets(place, pod_sets, gpu_resource)
    part = next((part for _, _, part, _ in sets if part), given.part)
    used = (sum(pods * each for pods, each, *_ in sets) if sets else None) if given.gpus is None else given.gpus
    used = 0 if part == SHARES else used
    told = [(pods, each) for pods, each, *_ in sets] if any(each for _, each, *_ in sets) else given.parts
    parts = parts_of(used or 0, (each for pods, each in told if pods))
    one = parts and [table(place, one, "topologyRequest").get("required") for one in pod_sets] == [HOST]
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
        earlier_s,
        reason,
        spec.get("active") is not False,
        part,
        any(cpus for *_, cpus in sets),
        (1, 1) if one else (min(parts, 1), parts),
    )


def _admission(place: Place, admission: Table, gpu_resource: str) -> Admission:
    """Return the GPUs of an admission; ``resourceUsage`` is already multiplied by the number of pods."""
    found: int | None = None
    flavors: dict[str, None] = {}
    part, parts = "", list[tuple[int, int]]()
    nodes: Counter[str] = Counter()
    for assigned in tables(place, admission, "podSetAssignments"):
        usage = table(place, assigned, "resourceUsage")
        own = gpus(place, usage, gpu_resource)
        if own is None and usage:
            own = 0
        found = found if own is None else (found or 0) + own
        part = part or parts_of_gpus(usage, gpu_resource)
        given = table(place, assigned, "flavors")
        flavor = text(place, given, gpu_resource) or (own and text(place, given, AMD))
        flavors |= {flavor: None} if flavor else {}
        parts.append((max(whole(place, assigned, "count", 0), 0), 0))
        if own and parts[-1][0]:
            parts[-1] = parts[-1][0], own // parts[-1][0]
            for node, pods in _domains(place, table(place, assigned, "topologyAssignment")):
                nodes[node] += pods * parts[-1][1]
    told = dict(nodes) if sum(nodes.values()) == found and min(nodes.values(), default=0) > 0 else {}
    pods = sum(count for count, _ in parts)
    return Admission(text(place, admission, "clusterQueue"), found, tuple(flavors), pods, tuple(parts), told, part)


def _pod_sets(place: Place, pod_sets: list[Table], gpu_resource: str) -> list[tuple[int, int, str, bool]]:
    """Return the pods of each pod set, the GPUs that each requests, what else of GPUs, and whether CPUs or memory."""
    found = []
    for one in pod_sets:
        spec = typed(place, table(place, one, "template", "spec"), PodSpec)
        marks = table(place, one, "template", "metadata", "annotations")
        asked = requested(spec)
        each, part = demand(place, spec, gpu_resource, asked, marks)
        found.append((max(whole(place, one, "count", 1), 0), each, part, not asked.keys().isdisjoint(NO_GPUS)))
    return found


def _domains(place: Place, assignment: Table) -> Iterator[tuple[str, int]]:
    """Yield the nodes of a topologyAssignment of v1beta1 or v1beta2, and the pods there; none if it stops at racks."""
    if entries(place, assignment, "levels", str)[-1:] != [HOST]:
        return
    for one in tables(place, assignment, "domains"):
        yield "".join(entries(place, one, "values", str)[-1:]), whole(place, one, "count", 0)
    for one in tables(place, assignment, "slices"):
        count = min(whole(place, one, "domainCount", 0), MOST_DOMAINS)
        values = (tables(place, one, "valuesPerLevel") or [{}])[-1]
        roots = entries(place, values, "roots", str) or [text(place, values, "universalValue")] * count
        pods = entries(place, one, "podCounts", int) or [whole(place, one, "universalPodCount", 0)] * count
        for root, many in zip(roots, pods, strict=False):
            yield f"{text(place, values, 'prefix')}{root}{text(place, values, 'suffix')}", many
