"""Ratios of job completion times, paired by seed, with bootstrap intervals."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from gpusched_env.metrics import Interval, bootstrap_mean
from gpusched_env.reproduce.dally_tuner.contenders import ORACLE, STATIC
from gpusched_env.reproduce.results import Results

JCT, P99 = "mean_jct_s", "p99_jct_s"


def values(results: Results, problem: str, contender: str, metric: str = JCT) -> np.ndarray:
    """float64 [seeds]: a metric of a contender, sorted by seed.

    On each seed, the oracle has the static timers with the smallest mean JCT.
    """
    own = results.where(problem=problem)
    if contender != ORACLE:
        return own.values(metric, contender=contender)
    grid = own.where(contender=ORACLE)
    tried = [*(grid.where(pair=pair) for pair in grid.known("pair")), *(own.where(contender=name) for name in STATIC)]
    tried = [runs for runs in tried if runs.runs]
    if not tried:
        return np.empty(0)
    best = np.argmin([runs.values(JCT) for runs in tried], axis=0)
    every = np.array([runs.values(metric) for runs in tried])
    return every[best, np.arange(every.shape[1])]


def ratio(results: Results, problem: str, contender: str, reference: str, metric: str = JCT) -> Interval:
    """Return the mean over seeds of a contender's metric / that of a reference, with a 95 % bootstrap interval."""
    own, other = (values(results, problem, name, metric) for name in (contender, reference))
    if not len(own) or len(own) != len(other):
        return Interval(math.nan, math.nan, math.nan, 0)
    return bootstrap_mean(own / other)


def written(interval: Interval) -> str:
    """Format a ratio and its interval; empty if there is none."""
    if not interval.count:
        return ""
    return f"{interval.mean:.3f} \\[{interval.low:.3f}, {interval.high:.3f}]"


def problems(results: Results, known: Sequence[str]) -> list[str]:
    """Return those of the known problems for which there are runs."""
    found = results.known("problem")
    return [name for name in known if name in found]
