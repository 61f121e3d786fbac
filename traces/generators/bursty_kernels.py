"""Loops of the bursty generator: expected bursts hour by hour, and jobs that repeat their predecessors."""

from __future__ import annotations

from typing import Final

import numpy as np

from gpusched_env.core import arithmetic  # noqa: F401 - kernels may call the elementary functions
from gpusched_env.core.handle import Handle, array, kernel
from gpusched_env.portable.draws import LEAST_UNIFORM
from gpusched_env.portable.elementary import exp, log1p
from gpusched_env.portable.kernels import interpolated_at
from gpusched_env.portable.normal import normal_quantile

DEMAND, KEEP_DEMAND, KEEP_RUN_TIME, RANK, STEP = range(5)  # rows of Jobs.uniform, in the order in which they are drawn
ROWS: Final = 5


class Bursts(Handle):
    """Bursts in the order of their starts."""

    of_size = array(np.float64, "bursts")  # uniform random numbers
    of_gap = array(np.float64, "bursts")
    probability = array(np.float64, "quantiles")
    log_size = array(np.float64, "quantiles")  # ln(jobs)
    size = array(np.int64, "bursts")  # [job]
    passed = array(np.float64, "bursts")  # expected number of bursts before the start of each


@kernel
def draw_bursts(these: Bursts) -> None:
    """Write size and start of each burst; the gaps between ``passed`` are exponential."""
    passed = 0.0
    for i in range(len(these.size)):
        log_size = interpolated_at(these.probability, these.log_size, 0, len(these.probability), these.of_size[i])
        these.size[i] = int(np.rint(exp(log_size)))
        passed -= log1p(-these.of_gap[i])
        these.passed[i] = passed


class Hours(Handle):
    """Hours in a row."""

    weekly = array(np.float64, "hours_of_week")  # expected bursts in each hour of the week
    z = array(np.float64, "one")  # of the next hour
    noise = array(np.float64, "hours")  # added to z after each hour
    edges = array(np.float64, "hours_and_one")  # expected bursts up to each full hour; the first is given


@kernel
def add_hours(these: Hours, hour: int, end: float, phi: float, half_variance: float) -> int:
    """Write expected bursts up to the first full hour with more than ``end``; return the number of hours written.

    ``hour`` is the first hour. The rate of each has a factor exp(z - variance / 2), which has mean 1.
    """
    for i in range(len(these.noise)):
        rate = these.weekly[(hour + i) % len(these.weekly)]
        these.edges[i + 1] = these.edges[i] + rate * exp(these.z[0] - half_variance)
        these.z[0] = phi * these.z[0] + these.noise[i]
        if these.edges[i + 1] > end:
            return i + 1
    return len(these.noise)


class Arrivals(Handle):
    """Bursts, and their jobs burst by burst."""

    size = array(np.int64, "bursts")  # [job]
    start = array(np.float64, "bursts")  # [s]
    uniform = array(np.float64, "jobs")
    probability = array(np.float64, "quantiles")
    gap_s = array(np.float64, "quantiles")
    arrival = array(np.float64, "jobs")  # [s]


@kernel
def draw_arrivals(these: Arrivals) -> None:
    """Write the arrival of each job: its burst's start and the gaps since the first job of the burst."""
    elapsed_s, job = 0.0, 0
    for burst in range(len(these.size)):
        before_s = 0.0
        for i in range(these.size[burst]):
            value = these.uniform[job]
            elapsed_s += interpolated_at(these.probability, these.gap_s, 0, len(these.gap_s), value)
            if i == 0:
                before_s = these.start[burst] - elapsed_s
            these.arrival[job] = before_s + elapsed_s
            job += 1


class Jobs(Handle):
    """Jobs burst by burst: random numbers, quantiles, and what follows for each job."""

    size = array(np.int64, "bursts")  # [job]
    uniform = array(np.float64, "rows", "jobs")
    gpus_of = array(np.int64, "sizes")  # [GPU] gang sizes
    cumulative = array(np.float64, "sizes")  # probability of this gang size or a smaller one
    kind_of = array(np.int64, "sizes")  # demand class of each gang size
    begin = array(np.int64, "kinds_and_one")  # first quantile of each demand class
    probability = array(np.float64, "quantiles")
    log_s = array(np.float64, "quantiles")  # ln(run time [s])
    gpus = array(np.int64, "jobs")  # [GPU]
    log_time = array(np.float64, "jobs")  # ln(run time [s])


@kernel
def repeat_draws(these: Jobs, keep_demand: float, keep_run_time: float, jitter: float) -> None:
    """Write gang size and run time of each job; for the rules see bursty_jobs."""
    size, kind, job = 0, -1, 0
    drawn, walked, walked_then = 0.0, 0.0, 0.0
    for burst in range(len(these.size)):
        for i in range(these.size[burst]):
            uniform = these.uniform[:, job]
            if i == 0 or uniform[KEEP_DEMAND] >= keep_demand:
                size = 0
                while these.cumulative[size] <= uniform[DEMAND]:
                    size += 1
            walked += jitter * normal_quantile(max(uniform[STEP], LEAST_UNIFORM))
            is_same = these.kind_of[size] == kind
            kind = these.kind_of[size]
            if i == 0 or not is_same or uniform[KEEP_RUN_TIME] >= keep_run_time:
                begin, end = these.begin[kind], these.begin[kind + 1]
                drawn = interpolated_at(these.probability, these.log_s, begin, end, uniform[RANK])
                walked_then = walked
            these.gpus[job] = these.gpus_of[size]
            these.log_time[job] = drawn + walked - walked_then
            job += 1
