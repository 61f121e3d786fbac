"""Means and intervals over seeds. Schedulers play the same seeds, so comparisons are paired."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gpusched_env.errors import GpuschedError

Values = Sequence[float] | np.ndarray


@dataclass(frozen=True)
class Interval:
    """A mean and the interval that holds the true one with the given confidence.

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
    """Mean and two-sided Student t interval of independent values; NaN among them makes all NaN."""
    sample = np.asarray(values, float)
    count = len(sample)
    mean = float(sample.mean()) if count else math.nan
    if count < 2:
        return Interval(mean, math.nan, math.nan, count)
    from scipy.special import stdtrit  # Student t quantile; scipy is slow to import

    quantile = float(stdtrit(count - 1, 0.5 + confidence / 2))
    half = quantile * float(sample.std(ddof=1)) / math.sqrt(count)
    return Interval(mean, mean - half, mean + half, count)


def bootstrap_mean(values: Values, confidence: float = 0.95, draws: int = 10_000, seed: int = 0) -> Interval:
    """Mean and percentile-bootstrap interval of independent values: no distribution is assumed.

    Parameters
    ----------
    draws, seed : resamples, and the seed of the generator that draws them
    """
    sample = np.asarray(values, float)
    count = len(sample)
    mean = float(sample.mean()) if count else math.nan
    if count < 2:
        return Interval(mean, math.nan, math.nan, count)
    means = sample[np.random.default_rng(seed).integers(count, size=(draws, count))].mean(axis=1)
    low, high = np.quantile(means, ((1.0 - confidence) / 2, (1.0 + confidence) / 2))
    return Interval(mean, float(low), float(high), count)


def paired_difference(values: Values, reference: Values, confidence: float = 0.95) -> Interval:
    """Mean and interval of ``values - reference``, seed by seed.

    Raises
    ------
    GpuschedError : the two have different lengths
    """
    a, b = _paired(values, reference)
    return mean_interval(a - b, confidence)


def paired_ratio(values: Values, reference: Values, confidence: float = 0.95) -> Interval:
    """Geometric mean and interval of ``values / reference``, seed by seed; the interval is taken on logarithms.

    Raises
    ------
    GpuschedError : the two have different lengths, or one is not positive
    """
    a, b = _paired(values, reference)
    if (a <= 0).any() or (b <= 0).any():
        raise GpuschedError("paired_ratio: every value must be positive")
    logs = mean_interval(np.log(a / b), confidence)
    return Interval(math.exp(logs.mean), math.exp(logs.low), math.exp(logs.high), logs.count)


def _paired(values: Values, reference: Values) -> tuple[np.ndarray, np.ndarray]:
    a, b = np.asarray(values, float), np.asarray(reference, float)
    if a.shape != b.shape:
        raise GpuschedError(f"paired values: {len(a)} and {len(b)} of them; give both for the same seeds")
    return a, b
