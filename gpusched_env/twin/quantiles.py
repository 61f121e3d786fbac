"""Forecasts of starts from sampled futures: probabilities and intervals.

Times to the start are compared on a logarithmic scale, log(time + 1 min).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from gpusched_env.portable import arrays

Array = np.ndarray
LOW, HIGH = 0.1, 0.9  # ends of the interval
SOON_S: Final = 60.0  # [s] times to the start are not resolved below this
LEAST_WIDTH: Final = 0.05  # half-width of an interval on the logarithmic scale
LATEST_S: Final = 1e9  # [s] replaces the start of a job that does not start within the horizon
HOURS: Final = (1, 4, 24)  # for which the probability to start is told


@dataclass(frozen=True)
class Quantiles:
    """Sampled starts on the logarithmic scale, float64 [futures, J], ascending in each column."""

    sorted: Array

    @classmethod
    def of(cls, starts: Array) -> Quantiles:
        """Return those of starts; float64 [futures, J], time to the start [s], inf = never."""
        return cls(np.sort(scaled(starts), axis=0))

    def at(self, part: float) -> Array:
        """float64 [J]: quantile, the value of which this part of the futures is at most."""
        rank = min(max(math.ceil(part * len(self.sorted)) - 1, 0), len(self.sorted) - 1)
        found: Array = self.sorted[rank]
        return found

    @property
    def median(self) -> Array:
        """float64 [J]: median."""
        return self.at(0.5)

    @property
    def above(self) -> Array:
        """float64 [J]: half-width above the median."""
        return np.maximum(self.at(HIGH) - self.median, LEAST_WIDTH)

    @property
    def below(self) -> Array:
        """float64 [J]: half-width below the median."""
        return np.maximum(self.median - self.at(LOW), LEAST_WIDTH)

    @property
    def interval(self) -> tuple[Array, Array, Array]:
        """The lower end, median and upper end of the 80 % interval; float64 [J] each [s], inf = never."""
        low_s = np.where(np.isinf(seconds(self.at(LOW))), math.inf, seconds(self.median - self.below))
        return low_s, seconds(self.median), seconds(self.median + self.above)

    def contain(self, truth_s: Array) -> Array:
        """Bool [J]: whether the true starts [s] lie in the 80 % intervals."""
        away, slack = scaled(truth_s) - self.median, 1.0 + 1e-9
        inside: Array = (away <= slack * self.above) & (-away <= slack * self.below)
        return inside

    def probability(self, within_s: float) -> Array:
        """float64 [J]: probability to start within this time [s]."""
        found: Array = (self.sorted <= scaled(np.array([within_s]))).mean(axis=0)
        return found


def scaled(times_s: Array) -> Array:
    """float64: log(time + 1 min)."""
    found: Array = arrays.log(np.minimum(np.maximum(times_s, 0.0), LATEST_S) + SOON_S)
    return found


def seconds(values: Array) -> Array:
    """float64 [s]: times of values on the logarithmic scale; inf = never."""
    late = scaled(np.array([LATEST_S]))[0]
    times = np.maximum(arrays.exp(np.minimum(values, late)) - SOON_S, 0.0)
    return np.where(values >= late - 1e-9, math.inf, times)
