"""Means and intervals over seeds. Schedulers play the same seeds, so comparisons are paired."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gpusched_env.errors import GpuschedError
from gpusched_env.portable import arrays
from gpusched_env.portable.elementary import exp

Values = Sequence[float] | np.ndarray


@dataclass(frozen=True)
class Interval:
    """A mean and its confidence interval.

    Attributes
    ----------
    mean, low, high : in the unit of the values; low and high are NaN with fewer than two values
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


def mean_interval(values: Values, confidence: float = 0.95) -> Interval:
    """Mean and two-sided Student t interval of independent values; if a value is NaN, mean, low and high are NaN."""
    sample = np.asarray(values, float)
    count = len(sample)
    mean = arrays.mean(sample)
    if count < 2:
        return Interval(mean, math.nan, math.nan, count)
    from scipy.special import stdtrit  # Student t quantile; scipy is slow to import

    quantile = float(stdtrit(count - 1, 0.5 + confidence / 2))
    half = quantile * float(sample.std(ddof=1)) / math.sqrt(count)
    return Interval(mean, mean - half, mean + half, count)


def bootstrap_mean(values: Values, confidence: float = 0.95, draws: int = 10_000, seed: int = 0) -> Interval:
    """Mean and percentile-bootstrap interval of independent values, of any distribution.

    Parameters
    ----------
    draws, seed : resamples, and the seed of the generator that draws them
    """
    sample = np.asarray(values, float)
    count = len(sample)
    mean = arrays.mean(sample)
    if count < 2:
        return Interval(mean, math.nan, math.nan, count)
    means = sample[np.random.default_rng(seed).integers(count, size=(draws, count))].mean(axis=1)
    low, high = np.quantile(means, ((1.0 - confidence) / 2, (1.0 + confidence) / 2))
    return Interval(mean, float(low), float(high), count)


def bootstrap_ratio(
    parts: Values, wholes: Values, confidence: float = 0.95, draws: int = 10_000, seed: int = 0
) -> Interval:
    """Sum of ``parts`` / sum of ``wholes`` with percentile-bootstrap interval; resamples draw (part, whole) pairs.

    Parameters
    ----------
    draws, seed : resamples, and the seed of the generator that draws them

    Raises
    ------
    GpuschedError : different lengths, a whole below 0, or no whole above 0
    """
    a, b = _paired(parts, wholes)
    if not len(b) or (b < 0).any() or not b.sum() > 0:
        raise GpuschedError("bootstrap_ratio: the wholes must be at least 0, and at least one of them above 0")
    count = len(b)
    mean = arrays.total(a) / arrays.total(b)
    if count < 2:
        return Interval(mean, math.nan, math.nan, count)
    drawn = np.random.default_rng(seed).integers(count, size=(draws, count))
    wholes_drawn = b[drawn].sum(axis=1)
    some = wholes_drawn > 0  # a resample of only zeros has no ratio
    ratios = a[drawn].sum(axis=1)[some] / wholes_drawn[some]
    low, high = np.quantile(ratios, ((1.0 - confidence) / 2, (1.0 + confidence) / 2))
    return Interval(mean, float(low), float(high), count)


def paired_difference(values: Values, reference: Values, confidence: float = 0.95) -> Interval:
    """Mean and Student t interval of ``values - reference``, paired by seed.

    Raises
    ------
    GpuschedError : the two have different lengths
    """
    a, b = _paired(values, reference)
    return mean_interval(a - b, confidence)


def paired_ratio(values: Values, reference: Values, confidence: float = 0.95) -> Interval:
    """Geometric mean and interval of ``values / reference``, paired by seed: Student t on logarithms.

    Raises
    ------
    GpuschedError : the two have different lengths, or one is not positive
    """
    a, b = _paired(values, reference)
    if (a <= 0).any() or (b <= 0).any():
        raise GpuschedError("paired_ratio: every value must be positive")
    logs = mean_interval(arrays.log(a / b), confidence)
    return Interval(exp(logs.mean), exp(logs.low), exp(logs.high), logs.count)


def _paired(values: Values, reference: Values) -> tuple[np.ndarray, np.ndarray]:
    a, b = np.asarray(values, float), np.asarray(reference, float)
    if a.shape != b.shape:
        raise GpuschedError(f"paired values: {len(a)} and {len(b)} of them; give both for the same seeds")
    return a, b
