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
from gpusched_env.traces.generators.demand import demand_table

HOUR: Final = 3600.0  # [s]
WEEK: Final = 168  # [h]
LEAST_RATE: Final = 1e-3  # of the log's rate: every simulated hour is drawn, so a lower rate takes longer to generate
NOISE: Final = 256  # [h] normal random numbers for the rates are drawn in blocks of this length, and used backwards
JITTER: Final = 0.1  # standard deviation of the change in ln(run time) from a job to the next that repeats it


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
    """Draw the first ``jobs`` submissions of a random process that resembles the log.

    Parameters
    ----------
    jobs : number of jobs
    max_gpus : larger gangs are left out; the others keep their proportions [GPU]
    min_duration_s, max_duration_s : run times are clipped to these bounds, as by a time limit [s]
    rate_scale : factor on the rate of bursts; bursts themselves do not change
    demand : probability of each gang size in place of the log's; proportions are enough
    start_hour : hour of the week, from Monday 0 h, at which submissions begin; None = drawn uniformly

    Returns
    -------
    arrival_s : float64 [J], ascending, the first is 0
    gpus : int64 [J]
    duration_s : float64 [J]

    Notes
    -----
    Bursts are a Poisson process with rate = weekly profile x exp(z), where z is a Gaussian AR(1) process with steps of
    one hour. Burst sizes and run times are drawn from quantile tables with log-linear interpolation (sizes are
    rounded); gaps inside a burst, at most 60 s, from a table with linear interpolation. Inside a burst a job keeps its
    predecessor's demand with probability keep_demand, else it draws a new one. If the demand class is the same, the job
    keeps the run time with probability keep_run_time, up to a change of about 10 %. Else it draws from its class, so
    every class has the run times of the log.

    Raises
    ------
    WorkloadError : a parameter out of range
    """
    sizes_pmf = demand_table(demand if demand is not None else calibration.demand, max_gpus)
    if not LEAST_RATE <= rate_scale < math.inf:
        raise WorkloadError(f"rate_scale is {rate_scale!r}: it must be a finite number of at least {LEAST_RATE:g}")
    if not 0 <= min_duration_s <= max_duration_s or max_duration_s == 0:
        raise WorkloadError(f"run times {min_duration_s!r} s to {max_duration_s!r} s: give 0 <= min <= max, max > 0")
    # Each burst has at least one job, so the first `jobs` bursts contain the first `jobs` submissions.
    size, start = _bursts(rng, jobs, calibration, rate_scale, start_hour)
    size, arrival = _arrivals(rng, jobs, size, start, calibration)
    gpus, duration = _repeated_draws(rng, size, sizes_pmf, calibration)
    order = np.argsort(arrival, kind="stable")[:jobs]
    arrival = arrival[order]
    return arrival - arrival[0], gpus[order], np.clip(duration[order], max(min_duration_s, 1e-3), max_duration_s)


def _bursts(
    rng: np.random.Generator, bursts: int, calibration: Calibration, rate_scale: float, start_hour: float | None
) -> tuple[np.ndarray, np.ndarray]:
    """Draw sizes of bursts, int64 [bursts], and their starts [s], ascending, by inversion of the cumulative rate."""
    from gpusched_env.traces.generators.bursty_kernels import Bursts, draw_bursts

    probability, log_size = calibration.burst_size_table
    of_size = rng.random(bursts)
    begin = WEEK * rng.random() if start_hour is None else float(start_hour)
    if not 0 <= begin < WEEK:
        raise WorkloadError(f"start_hour is {start_hour!r}: it must be an hour of the week, 0 <= start_hour < {WEEK}")
    these = Bursts(
        of_size=of_size, of_gap=rng.random(bursts), probability=probability, log_size=log_size,
        size=np.empty(bursts, np.int64), passed=np.empty(bursts),
    )  # fmt: skip
    draw_bursts(these)
    first_hour = int(begin)
    weekly = rate_scale * calibration.hourly_rate
    end = these.passed[-1] + weekly[first_hour] * exp(5 * calibration.modulation_sigma)
    edges = _expected_bursts(rng, first_hour, weekly, end, calibration)
    skipped = (begin - first_hour) * edges[1]
    return these.size, HOUR * arrays.interpolated(these.passed + skipped, edges, np.arange(len(edges)))


