"""Pods of Kubernetes, whose pods of one owner are one job, and PodGroups of Volcano with their pods."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from gpusched_env.problem.workload import GPU_TYPES, Workload
from gpusched_env.traces.kubernetes.gangs import Gangs, add_gang
from gpusched_env.traces.kubernetes.objects import GPU_RESOURCE, kind_of, kubernetes_objects
from gpusched_env.traces.kubernetes.pods import GROUP, POD, PodObject, pod_group_of, pod_of
from gpusched_env.traces.parsing.bad_rows import skippable
from gpusched_env.traces.parsing.columns import NODES, REPLACED, JobColumns
from gpusched_env.traces.parsing.fields import Place
from gpusched_env.traces.parsing.report import ReadReport

NAMES: Final = ("original_id", "namespace", "queue", GPU_TYPES, "status")
OTHER: Final = "object of another kind than {}"
ALONE: Final = "pod of no PodGroup"
EMPTY: Final = "PodGroup without pods in the file"
TOLD: Final = "PodGroup, whose job is that of its pods"
LOST: Final = "jobs whose PodGroup is not in the file; they arrive with their first pod"


def read_kubernetes(path: Path, gpu_resource: str = GPU_RESOURCE) -> tuple[Workload, ReadReport]:
    """Read pods, as ``kubectl get pods -A -o json`` writes them; objects of other kinds are counted.

    Pods that name one pod group, or that have one owner other than a ReplicaSet, StatefulSet or DaemonSet, are one job;
    other pods are jobs of their own. The arrival is the creation of the first pod, the start the ``startTime`` of the
    first pod with GPUs, the end the time when the last container finishes, and the gang the largest number of GPUs that
    the pods request at one time. The job id is the number of the first object from 0. Attributes: original_id
    (namespace/owner, or namespace/pod; with the kind before it, such as Job/namespace/owner, if a group, an owner or a
    pod have one name), namespace, queue (label of Kueue), gpu_types (node selector or affinity, joined by |), status,
    priority and wait_s (numbers: start minus arrival [s]); min_nodes 1 and max_nodes, the number of pods with GPUs at
    one time, because a pod is never split over nodes; both 0 if their GPUs differ (noted).
    """
    return _read(path, "kubernetes", gpu_resource)


def read_volcano(path: Path, gpu_resource: str = GPU_RESOURCE) -> tuple[Workload, ReadReport]:
    """Read PodGroups and the pods that name them, as ``kubectl get podgroups,pods -A -o json`` writes them.

    A PodGroup is a job: it arrives when it is created, and its gang, start and end are those of its pods
    (``scheduling.k8s.io/group-name``, in any order), as in :func:`read_kubernetes`. The job id is the number of its
    first pod from 0. Attributes: those of that reader; ``queue`` is that of the PodGroup.
    """
    return _read(path, "volcano", gpu_resource)


def _read(path: Path, name: str, gpu_resource: str) -> tuple[Workload, ReadReport]:
    grouped = name == "volcano"
    kinds = (GROUP, POD) if grouped else (POD,)
    report = ReadReport(name, str(path), unit="record")
    jobs = JobColumns(report, *NAMES, numbers={"priority": "q", "wait_s": "d", **NODES})
    gangs, groups = Gangs(), set[str]()
    for number, (place, record) in enumerate(kubernetes_objects(path, PodObject), 1):
        with skippable:
            kind = kind_of(place, record)
            if kind not in kinds:
                jobs.drop(place, OTHER.format(" and ".join(kinds)))
            elif kind == GROUP:
                group = pod_group_of(place, record)
                if not jobs.merges:
                    jobs.refuse_duplicate(place, "metadata.name", f"{GROUP} {group.name}")
                elif group.name in groups:
                    jobs.drop(place, REPLACED)
                    continue
                groups.add(group.name)
                gangs.add_group(number, group)
            else:
                pod = pod_of(place, record, gpu_resource)
                if not jobs.merges:
                    jobs.refuse_duplicate(place, "metadata.name", pod.uid or pod.name)  # a name may come again
                if grouped and not pod.grouped:
                    jobs.drop(place, ALONE)
                else:
                    gangs.add(place, number, pod, jobs.merges)
    for number in sorted(gangs.replaced):
        jobs.drop(Place(report.path, number, report.unit), REPLACED)
    jobs.check_ids()
    for gang in gangs:
        if gang.group:
            jobs.drop(Place(report.path, gang.group, report.unit), TOLD if gang.pods else EMPTY)
        if gang.pods and gang.group:
            add_gang(jobs, gang, gang.group_arrival_s, gang.group_queue)
        elif gang.pods:
            add_gang(jobs, gang, gang.arrival_s, "" if grouped else gang.first.queue, LOST if grouped else "")
    return jobs.workload(name, dated=True)
