"""Bursts of similar jobs with a weekly pattern, calibrated on a real log."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Final

import numpy as np

from gpusched_env.errors import WorkloadError
from gpusched_env.portable import arrays
from gpusched_env.portable.draws import LEAST_UNIFORM
from gpusched_env.portable.elementary import exp
from gpusched_env.portable.normal import normal_quantile
from gpusched_env.traces.generators.calibration import Calibration, demand_class
from gpusched_env.traces.generators.demand import demand_table

if TYPE_CHECKING:
    from gpusched_env.traces.generators.bursty_kernels import GangTable

HOUR: Final = 3600.0  # [s]
WEEK: Final = 168  # [h]
LEAST_RATE: Final = 1e-3  # least rate_scale: the generator draws every hour, so low rates take long to generate
BLOCK: Final = 256  # [h] random numbers for the hourly rates are drawn in blocks, and used from the end of each
JITTER: Final = 0.1  # standard deviation of the change in ln(run time) when a job repeats its predecessor's run time


def bursty_jobs(
    rng: np.random.Generator,
    jobs: int,
    calibration: Calibration,
    max_gpus: int | None = None,
    min_duration_s: float = 0.0,
    max_duration_s: float = math.inf,
    rate_scale: float = 1.0,
    demand: Mapping[int, float] | None = None,
    start_hour: float | None = None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draw the first ``jobs`` arrivals of a random process that resembles the log.

    Parameters
    ----------
    min_duration_s, max_duration_s : bounds to which run times are clipped [s]
    rate_scale : factor on the rate of bursts; the sizes of bursts and the gaps inside them do not change
    demand : probability of each gang size, instead of the log's; the values need not sum to 1
    start_hour : hour of the week, from Monday 0 h, at time 0; None = drawn uniformly

    Returns
    -------
    arrival times, ascending from 0 [s], gang sizes [GPU] and run times [s]

    Notes
    -----
    The starts of bursts are a Poisson process with rate = weekly profile x exp(z), where z is a Gaussian AR(1) process
    with steps of one hour. Burst sizes and run times are drawn from quantile tables with log-linear interpolation, and
    burst sizes are rounded. Gaps inside a burst are at most 60 s and are drawn from a table with linear interpolation.

    Inside a burst, a job repeats its predecessor's demand with probability ``keep_demand``; otherwise it draws a new
    demand. If the two jobs have the same demand class, the job repeats its predecessor's run time with probability
    ``keep_run_time``, up to a random change of about 10 %. Otherwise it draws a run time from the table of its class.
    So every class has the run times of the log.
    """
    gangs = _gang_table(tuple((demand if demand is not None else calibration.demand).items()), max_gpus)
    if not LEAST_RATE <= rate_scale < math.inf:
        raise WorkloadError(f"rate_scale is {rate_scale!r}: it must be a finite number of at least {LEAST_RATE:g}")
    check_bounds(min_duration_s, max_duration_s)
    # Each burst has at least one job, so the first `jobs` bursts contain the first `jobs` submissions.
    size, start = _bursts(rng, jobs, calibration, rate_scale, start_hour)
    size, arrival = _arrivals(rng, jobs, size, start, calibration)
    gpus, duration = _repeated_draws(rng, size, gangs, calibration)
    order = np.argsort(arrival, kind="stable")[:jobs]
    arrival = arrival[order]
    duration = np.minimum(np.maximum(duration[order], max(min_duration_s, 1e-3)), max_duration_s)
    return arrival - arrival[0], gpus[order], duration


def check_bounds(least_s: float, most_s: float) -> None:
    """Refuse impossible bounds of run times."""
    if not 0 <= least_s <= most_s or most_s == 0:
        raise WorkloadError(f"run times {least_s!r} s to {most_s!r} s: give 0 <= min <= max, max > 0")


@lru_cache(maxsize=64)
def _gang_table(demand: tuple[tuple[int, float], ...], max_gpus: int | None) -> GangTable:
    from gpusched_env.traces.generators.bursty_kernels import GangTable

    gpus, cumulative = demand_table(dict(demand), max_gpus)
    table = GangTable(gpus=gpus, cumulative=cumulative, kind=demand_class(gpus))
    for array in (table.gpus, table.cumulative, table.kind):
        array.flags.writeable = False
    return table


