"""PodGroups of Volcano with their pods, as ``kubectl get podgroups,pods -A -o json`` writes them."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Final, NamedTuple

from gpusched_env.traces.formats.kubernetes import NAMES, add_gang
from gpusched_env.traces.kubernetes.objects import GPU_RESOURCE, kubernetes_objects, labels, table, text, when
from gpusched_env.traces.kubernetes.pods import FURTHER, Gang, pod_of
from gpusched_env.traces.parsing.bad_rows import skippable
from gpusched_env.traces.parsing.columns import JobColumns
from gpusched_env.traces.parsing.fields import Place
from gpusched_env.traces.parsing.report import ReadReport
from gpusched_env.workload import Workload

OTHER: Final = "object of another kind than PodGroup and Pod"
ALONE: Final = "pod of no PodGroup"
EMPTY: Final = "PodGroup without pods in the file"
GROUP: Final = "PodGroup, whose job is that of its pods"
LOST: Final = "jobs whose PodGroup is not in the file; they arrive with their first pod"


class PodGroup(NamedTuple):
    """A PodGroup; ``arrival_s`` is its creation in seconds since 1970."""

    place: Place
    arrival_s: float
    queue: str


def read_volcano(path: Path, gpu_resource: str = GPU_RESOURCE) -> tuple[Workload, ReadReport]:
    """Read PodGroups and the pods that name them (``scheduling.k8s.io/group-name``), in any order.

    A PodGroup is a job: it arrives when it is created, and its gang, start and end are those of its pods, as in
    :func:`gpusched_env.traces.formats.kubernetes.read_kubernetes`. The job id is the number of its first pod from 0.
    Attributes: those of that reader; ``queue`` is that of the PodGroup.

    Parameters
    ----------
    gpu_resource : name of the resource that is a GPU

    Raises
    ------
    TraceError : damaged JSON, a malformed field, or an object that occurs twice
    """
    jobs = JobColumns(ReadReport("volcano", str(path), unit="record"), *NAMES, numbers={"priority": "q", "wait_s": "d"})
    groups: dict[str, PodGroup] = {}
    gangs: dict[str, Gang] = {}
    waiting = 0  # objects that are held back until all are read
    for place, record in kubernetes_objects(path):
        with skippable:
            kind = table(place, record).get("kind")
            if kind == "PodGroup":
                name, namespace, metadata = labels(place, record)
                jobs.refuse_duplicate(place, "metadata.name", f"PodGroup {namespace}/{name}")
                arrival = when(place, metadata, "creationTimestamp")
                queue = text(place, table(place, record, "spec"), "queue")
                groups[f"{namespace}/{name}"] = PodGroup(place, math.inf if arrival is None else arrival, queue)
            elif kind == "Pod":
                pod = pod_of(place, jobs.row + waiting, record, gpu_resource)
                jobs.refuse_duplicate(place, "metadata.name", pod.name)
                if not pod.group:
                    jobs.drop(place, ALONE)
                    continue
                gangs.setdefault(f"{pod.namespace}/{pod.group}", Gang()).pods.append(pod)
            else:
                jobs.drop(place, OTHER)
                continue
            waiting += 1
    for name, group in groups.items():
        jobs.drop(group.place, GROUP if name in gangs else EMPTY)
    for name, gang in gangs.items():
        for pod in gang.pods[1:]:
            jobs.drop(pod.place, FURTHER)
        found = groups.get(name, PodGroup(gang.pods[0].place, gang.arrival_s, ""))
        with skippable:
            add_gang(jobs, name, gang, found.arrival_s, found.queue, "" if name in groups else LOST)
    return jobs.workload("volcano", dated=True)
