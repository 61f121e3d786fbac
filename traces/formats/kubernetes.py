"""Pods of Kubernetes, as ``kubectl get pods -A -o json`` writes them; the pods of one owner are one job."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from gpusched_env.problem.workload import Workload
from gpusched_env.traces.kubernetes.gangs import Gangs, add_gang
from gpusched_env.traces.kubernetes.objects import GPU_RESOURCE, kind_of, kubernetes_objects
from gpusched_env.traces.kubernetes.pods import POD, PodObject, pod_of
from gpusched_env.traces.parsing.bad_rows import BadRowError, refuse_row
from gpusched_env.traces.parsing.columns import JobColumns
from gpusched_env.traces.parsing.report import ReadReport

OTHER: Final = "object of another kind than Pod"
NAMES: Final = ("original_id", "namespace", "queue", "gpu_type", "status")


def read_kubernetes(path: Path, gpu_resource: str = GPU_RESOURCE) -> tuple[Workload, ReadReport]:
    """Read pods; objects of other kinds are counted.

    Pods that name one pod group, or that have one owner other than a ReplicaSet, StatefulSet or DaemonSet, are one job;
    other pods are jobs of their own. The arrival is the creation of the first pod, the start the ``startTime`` of the
    first pod with GPUs, the end the time when the last container finishes, and the gang the largest number of GPUs that
    the pods request at one time. The job id is the number of the first object from 0. Attributes: original_id
    (namespace/owner, or namespace/pod; with the kind before it, such as Job/namespace/owner, if a group, an owner or a
    pod have one name), namespace, queue (label of Kueue), gpu_type (node selector nvidia.com/gpu.product), status,
    priority and wait_s (numbers: start minus arrival [s]).
    """
    jobs = JobColumns(
        ReadReport("kubernetes", str(path), unit="record"), *NAMES, numbers={"priority": "q", "wait_s": "d"}
    )
    gangs = Gangs()
    for place, record in kubernetes_objects(path, PodObject):
        try:
            if kind_of(place, record) != POD:
                jobs.drop(place, OTHER)
                continue
            pod = pod_of(place, record, gpu_resource)
            jobs.refuse_duplicate(place, "metadata.name", pod.name)
            gangs.add(place, pod)
        except BadRowError as error:
            refuse_row(error)
    jobs.check_ids()
    for gang in gangs:
        add_gang(jobs, gang, gang.arrival_s, gang.first.queue)
    return jobs.workload("kubernetes", dated=True)
