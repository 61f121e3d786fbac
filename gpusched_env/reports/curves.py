"""Curves of a page with a bounded number of points: distribution of JCT, and GPUs held and jobs waiting over time."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from gpusched_env.event_log import EventLog
from gpusched_env.metrics import Window, end_of_run, held_gpus, job_times, jobs_waiting
from gpusched_env.metrics.series import StepFunction
from gpusched_env.metrics.summary import tracked
from gpusched_env.metrics.tenants import usage
from gpusched_env.problem.instance import Instance

POINTS: Final = 200  # largest number of points of a distribution, one per 0.5 %
BINS: Final = 300  # number of bins of a line over time


def completion_times(instance: Instance, log: EventLog, window: Window | None = None) -> np.ndarray:
    """Return the JCT of each tracked job [s]; float64 [tracked jobs], NaN = unfinished."""
    times: np.ndarray = job_times(instance, log)["jct_s"][tracked(instance, window)]
    return times


def distribution(jct_s: np.ndarray) -> dict[str, list[float]]:
    """Return the steps of the distribution of JCT: a time [s], and the share of jobs with at most this JCT.

    It is the share of all jobs, including unfinished jobs. If more than POINTS jobs finished, the result has POINTS
    evenly spaced steps.
    """
    done = np.sort(jct_s[np.isfinite(jct_s)])
    rank = np.unique(np.linspace(1, len(done), min(POINTS, len(done))).round().astype(int)) if len(done) else done
    chosen = rank.astype(int)
    return {
        "jct_s": [float(f"{value:.6g}") for value in done[chosen - 1]],
        "share": [round(float(value), 6) for value in chosen / max(len(jct_s), 1)],
    }


def over_time(instance: Instance, log: EventLog, end_s: float | None = None) -> dict[str, Any]:
    """Return the held GPUs [%] and the number of waiting jobs over time [s since the first arrival].

    ``end_s`` is the end of the last bin, the same for all runs that are compared; None = the end of this run.
    """
    first = float(instance.workload.jobs["arrival_s"].min())
    own_end = end_of_run(instance, log)
    edges = np.linspace(first, max(first + 1e-9, own_end if end_s is None else end_s), BINS + 1)
    lines = {}
    percent = 100.0 / instance.cluster.gpus
    for name, series, scale in (("held", held_gpus(instance, log), percent), ("waiting", jobs_waiting(log), 1.0)):
        times, values = series.drawn(edges, own_end)
        lines[name] = {
            "at_s": [float(f"{value:.7g}") for value in times - first],
            "value": [float(f"{value:.4g}") for value in values * scale],
        }
    return lines


def tenant_shares(instance: Instance, log: EventLog) -> dict[str, Any]:
    """Return the GPUs that each leaf of the tree of tenants holds over time [% of the cluster]: means over bins."""
    tree, _ = instance.tenancy
    times, held = usage(instance, log)
    first, last = float(instance.workload.jobs["arrival_s"].min()), end_of_run(instance, log)
    edges = np.linspace(first, max(first + 1e-9, last), BINS + 1)
    percent = 100.0 / instance.cluster.gpus
    shares = [percent * StepFunction(times, gpus.astype(float)).binned(edges) for gpus in held]
    return {
        "at_s": [float(f"{value:.7g}") for value in edges[:-1] - first],
        "tenants": [
            {"label": tree.names[leaf], "value": [float(f"{value:.4g}") for value in share]}
            for leaf, share in zip(tree.leaves.tolist(), shares, strict=True)
        ],
    }
