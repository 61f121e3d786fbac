"""Pods and PodGroups, and the jobs to which they belong."""

from __future__ import annotations

import math
from typing import Final, NamedTuple

import msgspec

from gpusched_env.traces.kubernetes.objects import (
    AFFINITY,
    CPUS,
    NO_GPUS,
    REPAIR,
    PodSpec,
    Table,
    affine_products,
    demand,
    name_of,
    product,
    requested,
    seconds,
    text,
    typed,
)
from gpusched_env.traces.parsing.fields import MAX_WHOLE, Place

SERVICES: Final = ("ReplicaSet", "DaemonSet", "StatefulSet")  # owners whose pods are no gang: each pod is a job
ENDED: Final = ("Succeeded", "Failed")
POD: Final = "Pod"
GROUP: Final = "PodGroup"
# Annotation, or label, by which a pod names what runs as one -> kind of that object. What a scheduler starts at once
# precedes what it is a part of.
GROUPS: Final = {
    "scheduling.k8s.io/group-name": GROUP,  # Volcano
    "scheduling.volcano.sh/group-name": GROUP,
    "scheduling.x-k8s.io/pod-group": GROUP,  # Coscheduling
    "pod-group.scheduling.sigs.k8s.io": GROUP,  # Koordinator, and old versions of Coscheduling
    "pod-group.scheduling.sigs.k8s.io/name": GROUP,
    "pod-group-name": GROUP,  # KAI
    "kueue.x-k8s.io/pod-group-name": "Workload",
    "jobset.sigs.k8s.io/jobset-name": "JobSet",
    "leaderworkerset.sigs.k8s.io/group-key": "LeaderWorkerSet",
}
REFERENCES: Final = ("name", "podGroup", "podGroupReplicaKey")  # of spec.workloadRef of Kubernetes 1.35
QUEUES: Final = ("kueue.x-k8s.io/queue-name", "kai.scheduler/queue")  # labels


class _Owner(msgspec.Struct, gc=False):
    kind: str | None = None
    name: str | None = None
    uid: str | None = None


class _Metadata(msgspec.Struct, gc=False, rename="camel"):
    name: str | None = None
    namespace: str | None = None
    uid: str | None = None
    creation_timestamp: str | None = None
    annotations: Table | None = None
    labels: Table | None = None
    owner_references: list[_Owner] | None = None


class _Terminated(msgspec.Struct, gc=False, rename="camel"):
    finished_at: str | None = None


class _State(msgspec.Struct, gc=False):
    terminated: _Terminated | None = None


class _ContainerStatus(msgspec.Struct, gc=False):
    state: _State | None = None


class _Status(msgspec.Struct, gc=False, rename="camel"):
    phase: str | None = None
    start_time: str | None = None
    container_statuses: list[_ContainerStatus] | None = None


class PodObject(msgspec.Struct, gc=False):
    """The fields of a pod and of a PodGroup that are read; all names are those of Kubernetes."""

    kind: object = None
    metadata: _Metadata | None = None
    spec: PodSpec | None = None
    status: _Status | None = None


_METADATA, _SPEC, _STATUS = _Metadata(), PodSpec(), _Status()  # of objects that have none


class Words(NamedTuple):
    """The texts of a pod other than its names; few of them differ."""

    namespace: str
    queue: str
    gpu_type: str
    phase: str
    part: str  # what it requests of GPUs besides whole ones; "" = nothing
    remarks: tuple[str, ...] = ()  # what of it is not read


class Pod(msgspec.Struct, gc=False):
    """A pod; times are in seconds since 1970, inf = not yet."""

    name: str  # namespace/name
    uid: str  # "" = not told
    job: str  # KIND/namespace/name of the group or owner whose pods are one job; of the pod itself if it has neither
    job_uid: str  # of an owner; "" = not told
    words: Words
    times_s: tuple[float, float, float]  # creation, start and end
    gpus: int
    priority: int

    @property
    def age(self) -> tuple[bool, float]:
        """What is larger in newer records of a pod: whether it has ended, and its latest time."""
        return self.words.phase in ENDED, max((one for one in self.times_s if one < math.inf), default=-math.inf)

    @property
    def grouped(self) -> bool:
        """Whether it names a group."""
        return self.job.startswith(f"{GROUP}/")