def _bursts(
    rng: np.random.Generator, bursts: int, calibration: Calibration, rate_scale: float, start_hour: float | None
) -> tuple[np.ndarray, np.ndarray]:
    """Draw sizes of bursts, int64 [bursts], and their starts [s], ascending, by inversion of the cumulative rate."""
    from gpusched_env.traces.generators.bursty_kernels import Bursts, draw_bursts

    of_size = rng.random(bursts)
    begin = WEEK * rng.random() if start_hour is None else float(start_hour)
    if not 0 <= begin < WEEK:
        raise WorkloadError(f"start_hour is {start_hour!r}: it must be an hour of the week, 0 <= start_hour < {WEEK}")
    size, passed = np.empty(bursts, np.int64), np.empty(bursts)
    draw_bursts(Bursts(of_size=of_size, of_gap=rng.random(bursts), size=size, passed=passed), calibration.tables)
    first_hour = int(begin)
    end = passed[-1] + rate_scale * calibration.hourly_rate[first_hour] * exp(5 * calibration.modulation_sigma)
    edges = _expected_bursts(rng, first_hour, rate_scale, end, calibration)
    skipped = (begin - first_hour) * edges[1]
    return size, HOUR * arrays.interpolated(passed + skipped, edges, np.arange(len(edges)))


def _expected_bursts(
    rng: np.random.Generator, first_hour: int, rate_scale: float, end: float, calibration: Calibration
) -> np.ndarray:
    """Draw the expected number of bursts up to each full hour, from 0 to the first value above ``end``."""
    from gpusched_env.traces.generators.bursty_kernels import Hours, add_hours

    sigma, phi = calibration.modulation_sigma, calibration.modulation_phi
    z = np.array([sigma * normal_quantile(max(rng.random(), LEAST_UNIFORM))])
    hours, known = 0, [np.zeros(1)]
    while known[-1][-1] <= end:
        edges = np.empty(BLOCK + 1)
        edges[0] = known[-1][-1]
        these = Hours(uniforms=rng.random(BLOCK), z=z, edges=edges)
        added = add_hours(these, calibration.tables, first_hour + hours, end, rate_scale, sigma, phi)
        known.append(edges[1 : added + 1])
        hours += added
    return np.concatenate(known)


def _arrivals(
    rng: np.random.Generator, jobs: int, size: np.ndarray, start: np.ndarray, calibration: Calibration
) -> tuple[np.ndarray, np.ndarray]:
    """Return the sizes of the bursts that begin before the last job arrives, and their jobs' arrivals [s], by burst."""
    enough = int(np.searchsorted(np.cumsum(size), jobs)) + 1
    arrival = _submissions(rng, size[:enough], start[:enough], calibration)
    last = np.partition(arrival, jobs - 1)[jobs - 1]
    late = int(np.searchsorted(start, last, side="right"))
    if late > enough:  # further bursts begin during an earlier, long one
        arrival = np.concatenate([arrival, _submissions(rng, size[enough:late], start[enough:late], calibration)])
    return size[: max(late, enough)], arrival


def _submissions(rng: np.random.Generator, size: np.ndarray, start: np.ndarray, calibration: Calibration) -> np.ndarray:
    """Draw the arrival of every job of the bursts [s]."""
    from gpusched_env.traces.generators.bursty_kernels import Arrivals, draw_arrivals

    jobs = int(size.sum())
    arrival = np.empty(jobs)
    draw_arrivals(Arrivals(size=size, start=start, uniforms=rng.random(jobs), arrival=arrival), calibration.tables)
    return arrival


def _repeated_draws(
    rng: np.random.Generator, size: np.ndarray, gangs: GangTable, calibration: Calibration
) -> tuple[np.ndarray, np.ndarray]:
    """Draw demand [GPU] and run time [s] of the jobs, burst by burst; ``size`` is the number of jobs of each burst."""
    from gpusched_env.traces.generators.bursty_kernels import ROWS, Jobs, repeat_draws

    jobs = int(size.sum())
    gpus, run_time = np.empty(jobs, np.int64), np.empty(jobs)
    these = Jobs(size=size, uniforms=rng.random((ROWS, jobs)), gpus=gpus, run_time=run_time)
    repeat_draws(these, calibration.tables, gangs, calibration.keep_demand, calibration.keep_run_time, JITTER)
    return gpus, np.minimum(run_time, calibration.longest_s)
