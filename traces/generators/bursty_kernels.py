"""Loops of the bursty generator: bursts, expected bursts hour by hour, arrivals, and jobs that repeat each other."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from gpusched_env.core import arithmetic  # noqa: F401 - kernels may call the elementary functions
from gpusched_env.core.handle import Handle, array, kernel
from gpusched_env.portable.draws import LEAST_UNIFORM
from gpusched_env.portable.elementary import exp, log1p
from gpusched_env.portable.kernels import interpolated_at
from gpusched_env.portable.normal import normal_quantile

DEMAND, KEEP_DEMAND, KEEP_RUN_TIME, RANK, STEP = range(5)  # rows of Jobs.uniforms, in the order in which they are drawn
ROWS: Final = 5


class LogTables(Handle):
    """Statistics of a log; quantiles are pairs of arrays, probabilities and values."""

    weekly = array(np.float64, "hours_of_week")  # expected bursts in each hour of the week
    size_probability = array(np.float64, "sizes")
    log_size = array(np.float64, "sizes")  # ln(jobs of a burst)
    gap_probability = array(np.float64, "gaps")
    gap_s = array(np.float64, "gaps")  # [s] between the jobs of a burst
    begin = array(np.int64, "kinds_and_one")  # first run time quantile of each demand class
    time_probability = array(np.float64, "times")
    log_time = array(np.float64, "times")  # ln(run time [s])


class GangTable(Handle):
    """Gang sizes that are drawn."""

    gpus = array(np.int64, "sizes")  # [GPU] ascending
    cumulative = array(np.float64, "sizes")  # probability of this gang size or a smaller one
    kind = array(np.int64, "sizes")  # demand class


class Bursts(Handle):
    """Bursts in the order of their starts."""

    of_size = array(np.float64, "bursts")  # uniform random numbers
    of_gap = array(np.float64, "bursts")
    size = array(np.int64, "bursts")  # [job]
    passed = array(np.float64, "bursts")  # expected number of bursts up to the start of each


@kernel
def draw_bursts(these: Bursts, log: LogTables) -> None:
    """Write size and start of each burst; the gaps between ``passed`` are exponential."""
    passed = 0.0
    for i in range(len(these.size)):
        size = interpolated_at(log.size_probability, log.log_size, 0, len(log.log_size), these.of_size[i])
        these.size[i] = int(np.rint(exp(size)))
        passed -= log1p(-these.of_gap[i])
        these.passed[i] = passed


class Hours(Handle):
    """Hours in a row."""

    uniforms = array(np.float64, "hours")  # random numbers, used from the end
    z = array(np.float64, "one")  # of the next hour
    edges = array(np.float64, "hours_and_one")  # expected bursts up to each full hour; the first is given


@kernel
def add_hours(these: Hours, log: LogTables, hour: int, end: float, rate_scale: float, sigma: float, phi: float) -> int:
    """Write expected bursts up to the first full hour with more than ``end``; return the number of hours written.

    ``hour`` is the first hour. The rate of each has a factor exp(z - variance of z / 2), which has mean 1.
    """
    hours = len(these.uniforms)
    innovation = sigma * math.sqrt(1.0 - phi * phi)
    for i in range(hours):
        rate = rate_scale * log.weekly[(hour + i) % len(log.weekly)]
        these.edges[i + 1] = these.edges[i] + rate * exp(these.z[0] - sigma * sigma / 2)
        noise = innovation * normal_quantile(max(these.uniforms[hours - 1 - i], LEAST_UNIFORM))
        these.z[0] = phi * these.z[0] + noise
        if these.edges[i + 1] > end:
            return i + 1
    return hours


class Arrivals(Handle):
    """Bursts, and their jobs burst by burst."""

    size = array(np.int64, "bursts")  # [job]
    start = array(np.float64, "bursts")  # [s]
    uniforms = array(np.float64, "jobs")
    arrival = array(np.float64, "jobs")  # [s]


@kernel
def draw_arrivals(these: Arrivals, log: LogTables) -> None:
    """Write the arrival of each job: its burst's start and the gaps since the first job of the burst."""
    elapsed_s, job = 0.0, 0
    for burst in range(len(these.size)):
        before_s = 0.0
        for i in range(these.size[burst]):
            elapsed_s += interpolated_at(log.gap_probability, log.gap_s, 0, len(log.gap_s), these.uniforms[job])
            if i == 0:
                before_s = these.start[burst] - elapsed_s
            these.arrival[job] = before_s + elapsed_s
            job += 1


class Jobs(Handle):
    """Jobs burst by burst."""

    size = array(np.int64, "bursts")  # [job]
    uniforms = array(np.float64, "rows", "jobs")
    gpus = array(np.int64, "jobs")  # [GPU]
    run_time = array(np.float64, "jobs")  # [s]


@kernel
def repeat_draws(
    these: Jobs, log: LogTables, gangs: GangTable, keep_demand: float, keep_run_time: float, jitter: float
) -> None:
    """Write gang size and run time of each job; for the rules see bursty_jobs."""
    size, kind, job = 0, -1, 0
    drawn, walked, walked_then = 0.0, 0.0, 0.0
    for burst in range(len(these.size)):
        for i in range(these.size[burst]):
            uniforms = these.uniforms[:, job]
            if i == 0 or uniforms[KEEP_DEMAND] >= keep_demand:
                size = 0
                while gangs.cumulative[size] <= uniforms[DEMAND]:
                    size += 1
            walked += jitter * normal_quantile(max(uniforms[STEP], LEAST_UNIFORM))
            is_same = gangs.kind[size] == kind
            kind = gangs.kind[size]
            if i == 0 or not is_same or uniforms[KEEP_RUN_TIME] >= keep_run_time:
                begin, end = log.begin[kind], log.begin[kind + 1]
                drawn = interpolated_at(log.time_probability, log.log_time, begin, end, uniforms[RANK])
                walked_then = walked
            these.gpus[job] = gangs.gpus[size]
            these.run_time[job] = exp(drawn + walked - walked_then)
            job += 1
