"""Ratios of job completion times, seed by seed, with bootstrap intervals."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from gpusched_env.metrics import Interval, bootstrap_mean
from gpusched_env.reproduce.dally_tuner.contenders import ORACLE
from gpusched_env.reproduce.results import Results

JCT, P99 = "mean_jct_s", "p99_jct_s"


def values(results: Results, problem: str, contender: str, metric: str = JCT) -> np.ndarray:
    """float64 [seeds]: a metric, by seed; the oracle's is that of the pair with the smallest mean JCT on each seed."""
    if contender != ORACLE:
        return results.values(metric, problem=problem, contender=contender)
    own = results.where(problem=problem, contender=ORACLE)
    grids = [own.where(pair=pair) for pair in own.known("pair")]
    if not grids:
        return np.empty(0)
    best = np.argmin([grid.values(JCT) for grid in grids], axis=0)
    every = np.array([grid.values(metric) for grid in grids])
    return every[best, np.arange(every.shape[1])]


def ratio(results: Results, problem: str, contender: str, reference: str, metric: str = JCT) -> Interval:
    """Mean over seeds of a contender's metric / the reference's, with its 95 % bootstrap interval."""
    own, other = (values(results, problem, name, metric) for name in (contender, reference))
    if not len(own) or len(own) != len(other):
        return Interval(math.nan, math.nan, math.nan, 0)
    return bootstrap_mean(own / other)


def written(interval: Interval) -> str:
    """Write a ratio and its interval; empty if there is none."""
    if not interval.count:
        return ""
    return f"{interval.mean:.3f} \\[{interval.low:.3f}, {interval.high:.3f}]"


def problems(results: Results, known: Sequence[str]) -> list[str]:
    """Those problems of which there are runs."""
    found = results.known("problem")
    return [name for name in known if name in found]
