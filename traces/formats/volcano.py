"""PodGroups of Volcano with their pods, as ``kubectl get podgroups,pods -A -o json`` writes them."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from gpusched_env.problem.workload import Workload
from gpusched_env.traces.formats.kubernetes import NAMES
from gpusched_env.traces.kubernetes.gangs import Gangs, add_gang
from gpusched_env.traces.kubernetes.objects import GPU_RESOURCE, kind_of, kubernetes_objects
from gpusched_env.traces.kubernetes.pods import GROUP, POD, PodObject, pod_group_of, pod_of
from gpusched_env.traces.parsing.bad_rows import BadRowError, refuse_row
from gpusched_env.traces.parsing.columns import JobColumns
from gpusched_env.traces.parsing.fields import Place
from gpusched_env.traces.parsing.report import ReadReport

OTHER: Final = "object of another kind than PodGroup and Pod"
ALONE: Final = "pod of no PodGroup"
EMPTY: Final = "PodGroup without pods in the file"
TOLD: Final = "PodGroup, whose job is that of its pods"
LOST: Final = "jobs whose PodGroup is not in the file; they arrive with their first pod"


def read_volcano(path: Path, gpu_resource: str = GPU_RESOURCE) -> tuple[Workload, ReadReport]:
    """Read PodGroups and the pods that name them (``scheduling.k8s.io/group-name``), in any order.

    A PodGroup is a job: it arrives when it is created, and its gang, start and end are those of its pods, as in
    :func:`gpusched_env.traces.formats.kubernetes.read_kubernetes`. The job id is the number of its first pod from 0.
    Attributes: those of that reader; ``queue`` is that of the PodGroup.
    """
    report = ReadReport("volcano", str(path), unit="record")
    jobs = JobColumns(report, *NAMES, numbers={"priority": "q", "wait_s": "d"})
    gangs = Gangs()
    for place, record in kubernetes_objects(path, PodObject):
        try:
            kind = kind_of(place, record)
            if kind == GROUP:
                group = pod_group_of(place, record)
                jobs.refuse_duplicate(place, "metadata.name", f"{GROUP} {group.name}")
                gangs.add_group(place, group)
            elif kind == POD:
                pod = pod_of(place, record, gpu_resource)
                jobs.refuse_duplicate(place, "metadata.name", pod.name)
                if pod.grouped:
                    gangs.add(place, pod)
                else:
                    jobs.drop(place, ALONE)
            else:
                jobs.drop(place, OTHER)
        except BadRowError as error:
            refuse_row(error)
    jobs.check_ids()
    for gang in gangs:
        if gang.group:
            jobs.drop(Place(report.path, gang.group, report.unit), TOLD if gang.pods else EMPTY)
        if gang.pods and gang.group:
            add_gang(jobs, gang, gang.group_arrival_s, gang.group_queue)
        elif gang.pods:
            add_gang(jobs, gang, gang.arrival_s, "", LOST)
    return jobs.workload("volcano", dated=True)
