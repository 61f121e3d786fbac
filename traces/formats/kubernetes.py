"""Pods of Kubernetes, as ``kubectl get pods -A -o json`` writes them; the pods of one owner are one job."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from gpusched_env.traces.kubernetes.objects import GPU_RESOURCE, kubernetes_objects, table
from gpusched_env.traces.kubernetes.pods import FURTHER, REPLACED, Gang, pod_of
from gpusched_env.traces.parsing.bad_rows import skippable
from gpusched_env.traces.parsing.columns import JobColumns
from gpusched_env.traces.parsing.report import ReadReport
from gpusched_env.workload import Workload

OTHER: Final = "object of another kind than Pod"
NAMES: Final = ("original_id", "namespace", "queue", "gpu_type", "status")


def read_kubernetes(path: Path, gpu_resource: str = GPU_RESOURCE) -> tuple[Workload, ReadReport]:
    """Read pods; objects of other kinds are counted.

    Pods that name one pod group, or that have one owner other than a ReplicaSet, StatefulSet or DaemonSet, are one job;
    other pods are jobs of their own. The arrival is the creation of the first pod, the start the ``startTime`` of the
    first pod with GPUs, the end the time when the last container finishes, and the gang the largest number of GPUs that
    the pods request at one time. The job id is the number of the first object from 0. Attributes: original_id
    (namespace/owner, or namespace/pod), namespace, queue (label of Kueue), gpu_type (node selector
    nvidia.com/gpu.product), status, priority and wait_s (numbers: start minus arrival [s]).

    Parameters
    ----------
    gpu_resource : name of the resource that is a GPU

    Raises
    ------
    TraceError : damaged JSON, or a malformed field
    """
    jobs = JobColumns(
        ReadReport("kubernetes", str(path), unit="record"), *NAMES, numbers={"priority": "q", "wait_s": "d"}
    )
    gangs: dict[str, Gang] = {}
    waiting = 0  # pods that are held back until all of their gang are read
    for place, record in kubernetes_objects(path):
        with skippable:
            if table(place, record).get("kind") != "Pod":
                jobs.drop(place, OTHER)
                continue
            pod = pod_of(place, jobs.row + waiting, record, gpu_resource)
            jobs.refuse_duplicate(place, "metadata.name", pod.name)
            name = f"{pod.namespace}/{pod.group}" if pod.group else pod.owner or pod.name
            gangs.setdefault(name, Gang()).pods.append(pod)
            waiting += 1
    for name, gang in gangs.items():
        for pod in gang.pods[1:]:
            jobs.drop(pod.place, FURTHER)
        with skippable:
            add_gang(jobs, name, gang, gang.arrival_s, gang.pods[0].queue)
    return jobs.workload("kubernetes", dated=True)


def add_gang(jobs: JobColumns, name: str, gang: Gang, arrival_s: float, queue: str, remark: str = "") -> None:
    """Add the job of a gang with a remark, or drop it with a reason."""
    first = gang.pods[0]
    reason, gpus = gang.unusable(arrival_s), gang.gpus
    if reason:
        jobs.drop(first.place, reason)
        return
    if gang.end_s > gang.start_s and gpus:
        replaced = REPLACED if gpus < sum(pod.gpus for pod in gang.pods) else ""
        for one in filter(None, (remark, replaced)):
            jobs.note(first.place, one)
    types = dict.fromkeys(pod.gpu_type for pod in gang.with_gpus if pod.gpu_type)
    jobs.add(
        first.place,
        arrival_s,
        gpus,
        gang.end_s - gang.start_s,
        *(name, first.namespace, queue, "|".join(types), gang.status),
        job_id=first.row,
        priority=first.priority,
        wait_s=gang.start_s - arrival_s,
    )
