"""Pods and the gangs that they form: the pods of one owner run as one job."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from gpusched_env.traces.kubernetes.objects import Table, labels, table, tables, template_gpus, text, when, whole
from gpusched_env.traces.parsing.fields import Place

# Annotation, and label, by which a pod names its group
GROUPS: Final = ("scheduling.k8s.io/group-name", "scheduling.x-k8s.io/pod-group")
QUEUE: Final = "kueue.x-k8s.io/queue-name"
SERVICES: Final = ("ReplicaSet", "DaemonSet", "StatefulSet")  # owners whose pods are no gang: each pod is a job
ENDED: Final = ("Succeeded", "Failed")
FURTHER: Final = "further pod of a job, which is one job together with its first pod"
REPLACED: Final = "jobs with pods that replaced others; the gang is the largest number of GPUs at one time"


class Pod(NamedTuple):
    """A pod; times are in seconds since 1970, inf = not yet."""

    place: Place
    row: int  # number of the object, counted from 0
    name: str  # namespace/name
    namespace: str
    group: str  # group that it names; "" = none
    owner: str  # namespace/name of the owner whose gang it is part of; "" = it is a job of its own
    arrival_s: float
    start_s: float
    end_s: float
    gpus: int
    phase: str
    gpu_type: str
    queue: str
    priority: int


def pod_of(place: Place, row: int, record: Table, gpu_resource: str) -> Pod:
    """Return a pod; it starts with ``startTime``, and ends when its last container finishes.

    Raises
    ------
    TraceError : a malformed field
    """
    name, namespace, metadata = labels(place, record)
    spec, status = table(place, record, "spec"), table(place, record, "status")
    marks = table(place, metadata, "annotations"), table(place, metadata, "labels")
    group = next((found for key in GROUPS for mark in marks if (found := text(place, mark, key))), "")
    owners = [one for one in tables(place, metadata, "ownerReferences") if one.get("kind") not in SERVICES]
    owner = next((text(place, one, "name") for one in owners), "")
    phase = text(place, status, "phase")
    ends = [_end_s(place, one) for one in tables(place, status, "containerStatuses")]
    arrival, start = when(place, metadata, "creationTimestamp"), when(place, status, "startTime")
    return Pod(
        place,
        row,
        f"{namespace}/{name}",
        namespace,
        group,
        f"{namespace}/{owner}" if owner else "",
        math.inf if arrival is None else arrival,
        math.inf if start is None else start,
        max(ends, default=math.inf) if phase in ENDED else math.inf,
        template_gpus(place, spec, gpu_resource) or 0,
        phase,
        text(place, table(place, spec, "nodeSelector"), "nvidia.com/gpu.product"),
        text(place, marks[1], QUEUE),
        whole(place, spec, "priority", 0),
    )


def _end_s(place: Place, container: Table) -> float:
    end = when(place, table(place, container, "state", "terminated"), "finishedAt")
    return math.inf if end is None else end


@dataclass
class Gang:
    """The pods of a job, in the order of the file."""

    pods: list[Pod] = field(default_factory=list)

    @property
    def with_gpus(self) -> list[Pod]:
        """The pods that hold GPUs; all of them if none does."""
        return [pod for pod in self.pods if pod.gpus] or self.pods

    @property
    def arrival_s(self) -> float:
        """Creation of the first pod."""
        return min(pod.arrival_s for pod in self.pods)

    @property
    def start_s(self) -> float:
        """Start of the first pod that holds GPUs; inf = none has started."""
        return min(pod.start_s for pod in self.with_gpus)

    @property
    def end_s(self) -> float:
        """End of the last pod that has started."""
        return max((pod.end_s for pod in self.with_gpus if pod.start_s < math.inf), default=math.inf)

    @property
    def gpus(self) -> int:
        """Largest number of GPUs that its pods hold at one time [GPU]."""
        return most_at_once((pod.start_s, pod.end_s, pod.gpus) for pod in self.with_gpus)

    @property
    def status(self) -> str:
        """Failed if a pod failed, else the phase of the last one."""
        phases = [pod.phase for pod in self.pods]
        return "Failed" if "Failed" in phases else phases[-1]

    def unusable(self, arrival_s: float) -> str:
        """Return why it is no job if it arrives then; "" = it is one."""
        if arrival_s == math.inf:
            return "no submission time"
        if self.start_s == math.inf:
            return "never started"
        if self.end_s == math.inf:
            return "still running at the end of the log"
        if self.end_s < self.start_s:
            return "ended before it started"
        return "started before it was submitted" if self.start_s < arrival_s else ""


def most_at_once(holds: Iterable[tuple[float, float, int]]) -> int:
    """Return the largest number of GPUs held at one time, of (start [s], end [s], GPUs); an end frees GPUs first."""
    changes: list[tuple[float, int]] = []
    for start_s, end_s, gpus in holds:
        if start_s < math.inf:
            changes += [(start_s, gpus), (max(end_s, start_s), -gpus)]
    most = held = 0
    for _, change in sorted(changes):
        held += change
        most = max(most, held)
    return most
