"""Workload objects of Kueue: JSON lines, a JSON list, or the List that ``kubectl get workloads -A -o json`` writes."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, Final

from gpusched_env.problem.workload import Workload
from gpusched_env.traces.kubernetes.gangs import UNEQUAL, unusable
from gpusched_env.traces.kubernetes.objects import CPUS, GPU_RESOURCE, kubernetes_objects, table, text
from gpusched_env.traces.kubernetes.workloads import WORKLOAD, workload_of
from gpusched_env.traces.parsing.bad_rows import skippable
from gpusched_env.traces.parsing.columns import NODES, JobColumns
from gpusched_env.traces.parsing.report import ReadReport

OTHER: Final = "object of another kind than Workload"
EVICTED: Final = "jobs that were evicted before; their start is their last admission, and earlier runs are lost"
RESUMED: Final = "jobs that were evicted before; their start is their last admission, and earlier_s tells earlier runs"
PARTIAL: Final = "jobs admitted with fewer pods than they asked for"


def read_kueue(path: Path, gpu_resource: str = GPU_RESOURCE) -> tuple[Workload, ReadReport]:
    """Read Workloads; objects of other kinds are counted.

    The arrival is ``creationTimestamp``, the start the time of the condition Admitted (else QuotaReserved, else
    PodsReady), and the end that of Finished. Where Kueue 0.15 took these conditions back at the end, the time of all
    runs before the end tells the start. The gang is ``resourceUsage`` of the admission, summed over its pod sets, else
    the requests of the pod sets times their count. ``maximumExecutionTimeSeconds`` becomes ``estimate_s``. The job id
    is the number of the object from 0. Attributes: original_id (namespace/name), namespace, queue (the LocalQueue),
    cluster_queue, gpu_type (the flavors, joined by ``|``), status (reason of Finished), and numbers: priority, wait_s
    (start minus arrival [s]), earlier_s (time of runs that were evicted [s]); min_nodes 1 and max_nodes, the number of
    pods with GPUs, because a pod is never split over nodes; both 0 if the GPUs of the pods differ (noted). Source: the
    API reference of Kueue, Workload.
    """
    report = ReadReport("kueue", str(path), unit="record")
    names = ("original_id", "namespace", "queue", "cluster_queue", "gpu_type", "status")
    jobs = JobColumns(report, *names, numbers={"priority": "q", "wait_s": "d", "earlier_s": "d", **NODES})
    for place, record in kubernetes_objects(path):
        with skippable:
            if table(place, record).get("kind") != WORKLOAD:
                jobs.drop(place, OTHER)
                continue
            told = workload_of(place, record, gpu_resource)
            uid = text(place, table(place, record, "metadata"), "uid")  # a name may come again
            jobs.refuse_duplicate(place, "metadata.name", uid or told.name)
            arrival, start, end = (
                math.inf if time is None else time for time in (told.arrival_s, told.start_s, told.end_s)
            )
            used, given = told.gpus, told.admission
            reason = unusable(arrival, start, end) or ("" if used else told.part)
            reason = reason or ("number of GPUs unknown" if used is None else "")
            if reason or used is None:
                jobs.drop(place, reason)
                continue
            if used and end > start:
                if told.evicted:
                    jobs.note(place, RESUMED if told.earlier_s else EVICTED)
                if 0 < given.pods < told.pods:
                    jobs.note(place, PARTIAL)
                if told.cpus:
                    jobs.note(place, CPUS)
                if not told.nodes[1]:
                    jobs.note(place, UNEQUAL)
            texts = (told.name, told.namespace, told.queue, given.cluster_queue, "|".join(given.flavors), told.reason)
            numbers: dict[str, Any] = {
                "priority": told.priority,
                "wait_s": start - arrival,
                "earlier_s": told.earlier_s,
            }
            numbers |= zip(NODES, told.nodes, strict=True)
            jobs.add(place, arrival, used, end - start, *texts, estimate_s=told.limit_s, **numbers)
    return jobs.workload("kueue", dated=True)
