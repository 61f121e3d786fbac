"""Snapshots from objects of Kubernetes: Workloads of Kueue, or pods and PodGroups."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path
from typing import Final

from gpusched_env.errors import GpuschedError, TraceError
from gpusched_env.problem.workload import MAX_NODES, MIN_NODES
from gpusched_env.traces.kubernetes.gangs import parts_of
from gpusched_env.traces.kubernetes.objects import (
    GPU_RESOURCE,
    Table,
    gpus,
    kubernetes_objects,
    table,
    tables,
    text,
    when,
)
from gpusched_env.traces.kubernetes.pods import ENDED, GROUP, POD, Pod, pod_group_of, pod_of
from gpusched_env.traces.kubernetes.workloads import WORKLOAD, workload_of
from gpusched_env.traces.parsing.bad_rows import skippable
from gpusched_env.traces.parsing.columns import NODES
from gpusched_env.traces.parsing.fields import Place
from gpusched_env.twin.snapshot import PresentJob, Snapshot, dated, skipped_notes, snapshot_of_jobs

UNDATED: Final = "the file tells no time: it is taken as the last change in it; --at says when it was written"
GPULESS: Final = "jobs without GPUs, or whose GPUs the file does not tell, are left out"
PARTIAL: Final = "jobs with {} are left out"
ENDED_NOTE: Final = "jobs that have ended are left out"
OTHER: Final = "objects of other kinds are left out"
NEGATIVE: Final = "jobs of negative priority, which is taken as 0"
PARTLY: Final = "jobs of which only some pods have nodes; their gang is that of these pods"


class _Present:
    """The jobs read so far."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.jobs: list[tuple[Place, PresentJob]] = []
        self.held: list[str] = []
        self.notes: Counter[str] = Counter()
        self.seen: set[str] = set()  # objects
        self.seen_jobs: set[str] = set()
        self.last_s = 0.0

    def refuse_duplicate(self, place: Place, name: str) -> None:
        """Refuse an object that occurred before."""
        if name in self.seen:
            place.refuse("metadata.name", name, "this object occurs twice; remove one of the two")
        self.seen.add(name)

    def see(self, *times_s: float | None) -> None:
        """Remember the latest time."""
        self.last_s = max(self.last_s, *(one for one in times_s if one is not None and one < math.inf), 0.0)

    def add(self, place: Place, job: dict[str, object]) -> None:
        """Add a running or queued job; the fields are those of PresentJob."""
        try:
            made = PresentJob(**job)  # type: ignore[arg-type]
        except GpuschedError as error:
            place.refuse("object", job["id"], f"{error}; correct or remove it")
        self.jobs.append((place, made))

    def priority(self, number: int) -> float:
        """Return the class of a priority."""
        self.notes[NEGATIVE] += number < 0
        return float(max(number, 0))

    def snapshot(self, time_s: float) -> Snapshot:
        """Return the snapshot."""
        undated = math.isnan(time_s)
        time_s = self.last_s if undated else time_s
        jobs = dated(self.jobs, time_s)
        notes = [f"{count:,} {note}" for note, count in self.notes.items() if count] + skipped_notes()
        notes += [UNDATED] if undated else []
        if not jobs and not self.held:
            said = "".join(f"\n  {note}" for note in notes)
            raise TraceError(f"{self.path}: no job runs or waits.{said}\nCheck that this is the right file")
        try:
            return snapshot_of_jobs(time_s, jobs, self.held, notes)
        except GpuschedError as error:
            raise TraceError(f"{self.path}: {error}") from error


def read_kueue_snapshot(path: str | Path, time_s: float = math.nan, gpu_resource: str = GPU_RESOURCE) -> Snapshot:
    """Read Workloads: admitted ones run, others wait, and those that are not active are held.

    Start, gang and limit are those of :func:`gpusched_env.traces.formats.kueue.read_kueue`; the user is the namespace,
    and the queue that of the admission, else the LocalQueue. Workloads of topology-aware scheduling tell their nodes.
    Times are in UTC.

    ``time_s`` : when the file was written, seconds since 1970; NaN = the last change in it.
    """
    found = _Present(Path(path))
    for place, record in kubernetes_objects(found.path):
        with skippable:
            if table(place, record).get("kind") != WORKLOAD:
                found.notes[OTHER] += 1
                continue
            told = workload_of(place, record, gpu_resource)
            found.refuse_duplicate(place, told.name)
            changes = tables(place, table(place, record, "status"), "conditions")
            found.see(told.arrival_s, *(when(place, one, "lastTransitionTime") for one in changes))
            if told.end_s is not None:
                found.notes[ENDED_NOTE] += 1
            elif not told.gpus:
                found.notes[PARTIAL.format(told.part) if told.part else GPULESS] += 1
            elif told.start_s is None and not told.active:
                found.held.append(told.name)
            else:
                job: dict[str, object] = {"id": told.name, "gpus": told.gpus, "limit_s": told.limit_s}
                job |= {"arrival_s": _or_nan(told.arrival_s), "start_s": _or_nan(told.start_s)}
                job["queue"] = told.admission.cluster_queue or f"{told.namespace}/{told.queue}"
                job |= zip(NODES, told.nodes, strict=True)
                if told.start_s is not None:
                    job["nodes"] = told.admission.nodes
                found.add(place, job | {"user": told.namespace, "priority": found.priority(told.priority)})
    return found.snapshot(time_s)


