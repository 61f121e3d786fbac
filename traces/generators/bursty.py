"""Bursts of similar jobs with a weekly pattern, calibrated on a real log."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

import numpy as np

from gpusched_env.errors import WorkloadError
from gpusched_env.portable import arrays, draws
from gpusched_env.portable.elementary import exp
from gpusched_env.traces.generators.calibration import Calibration, demand_class
from gpusched_env.traces.generators.demand import demand_table, draw_demand

HOUR: Final = 3600.0  # [s]
WEEK: Final = 168  # [h]
LEAST_RATE: Final = 1e-3  # least rate_scale: the generator draws every hour, so low rates take long to generate
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
    jobs : number of jobs
    max_gpus : larger gangs are left out; the others keep their proportions [GPU]
    min_duration_s, max_duration_s : bounds to which run times are clipped [s]
    rate_scale : factor on the rate of bursts; the sizes of bursts and the gaps inside them do not change
    demand : probability of each gang size, instead of the log's; the values need not sum to 1
    start_hour : hour of the week, from Monday 0 h, at time 0; None = drawn uniformly

    Returns
    -------
    arrival_s : float64 [J], arrival times, ascending from 0 [s]
    gpus : int64 [J], gang sizes [GPU]
    duration_s : float64 [J], run times [s]

    Notes
    -----
    The starts of bursts are a Poisson process with rate = weekly profile x exp(z), where z is a Gaussian AR(1) process
    with steps of one hour. Burst sizes and run times are drawn from quantile tables with log-linear interpolation, and
    burst sizes are rounded. Gaps inside a burst are at most 60 s and are drawn from a table with linear interpolation.

    Inside a burst, a job repeats its predecessor's demand with probability ``keep_demand``; otherwise it draws a new
    demand. If the two jobs have the same demand class, the job repeats its predecessor's run time with probability
    ``keep_run_time``, up to a random change of about 10 %. Otherwise it draws a run time from the table of its class.
    So every class has the run times of the log.

    Raises
    ------
    WorkloadError : a parameter out of range
    """
    sizes_pmf = demand_table(demand if demand is not None else calibration.demand, max_gpus)
    if not LEAST_RATE <= rate_scale < math.inf:
        raise WorkloadError(f"rate_scale is {rate_scale!r}: it must be a finite number of at least {LEAST_RATE:g}")
    if not 0 <= min_duration_s <= max_duration_s or max_duration_s == 0:
        raise WorkloadError(f"run times {min_duration_s!r} s to {max_duration_s!r} s: give 0 <= min <= max, max > 0")
    # Each burst has at least one job, so the first `jobs` bursts contain the first `jobs` arrivals.
    probability, log_size = calibration.burst_size_table
    size = np.rint(arrays.exp(arrays.interpolated(rng.random(jobs), probability, log_size))).astype(np.int64)
    start = _burst_starts(rng, jobs, calibration, rate_scale, start_hour)
    size, arrival = _arrivals(rng, jobs, size, start, calibration)
    first = np.zeros(len(arrival), bool)
    first[np.cumsum(size) - size] = True
    gpus, duration = _repeated_draws(rng, first, sizes_pmf, calibration)
    order = np.argsort(arrival, kind="stable")[:jobs]
    arrival = arrival[order]
    return arrival - arrival[0], gpus[order], np.clip(duration[order], max(min_duration_s, 1e-3), max_duration_s)


