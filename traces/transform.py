"""Cut, filter and rescale a workload; attributes travel along."""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from gpusched_env.errors import WorkloadError
from gpusched_env.workload import Workload


def window(workload: Workload, start_s: float = 0.0, stop_s: float = math.inf) -> Workload:
    """Keep the jobs that arrive in ``start_s <= arrival < stop_s`` [s]; times then count from the first of them.

    Raises
    ------
    WorkloadError : no job arrives in the window
    """
    arrival = workload.jobs["arrival_s"]
    rows = np.flatnonzero((arrival >= start_s) & (arrival < stop_s))
    if not len(rows):
        raise WorkloadError(
            f"workload {workload.name!r}: no job arrives from {start_s:g} s to {stop_s:g} s; "
            f"arrivals run from 0 s to {arrival.max():g} s"
        )
    return from_zero(workload.select(rows))


def first_jobs(workload: Workload, count: int) -> Workload:
    """Keep the ``count`` jobs that arrive first, in order of arrival and id; all of them when there are fewer."""
    return workload.select(np.lexsort([workload.jobs["id"], workload.jobs["arrival_s"]])[:count])


def up_to_gpus(workload: Workload, max_gpus: int) -> Workload:
    """Drop the jobs that demand more than ``max_gpus`` GPUs.

    Raises
    ------
    WorkloadError : every job demands more
    """
    rows = np.flatnonzero(workload.jobs["gpus"] <= max_gpus)
    if not len(rows):
        raise WorkloadError(f"workload {workload.name!r}: every job demands more than max_gpus = {max_gpus}; raise it")
    return from_zero(workload.select(rows))


def from_zero(workload: Workload) -> Workload:
    """Move the first arrival to time 0."""
    return _at(workload, workload.jobs["arrival_s"] - workload.jobs["arrival_s"].min())


def offered_load(workload: Workload, cluster_gpus: int) -> float:
    """Sum of gang size x run time over (cluster GPUs x span), the span being first to last arrival; inf if that is 0.

    Run times are those on the ideal placement; a job given by iterations has none before it meets a cluster.

    Raises
    ------
    WorkloadError : a job is given by iterations
    """
    jobs = workload.jobs
    if np.isnan(jobs["duration_s"]).any():
        raise WorkloadError(f"workload {workload.name!r}: its jobs give iterations, not run times; leave out the load")
    span = float(np.ptp(jobs["arrival_s"]))
    work = float((jobs["gpus"] * jobs["duration_s"]).sum())
    return work / (cluster_gpus * span) if span > 0 else math.inf


def scale_to_load(workload: Workload, load: float, cluster_gpus: int) -> Workload:
    """Multiply all arrival times by one factor, so that :func:`offered_load` becomes ``load``; run times stay.

    Each workload is scaled by its own jobs: every draw of a generator then offers the same load, and a draw with one
    very long job is spread over more time.

    Raises
    ------
    WorkloadError : a load that is not a finite number > 0, or jobs that all arrive at once
    """
    if not load > 0 or not math.isfinite(load):
        raise WorkloadError(f"load is {load!r}: it must be a finite number > 0")
    now = offered_load(workload, cluster_gpus)
    if math.isinf(now):
        raise WorkloadError(f"workload {workload.name!r}: all jobs arrive at once, so no load can be set; leave it out")
    return _at(workload, workload.jobs["arrival_s"] * (now / load))


def describe_workload(workload: Workload) -> dict[str, float]:
    """Say what is in a workload: jobs, span [s], mean gang size [GPU], median and mean run time [s], demand [GPU h].

    Jobs given by iterations have no run time before they meet a cluster: then median and mean iterations.
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


def _at(workload: Workload, arrival_s: np.ndarray) -> Workload:
    jobs = workload.jobs.copy()
    jobs["arrival_s"] = arrival_s
    return dataclasses.replace(workload, jobs=jobs)