def read_pods_snapshot(path: str | Path, time_s: float = math.nan, gpu_resource: str = GPU_RESOURCE) -> Snapshot:
    """Read pods and PodGroups; pods of one owner or group are one job, as the formats kubernetes and volcano say.

    A job runs if one of its pods with GPUs has a node; it holds the GPUs of its pods that have one. Pods that have
    ended do not count. A PodGroup without pods waits for the GPUs of its ``minResources``. The user is the namespace.
    Times are in UTC.
    """
    found = _Present(Path(path))
    gangs: dict[str, list[tuple[Place, Pod, str]]] = {}
    groups: dict[str, tuple[Place, float, int]] = {}
    ended: set[str] = set()
    for place, record in kubernetes_objects(found.path):
        with skippable:
            kind = table(place, record).get("kind")
            if kind == GROUP:
                group = pod_group_of(place, record)
                found.refuse_duplicate(place, f"{GROUP} {group.name}")
                found.see(group.arrival_s)
                groups[group.job] = place, group.arrival_s, _least_gpus(place, record, gpu_resource)
            elif kind == POD:
                pod = pod_of(place, record, gpu_resource)
                found.refuse_duplicate(place, pod.name)
                found.see(*pod.times_s)
                if pod.words.phase in ENDED:
                    ended.add(pod.job)
                else:
                    node = text(place, table(place, record, "spec"), "nodeName")
                    gangs.setdefault(pod.job, []).append((place, pod, node))
            else:
                found.notes[OTHER] += 1
    for job, (place, arrival_s, least) in groups.items():
        if job not in gangs and job not in ended:
            with skippable:
                _add(found, place, job, least, {"arrival_s": arrival_s})
    for job, pods in gangs.items():
        with skippable:
            _add_gang(found, job, pods, groups[job][1] if job in groups else math.inf)
    found.notes[ENDED_NOTE] += len(ended - gangs.keys())
    return found.snapshot(time_s)


def _add_gang(found: _Present, job: str, pods: list[tuple[Place, Pod, str]], arrival_s: float) -> None:
    holds = [one for one in pods if one[1].gpus]
    placed = [one for one in holds if one[2]]
    place, first, _ = pods[0]
    arrival_s = min([arrival_s, *(pod.times_s[0] for _, pod, _ in pods)])
    told: dict[str, object] = {"arrival_s": arrival_s, "priority": found.priority(first.priority)}
    if placed:
        found.notes[PARTLY] += len(placed) < len(holds)
        nodes: Counter[str] = Counter()
        for _, pod, node in placed:
            nodes[node] += pod.gpus
        start_s = min(pod.times_s[1] for _, pod, _ in placed)
        told |= {"start_s": start_s if start_s < math.inf else arrival_s, "nodes": dict(nodes)}
    count = sum(pod.gpus for _, pod, _ in placed or holds)
    if not count and (part := next((pod.words.part for _, pod, _ in pods if pod.words.part), "")):
        found.notes[PARTIAL.format(part)] += 1
        return
    parts = parts_of(count, (pod.gpus for _, pod, _ in placed or holds))
    types = dict.fromkeys(name for _, pod, _ in holds if (name := pod.words.gpu_type))
    told["gpu_types"] = "|".join(types)
    _add(found, place, job, count, told | {MIN_NODES: min(parts, 1), MAX_NODES: parts})


def _add(found: _Present, place: Place, job: str, count: int, told: dict[str, object]) -> None:
    """Add a job of pods; ``job`` is KIND/namespace/name."""
    if not count:
        found.notes[GPULESS] += 1
        return
    name = job.partition("/")[2]
    name = job if name in found.seen_jobs else name
    found.seen_jobs.add(name)
    arrival_s = told["arrival_s"]
    told["arrival_s"] = math.nan if arrival_s == math.inf else arrival_s
    found.add(place, told | {"id": name, "gpus": count, "user": name.rpartition("/")[0].rpartition("/")[2]})


def _least_gpus(place: Place, record: Table, gpu_resource: str) -> int:
    """Return the GPUs of ``minResources``, under the name of the resource or ``requests.`` and this name."""
    least = table(place, record, "spec", "minResources")
    found = gpus(place, least, gpu_resource)
    return (gpus(place, least, f"requests.{gpu_resource}") if found is None else found) or 0


def _or_nan(time_s: float | None) -> float:
    return math.nan if time_s is None else time_s
