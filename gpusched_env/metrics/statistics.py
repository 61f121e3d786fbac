"""Means and confidence intervals over seeds; schedulers play the same seeds, so comparisons are paired."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from gpusched_env.errors import GpuschedError
from gpusched_env.portable import arrays
from gpusched_env.portable.elementary import exp

Values = Sequence[float] | np.ndarray
CONFIDENCE: Final = 0.95  # of all intervals
LEAST_SEEDS: Final = 3  # from which tables print an interval: with two, Student's quantile is 12.7
RESAMPLES: Final = 10_000  # of a bootstrap, always the same


@dataclass(frozen=True)
class Interval:
    """A mean and its confidence interval.

    Attributes
    ----------
    mean, low, high : mean and ends of the interval, in the unit of the values; the ends are NaN with fewer than two
        values
    count : number of values
    """

    mean: float
    low: float
    high: float
    count: int

    @property
    def half_width(self) -> float:
        """Half the width of the interval; NaN with fewer than two values."""
        return (self.high - self.low) / 2


def mean_interval(values: Values) -> Interval:
    """Return the mean and the two-sided Student t interval of independent values; NaN if a value is NaN."""
    sample = np.asarray(values, float)
    count = len(sample)
    mean = arrays.mean(sample)
    if count < 2:
        return Interval(mean, math.nan, math.nan, count)
    from scipy.special import stdtrit  # Student t quantile; scipy is slow to import

    quantile = float(stdtrit(count - 1, 0.5 + CONFIDENCE / 2))
    half = quantile * float(sample.std(ddof=1)) / math.sqrt(count)
    return Interval(mean, mean - half, mean + half, count)


def bootstrap_mean(values: Values) -> Interval:
    """Return the mean and the percentile-bootstrap interval of independent values of any distribution."""
    sample = np.asarray(values, float)
    if not len(sample):
        return Interval(math.nan, math.nan, math.nan, 0)
    return bootstrap_ratio(sample, np.ones(len(sample)))


def bootstrap_ratio(parts: Values, wholes: Values) -> Interval:
    """Return sum of ``parts`` / sum of ``wholes`` with its percentile-bootstrap interval; resamples draw pairs."""
    a, b = _paired(parts, wholes)
    if not len(b) or (b < 0).any() or not b.sum() > 0:
        raise GpuschedError("bootstrap_ratio: the wholes must be at least 0, and at least one of them above 0")
    count = len(b)
    mean = arrays.total(a) / arrays.total(b)
    if count < 2:
        return Interval(mean, math.nan, math.nan, count)
    drawn = np.random.default_rng(0).integers(count, size=(RESAMPLES, count))
    wholes_drawn = b[drawn].sum(axis=1)
    some = wholes_drawn > 0  # a resample whose wholes are all 0 has no ratio
    ratios = a[drawn].sum(axis=1)[some] / wholes_drawn[some]
    low, high = np.quantile(ratios, ((1.0 - CONFIDENCE) / 2, (1.0 + CONFIDENCE) / 2))
    return Interval(mean, float(low), float(high), count)


def paired_difference(values: Values, reference: Values) -> Interval:
    """Return the mean and the Student t interval of ``values - reference``; equal indices must be of equal seeds."""
    a, b = _paired(values, reference)
    return mean_interval(a - b)


def paired_ratio(values: Values, reference: Values) -> Interval:
    """Return the geometric mean of ``values / reference`` and its interval, the Student t interval of the logarithms.

    Equal indices must be of equal seeds.
    """
    a, b = _paired(values, reference)
    if not all(0 < value < math.inf for value in (*a, *b)):
        raise GpuschedError("paired_ratio: every value must be positive and finite")
    with np.errstate(over="ignore"):
        ratios = a / b
    usual = (ratios > 0) & np.isfinite(ratios)  # others overflow, the difference of their logarithms does not
    logs = mean_interval(np.where(usual, arrays.log(ratios), arrays.log(a) - arrays.log(b)))
    return Interval(exp(logs.mean), exp(logs.low), exp(logs.high), logs.count)


def _paired(values: Values, reference: Values) -> tuple[np.ndarray, np.ndarray]:
    a, b = np.asarray(values, float), np.asarray(reference, float)
    if a.shape != b.shape:
        raise GpuschedError(f"paired values: {len(a)} and {len(b)} of them; give both for the same seeds")
    return a, b
