"""Summary of a run: one number for each column."""

from __future__ import annotations

import math

import numpy as np

from gpusched_env.errors import GpuschedError
from gpusched_env.event_log import EventLog
from gpusched_env.metrics.columns import COLUMNS, DEADLINE_COLUMNS, FAILURE_COLUMNS, HOLD_COLUMNS, LIMIT_COLUMNS
from gpusched_env.metrics.deadlines import deadline_metrics
from gpusched_env.metrics.dependencies import hold_metrics
from gpusched_env.metrics.energy import energy_columns, energy_metrics
from gpusched_env.metrics.failures import failure_metrics
from gpusched_env.metrics.fairness import finish_time_fairness
from gpusched_env.metrics.job_times import job_times
from gpusched_env.metrics.segments import end_of_run, killed_jobs, until
from gpusched_env.metrics.series import held_gpus, jobs_in_system
from gpusched_env.portable.arrays import mean, total
from gpusched_env.problem.instance import Instance

Window = tuple[int, int]

# Largest rho that counts as fair. It allows for rounding: a job that starts at once and runs alone has rho = 1.
FAIR: float = 1.0 + 1e-9


def summarise(
    instance: Instance, log: EventLog, end_s: float | None = None, window: Window | None = None
) -> dict[str, float]:
    """Return the summary of a run: a float for each of :data:`~gpusched_env.metrics.COLUMNS`, in that order.

    If some job has a deadline, those of :data:`~gpusched_env.metrics.DEADLINE_COLUMNS` follow; if jobs are killed at
    their time limits, those of :data:`~gpusched_env.metrics.LIMIT_COLUMNS`; if jobs may be held, those of
    :data:`~gpusched_env.metrics.HOLD_COLUMNS`; if nodes or jobs may fail, those of
    :data:`~gpusched_env.metrics.FAILURE_COLUMNS`; if the problem has energy, those that it asks for of
    :data:`~gpusched_env.metrics.ENERGY_COLUMNS`.

    Parameters
    ----------
    end_s : end of the measured time; later events are ignored [s]. None = the end of the run
    window : (first, last); only jobs whose arrival rank is in ``first <= rank < last`` count. None = the tracked window
        of the problem's scenario, or all jobs if it has none; ``(0, len(instance.workload))`` = all. Columns of scope
        "run" ignore it

    Notes
    -----
    JCT, queueing, slowdown and rho are over the *finished* jobs. Compare them only if ``finished`` equals ``jobs`` in
    each run. An undefined number is NaN, such as a mean over no job, or the makespan of a run with unfinished jobs.
    """
    end_s = end_of_run(instance, log) if end_s is None else float(end_s)
    log = until(log, end_s)
    times = job_times(instance, log, end_s)
    rho = finish_time_fairness(instance, log, times["finish_s"])
    first_s = float(times["arrival_s"].min())
    every_job_finished = not np.isnan(times["finish_s"]).any()
    last_finish_s = float(times["finish_s"].max())
    of_gangs = total(times["gpu_seconds"])
    held = of_gangs if instance.gpu_jobs == 1 else float(held_gpus(instance, log).integral(end_s))
    span_s = end_s - first_s

    rows = tracked(instance, window)
    of_deadlines = deadline_metrics(instance, log, times["finish_s"], rows)
    ideal_s = instance.shortest_s[rows]
    times, rho = times[rows], rho[rows]
    tracked_held = total(times["gpu_seconds"])
    arrived = int(np.count_nonzero(times["arrival_s"] <= end_s))

    def of_held(gpu_seconds: np.ndarray) -> float:
        return _ratio(total(gpu_seconds), tracked_held)

    result = _of_jobs(times, rho, ideal_s) | {
        "makespan_s": last_finish_s - first_s if every_job_finished else math.nan,
        "utilisation": _ratio(held, instance.cluster.gpus * span_s),
        "productive_share": of_held(times["service_gpu_s"]),
        "communication_share": of_held(times["communication_gpu_s"]),
        "overhead_share": of_held(times["overhead_gpu_s"]),
        "preemptions_per_job": _ratio(total(times["preemptions"]), arrived),
        "mean_jobs_in_system": jobs_in_system(log).mean(first_s, end_s),
    }
    of_limits = {}
    if instance.semantics.kill_at_limit:
        of_limits = {"killed": float(killed_jobs(instance, log)[rows].sum())}
    of_holds = hold_metrics(instance, log, rows)
    more = of_limits | of_holds | failure_metrics(instance, log, end_s, rows)
    more |= energy_metrics(instance, log, end_s, rows)
    return {column.name: result[column.name] for column in COLUMNS} | of_deadlines | more


def _of_jobs(times: np.ndarray, rho: np.ndarray, ideal_s: np.ndarray) -> dict[str, float]:
    """Return the columns over finished jobs, and the number of jobs."""
    done = ~np.isnan(times["finish_s"])
    jct, queueing = times["jct_s"][done], times["queueing_s"][done]
    return {
        "jobs": float(len(times)),
        "finished": float(done.sum()),
        "mean_jct_s": mean(jct),
        "median_jct_s": _percentile(jct, 50),
        "p90_jct_s": _percentile(jct, 90),
        "p99_jct_s": _percentile(jct, 99),
        "mean_queueing_s": mean(queueing),
        "p99_queueing_s": _percentile(queueing, 99),
        "mean_slowdown": mean(jct / ideal_s[done]),
        "rho_mean": mean(rho[done]),
        "rho_max": float(rho[done].max()) if done.any() else math.nan,
        "rho_fair_share": mean((rho[done] <= FAIR).astype(float)),
    }


def metric_names(instance: Instance) -> list[str]:
    """Return the keys of :func:`summarise`, which depend on the problem alone."""
    more = (
        (instance.workload.deadline_s is not None, DEADLINE_COLUMNS),
        (instance.semantics.kill_at_limit, LIMIT_COLUMNS),
        (instance.holds is not None, HOLD_COLUMNS),
        (instance.recovery is not None, FAILURE_COLUMNS),
        (instance.energy is not None, energy_columns(instance)),
    )
    columns = [*COLUMNS, *(column for applies, part in more if applies for column in part)]
    return [column.name for column in columns]


def tracked(instance: Instance, window: Window | None) -> slice:
    """Convert a window of arrival ranks to job rows; jobs are sorted by arrival, so the row of a job is its rank.

    None = the tracked window of the problem's scenario, or all jobs if it has none.
    """
    jobs = len(instance.workload)
    first, last = window or instance.tracked_window or (0, jobs)
    if not 0 <= first < last <= jobs:
        raise GpuschedError(
            f"window {first}..{last}: give first and last with 0 <= first < last <= {jobs}, the number of jobs"
        )
    return slice(first, last)


def _percentile(values: np.ndarray, percent: float) -> float:
    return float(np.percentile(values, percent)) if len(values) else math.nan


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole > 0 else math.nan
