"""Shift and scale the arrivals of a workload, and clip its gangs; jobs keep their ids and attributes."""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from gpusched_env.errors import WorkloadError
from gpusched_env.portable.arrays import total
from gpusched_env.problem.cluster import MACHINE
from gpusched_env.problem.workload import MAX_NODES, MIN_NODES, Workload
from gpusched_env.traces.parsing.fields import MAX_AMOUNT


def from_zero(workload: Workload) -> Workload:
    """Shift all arrivals so that the first arrival is at time 0."""
    return workload.unchecked_columns(arrival_s=workload.jobs["arrival_s"] - workload.jobs["arrival_s"].min())


def offered_load(workload: Workload, cluster_gpus: int) -> float:
    """Return the offered load of a workload on a cluster.

    It is the sum over all jobs of gang size x run time, divided by ``cluster_gpus`` x the span from the first to the
    last arrival; inf if the span is 0. Run times are those on the ideal placement.

    Raises
    ------
    WorkloadError : a job is given by iterations
    """
    jobs = workload.jobs
    if np.isnan(jobs["duration_s"]).any():
        raise WorkloadError(f"workload {workload.name!r}: its jobs give iterations, not run times; leave out the load")
    work, span_s = total(jobs["gpus"] * jobs["duration_s"]), float(np.ptp(jobs["arrival_s"]))
    return work / (cluster_gpus * span_s) if span_s > 0 else math.inf


def scale_to_load(workload: Workload, load: float, cluster_gpus: int) -> Workload:
    """Multiply all arrival times by one factor so that :func:`offered_load` becomes ``load``; run times do not change.

    The factor is computed for each workload. So all workloads that a generator draws have the same offered load after
    scaling, and the arrivals of a workload with one very long job are spread over a longer time.

    Raises
    ------
    WorkloadError : a load that is not a finite number > 0; a load so small that arrivals would exceed MAX_AMOUNT
        seconds; jobs that all arrive at once; a job given by iterations
    """
    if not load > 0 or not math.isfinite(load):
        raise WorkloadError(f"load is {load!r}: it must be a finite number > 0")
    now, arrival_s = offered_load(workload, cluster_gpus), workload.jobs["arrival_s"]
    if math.isinf(now):
        raise WorkloadError(f"workload {workload.name!r}: all jobs arrive at once, so no load can be set; leave it out")
    factor = now / load
    scaled_s = factor * float(np.ptp(arrival_s))
    if not scaled_s <= MAX_AMOUNT or math.isinf(factor * float(arrival_s.max())):  # "not <=" also catches NaN
        raise WorkloadError(f"load is {load!r}: jobs would arrive over more than {MAX_AMOUNT:g} s; raise it")
    return workload.unchecked_columns(arrival_s=arrival_s * factor)


def clip_gpus(workload: Workload, max_gpus: int) -> Workload:
    """Cut larger gangs to ``max_gpus`` GPUs, and lengthen their jobs so that their GPU time does not change.

    The run time, the estimate and the iterations of such a job are multiplied by gang size / ``max_gpus``. The batch
    per GPU does not change, so a job that is given by iterations processes the same number of samples in more, smaller
    iterations. It demands no number of nodes any more.
    """
    if max_gpus < 1:
        raise WorkloadError(f"max_gpus is {max_gpus!r}: it must be a whole number of at least 1")
    jobs = workload.jobs.copy()
    factor = np.maximum(jobs["gpus"] / max_gpus, 1.0)
    jobs["gpus"] = np.minimum(jobs["gpus"], max_gpus)
    for column in ("iterations", "duration_s", "estimate_s"):
        jobs[column] *= factor
    attributes = dict(workload.attributes)
    for name in attributes.keys() & {MIN_NODES, MAX_NODES}:
        attributes[name] = np.where(factor > 1.0, 0, workload.told(name).astype(np.int64))
    return dataclasses.replace(workload, jobs=jobs, attributes=attributes)


def ignore_placement(workload: Workload) -> Workload:
    """Let gangs run on every placement at the rate that was measured in one machine, as in Gavel's simulator.

    The rates that were measured across machines are dropped from the profiles.

    Raises
    ------
    WorkloadError : the profiles have no measured rates, so the network model determines the cost of a placement
    """
    profiles = workload.profiles
    if not len(profiles.measured):
        raise WorkloadError(
            f"workload {workload.name!r}: ignore_placement drops rates measured across machines, and its models have "
            "none; profiles 'unit' run equally fast everywhere"
        )
    together = profiles.measured[profiles.measured["tier"] == MACHINE]
    return dataclasses.replace(workload, profiles=dataclasses.replace(profiles, measured=together))


def describe_workload(workload: Workload) -> dict[str, float]:
    """Summarise a workload.

    The summary has the number of jobs, the span of the arrivals [s], the mean and largest gang size [GPU], the median
    and mean run time [s], and the demand [GPU h]. If some job is given by iterations, it has the median and mean number
    of iterations instead of run times and demand.
    """
    jobs = workload.jobs
    duration = jobs["duration_s"]
    description = {
        "jobs": len(jobs),
        "span_s": float(np.ptp(jobs["arrival_s"])),
        "mean_gpus": float(jobs["gpus"].mean()),
        "max_gpus": int(jobs["gpus"].max()),
    }
    if np.isnan(duration).any():
        iterations = jobs["iterations"][np.isfinite(jobs["iterations"])]
        return description | {"median_iterations": float(np.median(iterations)), "mean_iterations": iterations.mean()}
    return description | {
        "median_duration_s": float(np.median(duration)),
        "mean_duration_s": float(duration.mean()),
        "offered_gpu_hours": float((jobs["gpus"] * duration).sum() / 3600.0),
    }