def _burst_starts(
    rng: np.random.Generator, bursts: int, calibration: Calibration, rate_scale: float, start_hour: float | None
) -> np.ndarray:
    """Draw the start times of bursts by inversion of the cumulative rate; float64 [bursts], ascending [s]."""
    begin = WEEK * rng.random() if start_hour is None else float(start_hour)
    if not 0 <= begin < WEEK:
        raise WorkloadError(f"start_hour is {start_hour!r}: it must be an hour of the week, 0 <= start_hour < {WEEK}")
    passed = np.cumsum(draws.exponential(rng, bursts))
    first_hour = int(begin)
    sigma, phi = calibration.modulation_sigma, calibration.modulation_phi
    z = sigma * float(draws.normal(rng, 1)[0])
    innovation = sigma * math.sqrt(1.0 - phi * phi)
    edges = [0.0]  # expected number of bursts up to each full hour
    weekly = (rate_scale * calibration.hourly_rate).tolist()
    end = passed[-1] + weekly[first_hour] * exp(5 * sigma)
    noise: list[float] = []
    while edges[-1] <= end:
        if not noise:
            noise = (innovation * draws.normal(rng, 256)).tolist()
        rate = weekly[(first_hour + len(edges) - 1) % WEEK]
        edges.append(edges[-1] + rate * exp(z - sigma * sigma / 2))  # exp(z - sigma^2 / 2) has mean 1
        z = phi * z + noise.pop()
    skipped = (begin - first_hour) * edges[1]
    start: np.ndarray = HOUR * arrays.interpolated(passed + skipped, np.array(edges), np.arange(len(edges)))
    return start


def _arrivals(
    rng: np.random.Generator, jobs: int, size: np.ndarray, start: np.ndarray, calibration: Calibration
) -> tuple[np.ndarray, np.ndarray]:
    """Return the sizes of the bursts that begin before the last of ``jobs`` jobs arrives, and their jobs' arrivals.

    Arrivals [s] are in the order of the bursts.
    """
    enough = int(np.searchsorted(np.cumsum(size), jobs)) + 1
    arrival = _submissions(rng, size[:enough], start[:enough], calibration)
    last = np.partition(arrival, jobs - 1)[jobs - 1]
    late = int(np.searchsorted(start, last, side="right"))
    if late > enough:  # further bursts begin during an earlier, long one
        arrival = np.concatenate([arrival, _submissions(rng, size[enough:late], start[enough:late], calibration)])
    return size[: max(late, enough)], arrival


def _submissions(rng: np.random.Generator, size: np.ndarray, start: np.ndarray, calibration: Calibration) -> np.ndarray:
    """Draw the arrival of every job of the bursts [s]."""
    total = int(size.sum())
    elapsed = np.cumsum(arrays.interpolated(rng.random(total), *calibration.burst_gap_table))
    first = np.cumsum(size) - size
    arrival: np.ndarray = np.repeat(start - elapsed[first], size) + elapsed
    return arrival


def _repeated_draws(
    rng: np.random.Generator, first: np.ndarray, pmf: tuple[np.ndarray, np.ndarray], calibration: Calibration
) -> tuple[np.ndarray, np.ndarray]:
    """Draw the demand and the run time of each job, in the order of the bursts.

    ``first`` marks the first job of each burst.
    """
    count = len(first)
    drawn = draw_demand(rng, count, pmf)
    fresh = first | (rng.random(count) >= calibration.keep_demand)
    gpus = drawn[np.flatnonzero(fresh)[np.cumsum(fresh) - 1]]
    kind = demand_class(gpus)
    fresh = first | (rng.random(count) >= calibration.keep_run_time)
    fresh[1:] |= kind[1:] != kind[:-1]
    rank, step = rng.random(count), JITTER * draws.normal(rng, count)
    log_time = np.empty(count)
    for index, table in enumerate(calibration.run_time_tables):
        members = kind == index
        if table is not None:
            log_time[members] = arrays.interpolated(rank[members], *table)
        elif members.any():  # the log lacks this demand class: take the run times of its nearest class
            known = [i for i, other in enumerate(calibration.run_time_tables) if other is not None]
            nearest = calibration.run_time_tables[min(known, key=lambda other: abs(other - index))]
            assert nearest is not None
            log_time[members] = arrays.interpolated(rank[members], *nearest)
    source = np.flatnonzero(fresh)[np.cumsum(fresh) - 1]
    walked = np.cumsum(step)
    return gpus, np.minimum(arrays.exp(log_time[source] + walked - walked[source]), calibration.longest_s)
