"""Arrivals whose rate alternates between a low and a high value, and gang sizes whose distribution changes once."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from gpusched_env.errors import WorkloadError
from gpusched_env.portable import draws
from gpusched_env.traces.generators.demand import demand_table


def drifting_arrivals(
    rng: np.random.Generator, jobs: int, rate_per_s: float, swing: float, period_s: float
) -> np.ndarray:
    """Draw a Poisson process whose rate alternates between ``1 - swing`` and ``1 + swing`` times its mean.

    A period of ``period_s`` seconds begins quiet. With ``swing`` 1, no job but the first arrives in the quiet halves.
    Returns ascending times [s] from 0. The draw is exact: the arrivals of a process of rate 1 are mapped through the
    inverse of the expected number of arrivals, which is piecewise linear in time.
    """
    for name, value in (("rate_per_s", rate_per_s), ("period_s", period_s)):
        if not 0 < value < math.inf:
            raise WorkloadError(f"{name} is {value!r}: it must be a finite number > 0")
    if not 0 <= swing <= 1:
        raise WorkloadError(f"swing is {swing!r}: it must be a share, 0 <= swing <= 1")
    passed = np.cumsum(draws.exponential(rng, jobs))
    # Arrival times at the constant mean rate, as a number of periods and a time within the period
    periods, within = np.divmod((passed - passed[0]) / rate_per_s, period_s)
    quiet_s = 0.5 * (1 - swing) * period_s  # arrivals before this time within their period go into the quiet half
    quiet = within < quiet_s
    late = 0.5 * period_s + (within - quiet_s) / (1 + swing)
    early = within / (1 - swing) if swing < 1 else np.zeros_like(within)
    arrival: np.ndarray = periods * period_s + np.where(quiet, early, late)
    arrival[0] = 0.0  # also with swing 1, where no other job arrives in a quiet half
    return arrival


def shifting_gangs(
    rng: np.random.Generator,
    arrival_s: np.ndarray,
    before: Mapping[int, float],
    after: Mapping[int, float],
    shift_s: float,
    max_gpus: int | None = None,
) -> np.ndarray:
    """Draw gang sizes [GPU], int64 [jobs]: from ``before`` for arrivals before ``shift_s`` [s], else from ``after``."""
    if not shift_s >= 0:
        raise WorkloadError(f"shift_s is {shift_s!r}: it must be a time >= 0, or left out for no shift")
    drawn = rng.random(len(arrival_s))
    sizes = []
    for mix in (before, after):
        gpus, cumulative = demand_table(mix, max_gpus)
        sizes.append(gpus[np.searchsorted(cumulative, drawn, side="right")])
    gangs: np.ndarray = np.where(arrival_s < shift_s, *sizes)
    return gangs
