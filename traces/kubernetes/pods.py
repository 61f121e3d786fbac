"""Pods and PodGroups, and the jobs to which they belong."""

from __future__ import annotations

import math
from typing import Final, NamedTuple

from gpusched_env.traces.kubernetes.objects import Table, labels, table, tables, template_gpus, text, when, whole
from gpusched_env.traces.parsing.fields import Place

# Annotation, and label, by which a pod names its group
GROUPS: Final = ("scheduling.k8s.io/group-name", "scheduling.x-k8s.io/pod-group")
QUEUE: Final = "kueue.x-k8s.io/queue-name"
SERVICES: Final = ("ReplicaSet", "DaemonSet", "StatefulSet")  # owners whose pods are no gang: each pod is a job
ENDED: Final = ("Succeeded", "Failed")
POD: Final = "Pod"
GROUP: Final = "PodGroup"


class Words(NamedTuple):
    """The texts of a pod other than its names; few of them differ."""

    namespace: str
    queue: str
    gpu_type: str
    phase: str


class Pod(NamedTuple):
    """A pod; times are in seconds since 1970, inf = not yet."""

    name: str  # namespace/name
    job: str  # KIND/namespace/name of the group or owner whose pods are one job; of the pod itself if it has neither
    words: Words
    times_s: tuple[float, float, float]  # creation, start and end
    gpus: int
    priority: int

    @property
    def grouped(self) -> bool:
        """Whether it names a group."""
        return self.job.startswith(f"{GROUP}/")


class PodGroup(NamedTuple):
    """A PodGroup; ``arrival_s`` is its creation in seconds since 1970, inf = not told."""

    name: str  # namespace/name
    job: str  # KIND/namespace/name
    queue: str
    arrival_s: float


def pod_of(place: Place, record: Table, gpu_resource: str) -> Pod:
    """Return a pod; it starts with ``startTime``, and ends when its last container finishes.

    Raises
    ------
    TraceError : a malformed field
    """
    name, namespace, metadata = labels(place, record)
    spec, status = table(place, record, "spec"), table(place, record, "status")
    annotations, marks = table(place, metadata, "annotations"), table(place, metadata, "labels")
    phase = text(place, status, "phase")
    ends = [_end_s(place, one) for one in tables(place, status, "containerStatuses")]
    arrival, start = when(place, metadata, "creationTimestamp"), when(place, status, "startTime")
    gpu_type = text(place, table(place, spec, "nodeSelector"), "nvidia.com/gpu.product")
    return Pod(
        f"{namespace}/{name}",
        _job(place, namespace, name, (annotations, marks), tables(place, metadata, "ownerReferences")),
        Words(namespace, text(place, marks, QUEUE), gpu_type, phase),
        (
            math.inf if arrival is None else arrival,
            math.inf if start is None else start,
            max(ends, default=math.inf) if phase in ENDED else math.inf,
        ),
        template_gpus(place, spec, gpu_resource) or 0,
        whole(place, spec, "priority", 0),
    )


def _job(place: Place, namespace: str, name: str, marks: tuple[Table, Table], owners: list[Table]) -> str:
    """Return the job of a pod. The kind keeps a group, an owner and a pod of one name apart."""
    for key in GROUPS if any(marks) else ():
        for mark in marks:
            if found := text(place, mark, key):
                return f"{GROUP}/{namespace}/{found}"
    for owner in owners:
        if owner.get("kind") not in SERVICES:
            if found := text(place, owner, "name"):
                return f"{text(place, owner, 'kind').replace('/', '.')}/{namespace}/{found}"
            break
    return f"{POD}/{namespace}/{name}"


def _end_s(place: Place, container: Table) -> float:
    end = when(place, table(place, container, "state", "terminated"), "finishedAt")
    return math.inf if end is None else end


def pod_group_of(place: Place, record: Table) -> PodGroup:
    """Return a PodGroup.

    Raises
    ------
    TraceError : a malformed field
    """
    name, namespace, metadata = labels(place, record)
    arrival = when(place, metadata, "creationTimestamp")
    queue = text(place, table(place, record, "spec"), "queue")
    name = f"{namespace}/{name}"
    return PodGroup(name, f"{GROUP}/{name}", queue, math.inf if arrival is None else arrival)
