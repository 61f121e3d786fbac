"""Curves of a page, with a bounded number of points: distribution of JCT; GPUs held and jobs waiting over time."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from gpusched_env.event_log import EventLog
from gpusched_env.instance import Instance
from gpusched_env.metrics import Window, end_of_run, held_gpus, job_times, jobs_waiting
from gpusched_env.metrics.summary import tracked

POINTS: Final = 200  # of a distribution: one per 0.5 %
BINS: Final = 300  # of a line over time


def completion_times(instance: Instance, log: EventLog, window: Window | None = None) -> np.ndarray:
    """float64 [tracked jobs]: JCT [s], NaN = unfinished."""
    times: np.ndarray = job_times(instance, log)["jct_s"][tracked(len(instance.workload), window)]
    return times


def distribution(jct_s: np.ndarray) -> dict[str, list[float]]:
    """Return the steps of the distribution of JCT: time [s], and the share of jobs that finished within it.

    With more than POINTS finished jobs, POINTS evenly spaced steps. The share is that of all jobs, finished or not.
    """
    done = np.sort(jct_s[np.isfinite(jct_s)])
    rank = np.unique(np.linspace(1, len(done), min(POINTS, len(done))).round().astype(int)) if len(done) else done
    chosen = rank.astype(int)
    return {
        "jct_s": [float(f"{value:.6g}") for value in done[chosen - 1]],
        "share": [round(float(value), 6) for value in chosen / max(len(jct_s), 1)],
    }


def over_time(instance: Instance, log: EventLog, end_s: float | None = None) -> dict[str, Any]:
    """Return GPUs held [%] and jobs waiting over time [s since the first arrival].

    Parameters
    ----------
    instance, log : a run
    end_s : end of the last bin [s], so that compared runs have the same bins; by default the end of this run
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
