"""What failures cost: effective training time, lost work, interruptions and recoveries; also by gang size."""

from __future__ import annotations

from typing import Final

import numpy as np

from gpusched_env.event_log import COMPLETE, FAIL, EventLog
from gpusched_env.metrics.segments import end_of_run, productive_s, segments
from gpusched_env.metrics.validate_work import iterations_before
from gpusched_env.portable.arrays import mean, total
from gpusched_env.problem.instance import Instance

HOUR_S: Final = 3_600.0  # [s]
GANG_FAILURES_DTYPE: Final = np.dtype(
    [
        ("gpus", "<i4"),  # [GPU] gang size
        ("interruptions", "<i8"),
        ("lost_gpu_hours", "<f8"),  # [GPU h] of progress that failures undid
        ("between_s", "<f8"),  # [s] time for which gangs held GPUs / interruptions; inf = none
    ]
)


def useful_s(instance: Instance, log: EventLog, table: np.ndarray) -> np.ndarray:
    """Return the time of each segment whose progress remains, without its checkpoints; float64 [S] [s]."""
    stretch = 1.0 if instance.recovery is None else instance.recovery.stretch[table["job"]]
    stopped = table["stop_event"] >= 0
    kept = iterations_before(instance, log, table) - log.events["value"][table["stop_event"]]
    seconds: np.ndarray = np.where(stopped, kept * table["iteration_s"], productive_s(table)) / stretch
    return seconds


def lost_s(log: EventLog, table: np.ndarray, before: np.ndarray) -> np.ndarray:
    """Return the time of each segment whose progress a failure undid; float64 [S] [s]."""
    failed = np.zeros(len(table), bool)
    stopped = table["stop_event"] >= 0
    failed[stopped] = log.events["kind"][table["stop_event"][stopped]] == FAIL
    kept = before - log.events["value"][table["stop_event"]]
    return np.where(failed, np.maximum(productive_s(table) - kept * table["iteration_s"], 0.0), 0.0)


def recoveries_s(log: EventLog, table: np.ndarray) -> np.ndarray:
    """Return the times from each failure until its job makes progress again; float64 [R] [s], R <= failures."""
    if not len(table):
        return np.empty(0)
    stop = table["stop_event"]
    again = np.append((table["job"][1:] == table["job"][:-1]), False) & (stop >= 0)
    again[again] = log.events["kind"][stop[again]] == FAIL
    at = np.flatnonzero(again)
    seconds: np.ndarray = table["progress_s"][at + 1] - table["stop_s"][at]
    return seconds[table["progress_s"][at + 1] <= table["stop_s"][at + 1]]


def failure_metrics(instance: Instance, log: EventLog, end_s: float, rows: slice) -> dict[str, float]:
    """Return the numbers of FAILURE_COLUMNS over the jobs ``rows``; empty if nothing can fail."""
    if instance.recovery is None:
        return {}
    table = segments(instance, log, end_s)
    jobs, first_s = len(instance.workload), float(instance.workload.jobs["arrival_s"].min())
    useful = useful_s(instance, log, table) * table["gpus"]
    start_s, finish_s = np.full(jobs, np.nan), np.full(jobs, end_s)
    start_s[table["job"][::-1]] = table["hold_s"][::-1]  # the first of a job overwrites the others
    done = log.events["kind"] == COMPLETE
    finish_s[log.events["job"][done]] = log.events["time_s"][done]
    inside = np.isin(table["job"], np.arange(jobs)[rows])
    chosen, demand = table[inside], instance.workload.jobs["gpus"]
    open_s = np.nan_to_num(finish_s - start_s)[rows] * demand[rows]
    failed = log.events["job"][log.events["kind"] == FAIL]
    lost = lost_s(log, chosen, iterations_before(instance, log, table)[inside])
    whole_s, wall_s = instance.cluster.gpus * (end_s - first_s), total(open_s)
    return {
        "ettr": total(useful[inside]) / wall_s if wall_s > 0 else np.nan,
        "goodput": total(useful) / whole_s if whole_s > 0 else np.nan,
        "lost_gpu_hours": total(lost * chosen["gpus"]) / HOUR_S,
        "interruptions": float(np.isin(failed, np.arange(jobs)[rows]).sum()),
        "mean_recovery_s": mean(recoveries_s(log, chosen)),
    }


def failures_by_gang(instance: Instance, log: EventLog) -> np.ndarray:
    """Return what failures cost the jobs of each gang size; GANG_FAILURES_DTYPE, by size."""
    table = segments(instance, log, end_of_run(instance, log))
    sizes, of_job = np.unique(instance.workload.jobs["gpus"], return_inverse=True)
    held_s = table["free_s"] - table["hold_s"]
    lost = lost_s(log, table, iterations_before(instance, log, table)) * table["gpus"]
    failed = log.events["job"][log.events["kind"] == FAIL]
    result = np.zeros(len(sizes), GANG_FAILURES_DTYPE)
    result["gpus"], result["interruptions"] = sizes, np.bincount(of_job[failed], minlength=len(sizes))
    held_s, lost = (np.bincount(of_job[table["job"]], column, minlength=len(sizes)) for column in (held_s, lost))
    result["lost_gpu_hours"] = lost / HOUR_S
    result["between_s"] = np.inf
    np.divide(held_s, result["interruptions"], out=result["between_s"], where=result["interruptions"] > 0)
    return result
