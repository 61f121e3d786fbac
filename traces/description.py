"""Statistics of a workload: the numbers behind the tables and figures of ``gpusched traces describe``."""

from __future__ import annotations

import dataclasses
from datetime import datetime
from typing import Final, NamedTuple

import numpy as np

from gpusched_env.problem.cluster import Cluster
from gpusched_env.problem.instance import Instance
from gpusched_env.problem.workload import Workload
from gpusched_env.traces.generators.calibration import CLASS_NAMES, demand_class
from gpusched_env.traces.profiles import assign_profiles

RANKS: Final = (0.1, 0.5, 0.9, 0.99)  # probabilities of the run-time quantiles in a table
GROUPS: Final = ("virtual_cluster", "user", "queue", "status", "model")  # attributes by which jobs are grouped
TOP: Final = 10  # number of values shown per attribute


class Part(NamedTuple):
    """Statistics of a group of jobs.

    share : share of all jobs
    gpu_time : share of all GPU time; NaN if some job of the workload is given by iterations
    work : quantiles of the run times at RANKS, then their mean [s]; if some job of the workload is given by iterations,
        quantiles and mean of the iterations instead
    """

    name: str
    jobs: int
    share: float
    gpu_time: float
    work: tuple[float, ...]


def by_class(workload: Workload) -> list[Part]:
    """Summarise the jobs of each demand class that occurs; the last part summarises all jobs."""
    kind = demand_class(workload.jobs["gpus"])
    present = [(name, kind == number) for number, name in enumerate(CLASS_NAMES) if (kind == number).any()]
    return [_part(workload, name, rows) for name, rows in [*present, ("all", np.ones(len(kind), bool))]]


def largest_groups(workload: Workload, attribute: str, count: int = TOP) -> tuple[list[Part], int]:
    """Summarise the jobs of the ``count`` most frequent values of an attribute; also return the number of values."""
    values, group, jobs = np.unique(workload.attributes[attribute], return_inverse=True, return_counts=True)
    largest = np.argsort(-jobs, kind="stable")[:count]
    return [_part(workload, str(values[i]), group == i) for i in largest], len(values)


def _part(workload: Workload, name: str, rows: np.ndarray) -> Part:
    jobs = workload.jobs
    gpu_time = jobs["gpus"] * jobs["duration_s"]
    work = (jobs["duration_s"] if has_run_times(workload) else jobs["iterations"])[rows]
    quantiles = (*np.quantile(work, RANKS).tolist(), float(work.mean()))
    return Part(name, int(rows.sum()), float(rows.mean()), float(gpu_time[rows].sum() / gpu_time.sum()), quantiles)


def has_run_times(workload: Workload) -> bool:
    """Whether every job has a run time; the run time of a job given by iterations depends on the cluster."""
    return not np.isnan(workload.jobs["duration_s"]).any()


def with_run_times(workload: Workload, cluster: Cluster) -> Workload:
    """Set the run time of every job that is given by iterations to its run time on the ideal placement of a cluster.

    The network is the default network. Jobs that have a run time keep it. Jobs with the unit profile run equally fast
    on every GPU type.
    """
    if workload.profiles.is_unit:
        workload = assign_profiles(workload, "unit", np.random.default_rng(0), cluster.gpu_types)
    ideal = Instance(cluster, workload)
    jobs = ideal.workload.jobs.copy()
    jobs["duration_s"], jobs["iterations"] = ideal.ideal_s, np.nan
    return dataclasses.replace(ideal.workload, jobs=jobs)


def demanded_gpus(workload: Workload) -> tuple[np.ndarray, np.ndarray]:
    """Return the times [s] of arrivals and completions, and the GPUs in use from each to the next, float64 [S] each.

    Every job starts when it arrives and runs for its run time; the last value is 0.
    """
    jobs = workload.jobs
    time = np.concatenate([jobs["arrival_s"], jobs["arrival_s"] + jobs["duration_s"]])
    change = np.concatenate([jobs["gpus"], -jobs["gpus"]])
    times, step = np.unique(time, return_inverse=True)
    return times, np.cumsum(np.bincount(step, weights=change))


def hour_of_week(origin: str) -> float:
    """Return the hours from Monday 0 h to an ISO 8601 time; NaN for an empty text."""
    if not origin:
        return float("nan")
    when = datetime.fromisoformat(origin)
    return 24.0 * when.weekday() + when.hour + when.minute / 60 + when.second / 3600