def _expected_bursts(
    rng: np.random.Generator, first_hour: int, weekly: np.ndarray, end: float, calibration: Calibration
) -> np.ndarray:
    """Draw the expected number of bursts up to each full hour, from 0 to the first value above ``end``."""
    from gpusched_env.traces.generators.bursty_kernels import Hours, add_hours

    sigma, phi = calibration.modulation_sigma, calibration.modulation_phi
    innovation = sigma * math.sqrt(1.0 - phi * phi)
    normal = draws.normal(rng, 1 + NOISE)
    z, edges = sigma * normal[:1], np.zeros(1)
    while True:
        hours = len(edges) - 1
        edges = np.append(edges, np.empty(NOISE))
        noise = innovation * normal[: -NOISE - 1 : -1]  # from the end
        these = Hours(weekly=weekly, z=z, noise=noise, edges=edges[hours:])
        hours += add_hours(these, first_hour + hours, end, phi, sigma * sigma / 2)
        if edges[hours] > end:
            return edges[: hours + 1]
        normal, edges = draws.normal(rng, NOISE), edges[: hours + 1]


def _arrivals(
    rng: np.random.Generator, jobs: int, size: np.ndarray, start: np.ndarray, calibration: Calibration
) -> tuple[np.ndarray, np.ndarray]:
    """Return sizes of the bursts that begin before the last wanted job, and arrivals of their jobs, burst by burst."""
    enough = int(np.searchsorted(np.cumsum(size), jobs)) + 1
    arrival = _submissions(rng, size[:enough], start[:enough], calibration)
    last = np.partition(arrival, jobs - 1)[jobs - 1]
    late = int(np.searchsorted(start, last, side="right"))
    if late > enough:  # bursts that begin during an earlier, long one
        arrival = np.concatenate([arrival, _submissions(rng, size[enough:late], start[enough:late], calibration)])
    return size[: max(late, enough)], arrival


def _submissions(rng: np.random.Generator, size: np.ndarray, start: np.ndarray, calibration: Calibration) -> np.ndarray:
    """Draw the arrival of every job of the bursts [s]."""
    from gpusched_env.traces.generators.bursty_kernels import Arrivals, draw_arrivals

    probability, gap_s = calibration.burst_gap_table
    jobs = int(size.sum())
    these = Arrivals(
        size=size, start=start, uniform=rng.random(jobs), probability=probability, gap_s=gap_s, arrival=np.empty(jobs),
    )  # fmt: skip
    draw_arrivals(these)
    return these.arrival


def _repeated_draws(
    rng: np.random.Generator, size: np.ndarray, pmf: tuple[np.ndarray, np.ndarray], calibration: Calibration
) -> tuple[np.ndarray, np.ndarray]:
    """Draw demand [GPU] and run time [s] of the jobs, burst by burst; ``size`` is the number of jobs of each burst."""
    from gpusched_env.traces.generators.bursty_kernels import ROWS, Jobs, repeat_draws

    jobs, (sizes, cumulative) = int(size.sum()), pmf
    begin, probability, log_s = calibration.run_time_table
    these = Jobs(
        size=size, uniform=rng.random((ROWS, jobs)), gpus_of=sizes, cumulative=cumulative, kind_of=demand_class(sizes),
        begin=begin, probability=probability, log_s=log_s, gpus=np.empty(jobs, np.int64), log_time=np.empty(jobs),
    )  # fmt: skip
    repeat_draws(these, calibration.keep_demand, calibration.keep_run_time, JITTER)
    return these.gpus, np.minimum(arrays.exp(these.log_time), calibration.longest_s)
