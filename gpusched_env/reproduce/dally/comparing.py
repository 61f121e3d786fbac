"""Ratios of a metric of one policy to that of another, paired by seed, in one cell and over many cells."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gpusched_env.metrics.statistics import Interval, paired_ratio
from gpusched_env.reproduce.dally.cells import Conditions
from gpusched_env.reproduce.dally.policies import labels
from gpusched_env.reproduce.results import Results


def ratios(results: Results, metric: str, cell: Conditions, policy: str, rival: str) -> np.ndarray:
    """float64 [seeds]: a metric of ``policy`` / that of ``rival``, on the same draws; empty if one has no runs."""
    own, other = (results.values(metric, **labels(cell, name)) for name in (policy, rival))
    return own / other if len(own) and len(other) else np.empty(0)


def ratio(results: Results, metric: str, cell: Conditions, policy: str, rival: str) -> Interval:
    """Return the geometric mean of the ratios over seeds, and its interval."""
    found = ratios(results, metric, cell, policy, rival)
    return paired_ratio(found, np.ones(len(found)))


@dataclass(frozen=True)
class Sweep:
    """A ratio over many cells.

    Parameters
    ----------
    mean : geometric mean over cells and seeds, with an interval over seeds
    best, worst : the cell with the smallest, and with the largest, geometric mean over seeds, and this mean
    best_run : smallest ratio of a single seed
    cells : number of cells for which both policies have runs
    """

    mean: Interval
    best: tuple[Conditions, Interval]
    worst: tuple[Conditions, Interval]
    best_run: float
    cells: int


def sweep(results: Results, metric: str, cells: Sequence[Conditions], policy: str, rival: str) -> Sweep | None:
    """Compare two policies over all cells for which both have runs; None if there is no such cell."""
    found = {cell: ratios(results, metric, cell, policy, rival) for cell in cells}
    found = {cell: values for cell, values in found.items() if len(values)}
    if not found:
        return None
    by_seed = np.exp(np.mean([np.log(values) for values in found.values()], axis=0))
    means = {cell: paired_ratio(values, np.ones(len(values))) for cell, values in found.items()}
    best, worst = (pick(means, key=lambda cell: means[cell].mean) for pick in (min, max))
    return Sweep(
        paired_ratio(by_seed, np.ones(len(by_seed))),
        (best, means[best]),
        (worst, means[worst]),
        float(min(values.min() for values in found.values())),
        len(found),
    )
