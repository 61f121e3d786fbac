"""Ratios over the test cells: geometric means over cells and seeds, the worst cell, intervals over seeds."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Final

import numpy as np

from gpusched_env.metrics import Interval, bootstrap_mean
from gpusched_env.portable import arrays
from gpusched_env.portable.elementary import exp
from gpusched_env.reproduce.dally_cells.contenders import RIVALS
from gpusched_env.reproduce.results import Results

JCT, P99 = "mean_jct_s", "p99_jct_s"
METRICS: Final = {JCT: "mean JCT", P99: "99th percentile of JCT"}


def logs(results: Results, contender: str, metric: str) -> np.ndarray:
    """float64 [cells, seeds]: ln of a metric of a contender."""
    own = results.where(contender=contender)
    return arrays.log(np.array([own.values(metric, cell=cell) for cell in results.known("cell")]))


def over_cells(results: Results, contender: str, reference: str, metric: str) -> Interval:
    """Return the geometric mean over cells and seeds of a ratio, with a 95 % bootstrap interval over seeds."""
    return as_ratio(bootstrap_mean((logs(results, contender, metric) - logs(results, reference, metric)).mean(axis=0)))


def in_cell(results: Results, cell: str, contender: str, reference: str, metric: str) -> Interval:
    """Return the geometric mean over seeds of a ratio in one cell, with a 95 % bootstrap interval."""
    number = results.known("cell").index(cell)
    own, other = (logs(results, name, metric)[number] for name in (contender, reference))
    return as_ratio(bootstrap_mean(own - other))


def best_in_cell(results: Results, metric: str, names: Sequence[str] = RIVALS) -> dict[str, str]:
    """Return for each cell the contender with the smallest geometric mean of a metric over the seeds."""
    means = np.array([logs(results, name, metric).mean(axis=1) for name in names])
    return {cell: names[int(best)] for cell, best in zip(results.known("cell"), means.argmin(axis=0), strict=True)}


def best_static(results: Results, metric: str, names: Sequence[str]) -> str:
    """Return the contender with the smallest geometric mean of a metric over all cells."""
    return min(names, key=lambda name: float(logs(results, name, metric).mean()))


def of_best(results: Results, contender: str, metric: str) -> np.ndarray:
    """float64 [cells]: geometric mean over the seeds of a contender's metric / that of the best rival of the cell."""
    best = np.array([logs(results, name, metric).mean(axis=1) for name in RIVALS]).min(axis=0)
    return arrays.exp(logs(results, contender, metric).mean(axis=1) - best)


def as_ratio(interval: Interval) -> Interval:
    """Return an interval of logarithms as one of ratios."""
    return dataclasses.replace(interval, mean=exp(interval.mean), low=exp(interval.low), high=exp(interval.high))