class PodGroup(msgspec.Struct, gc=False):
    """A PodGroup; ``arrival_s`` is its creation in seconds since 1970, inf = not told."""

    name: str  # namespace/name
    job: str  # KIND/namespace/name
    queue: str
    arrival_s: float


def pod_of(place: Place, record: Table | PodObject, gpu_resource: str) -> Pod:
    """Return a pod; it starts with ``startTime``, and ends when its last container finishes.

    A pod that has ended although no container finished, such as an evicted one, has not started.
    """
    found = typed(place, record, PodObject)
    metadata, spec, status = found.metadata or _METADATA, found.spec or _SPEC, found.status or _STATUS
    name, namespace, phase = name_of(place, metadata.name), metadata.namespace or "", status.phase or ""
    queue = next((one for key in QUEUES if (one := text(place, metadata.labels, key))), "") if metadata.labels else ""
    resources = requested(spec)
    gpus, part = demand(place, spec, gpu_resource, resources, metadata.annotations)
    affine, unread = affine_products(place, spec)
    gpu_type = product(place, spec.node_selector, {}) or affine or product(place, None, resources)
    remarks = ((AFFINITY,) if unread else ()) + ((CPUS,) if not resources.keys().isdisjoint(NO_GPUS) else ())
    priority = spec.priority or 0
    if abs(priority) > MAX_WHOLE:
        place.refuse("priority", priority, f"expected a whole number; {REPAIR}")
    start_s, end_s = seconds(place, "startTime", status.start_time), math.inf
    if phase in ENDED:
        ends = [_end_s(place, one) for one in status.container_statuses or ()]
        end_s = max((one for one in ends if one < math.inf), default=math.inf)
        start_s = start_s if end_s < math.inf else math.inf
    return Pod(
        f"{namespace}/{name}",
        metadata.uid or "",
        *_job(place, namespace, name, metadata, spec),
        Words(namespace, queue, gpu_type, phase, part, remarks),
        (seconds(place, "creationTimestamp", metadata.creation_timestamp), start_s, end_s),
        gpus,
        priority,
    )


def _job(place: Place, namespace: str, name: str, metadata: _Metadata, spec: PodSpec) -> tuple[str, str]:
    """Return the job of a pod, whose kind keeps a group, an owner and a pod of one name apart; and its owner's uid."""
    if metadata.labels or metadata.annotations:
        marks = {**(metadata.labels or {}), **(metadata.annotations or {})}
        for key in GROUPS:
            if key in marks and (found := text(place, marks, key)):
                return f"{GROUPS[key]}/{namespace}/{found}", ""
    if spec.workload_ref or spec.scheduling_group:
        parts = [text(place, spec.workload_ref or {}, key) for key in REFERENCES]
        parts.append(text(place, spec.scheduling_group or {}, "podGroupName"))
        return f"{GROUP}/{namespace}/{'-'.join(filter(None, parts))}", ""  # as KAI names the PodGroup
    for owner in metadata.owner_references or ():
        if owner.kind not in SERVICES:
            if owner.name:
                return f"{(owner.kind or '').replace('/', '.')}/{namespace}/{owner.name}", owner.uid or ""
            break
    return f"{POD}/{namespace}/{name}", metadata.uid or ""


def _end_s(place: Place, container: _ContainerStatus) -> float:
    ended = container.state and container.state.terminated
    return seconds(place, "finishedAt", ended.finished_at) if ended else math.inf


def pod_group_of(place: Place, record: Table | PodObject) -> PodGroup:
    """Return a PodGroup."""
    found = typed(place, record, PodObject)
    metadata = found.metadata or _METADATA
    arrival_s = seconds(place, "creationTimestamp", metadata.creation_timestamp)
    name = f"{metadata.namespace or ''}/{name_of(place, metadata.name)}"
    return PodGroup(name, f"{GROUP}/{name}", (found.spec or _SPEC).queue or "", arrival_s)
