"""Move, scale and clip the jobs of a workload; ids and attributes travel along."""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from gpusched_env.cluster import MACHINE
from gpusched_env.errors import WorkloadError
from gpusched_env.portable.arrays import total
from gpusched_env.traces.parsing.fields import MAX_AMOUNT
from gpusched_env.workload import Workload


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
    work = total(jobs["gpus"] * jobs["duration_s"])
    return work / (cluster_gpus * span) if span > 0 else math.inf


def scale_to_load(workload: Workload, load: float, cluster_gpus: int) -> Workload:
    """Multiply all arrival times by one factor, so that :func:`offered_load` becomes ``load``; run times stay.

    Each workload is scaled by its own jobs: every draw of a generator then offers the same load, and a draw with one
    very long job is spread over more time.

    Raises
    ------
    WorkloadError : a load that is not a finite number > 0, or so small that arrivals would be beyond MAX_AMOUNT
        seconds; jobs that all arrive at once
    """
    if not load > 0 or not math.isfinite(load):
        raise WorkloadError(f"load is {load!r}: it must be a finite number > 0")
    now = offered_load(workload, cluster_gpus)
    if math.isinf(now):
        raise WorkloadError(f"workload {workload.name!r}: all jobs arrive at once, so no load can be set; leave it out")
    factor, span_s = now / load, float(np.ptp(workload.jobs["arrival_s"]))
    if not factor * span_s <= MAX_AMOUNT:  # not: NaN, where the load is so small that the factor is infinite
        raise WorkloadError(f"load is {load!r}: jobs would arrive over more than {MAX_AMOUNT:g} s; raise it")
    return _at(workload, workload.jobs["arrival_s"] * factor)


def clip_gpus(workload: Workload, max_gpus: int) -> Workload:
    """Cut demands above ``max_gpus`` GPUs to it, and lengthen those jobs by the same factor: their GPU time stays.

    The factor applies to run time, estimate and iterations alike. The batch of a GPU stays, so a job given by
    iterations works through as many samples as before, in smaller steps.

    Raises
    ------
    WorkloadError : max_gpus below 1
    """
    if max_gpus < 1:
        raise WorkloadError(f"max_gpus is {max_gpus!r}: it must be a whole number of at least 1")
    jobs = workload.jobs.copy()
    factor = np.maximum(jobs["gpus"] / max_gpus, 1.0)
    jobs["gpus"] = np.minimum(jobs["gpus"], max_gpus)
    for column in ("iterations", "duration_s", "estimate_s"):
        jobs[column] *= factor
    return dataclasses.replace(workload, jobs=jobs)


def ignore_placement(workload: Workload) -> Workload:
    """Let gangs of measured models run everywhere at the rate measured in one machine, as in Gavel's simulator.

    What was measured across machines is dropped: nothing is charged for spreading.

    Raises
    ------
    WorkloadError : models that were not measured, whose communication the network prices
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
