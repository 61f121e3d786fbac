"""Forecasts of starts from sampled futures: probabilities, intervals, and their calibration.

Times to the start are compared on a logarithmic scale, log(time + 1 min). The sampled starts of a job are stretched
around their median on this scale: by one factor above and by another below it. The factors are those with which, in
past forecasts, a tenth of the true starts lay above the interval and a tenth below it (split conformal prediction with
the score of Romano, Patterson and Candes, "Conformalized quantile regression", NeurIPS 2019, eq. 8, normalised by the
half-widths).
"""

from __future__ import annotations

import dataclasses
import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from gpusched_env.errors import ScenarioError
from gpusched_env.files import write_whole
from gpusched_env.portable import arrays
from gpusched_env.twin.files import read_json

Array = np.ndarray
LOW, HIGH = 0.1, 0.9  # ends of the interval
SOON_S: Final = 60.0  # [s] times to the start are not resolved below this
LEAST_WIDTH: Final = 0.05  # half-width of an interval on the logarithmic scale
LATEST_S: Final = 1e9  # [s] replaces the start of a job that does not start within the horizon
HOURS: Final = (1, 4, 24)  # for which the probability to start is told


@dataclass(frozen=True)
class Calibration:
    """How much wider intervals must be than the sampled ones.

    Parameters
    ----------
    above, below : factors of the half-widths above and below the median; 1 = as sampled
    jobs : number of past forecasts from which the factors were found
    """

    above: float = 1.0
    below: float = 1.0
    jobs: int = 0

    def __post_init__(self) -> None:
        """Check the factors.

        Raises
        ------
        ScenarioError : a factor that is negative or not finite
        """
        for name in ("above", "below"):
            if not 0.0 <= getattr(self, name) < math.inf:
                raise ScenarioError(f"calibration.{name} is {getattr(self, name)}: give a finite number >= 0")


@dataclass(frozen=True)
class Quantiles:
    """Sampled starts on the logarithmic scale.

    Parameters
    ----------
    sorted : float64 [futures, J], ascending in each column
    """

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

    def interval(self, calibration: Calibration) -> tuple[Array, Array, Array]:
        """Return the lower end, median and upper end of the 80 % interval; float64 [J] each [s], inf = never."""
        low = self.median - calibration.below * self.below
        high = self.median + calibration.above * self.above
        return seconds(low), seconds(self.median), seconds(high)

    def probability(self, within_s: float, calibration: Calibration) -> Array:
        """float64 [J]: probability to start within this time [s]."""
        goal, middle = scaled(np.array([within_s]))[0], self.median
        factor = np.where(goal >= middle, calibration.above, calibration.below)
        # Stretching the samples by a factor is the same as shrinking the distance of the goal from the median.
        goals = middle + (goal - middle) / np.maximum(factor, 1e-9)
        found: Array = (self.sorted <= goals).mean(axis=0)
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


def scores(quantiles: Quantiles, truth_s: Array) -> tuple[Array, Array]:
    """Return how far the true starts lie above and below the medians, in half-widths; float64 [J] each."""
    true = scaled(truth_s)
    return (true - quantiles.median) / quantiles.above, (quantiles.median - true) / quantiles.below


def calibrated(above: Array, below: Array) -> Calibration:
    """Return the least factors with which a tenth of the true starts lies outside on each side.

    Of n scores, the factor is that of rank 0.9 (n + 1), as in split conformal prediction.

    Parameters
    ----------
    above, below : float64 [n], scores of past forecasts; none = the intervals stay as sampled
    """
    if not len(above):
        return Calibration()
    rank = min(math.ceil(HIGH * (len(above) + 1)) - 1, len(above) - 1)
    high, low = (max(float(np.sort(values)[rank]), 0.0) for values in (above, below))
    return Calibration(high, low, len(above))


def covered(above: Array, below: Array, calibration: Calibration) -> Array:
    """Bool [n]: whether each true start lies in its interval."""
    slack = 1e-9
    inside: Array = (above <= calibration.above + slack) & (below <= calibration.below + slack)
    return inside


def read_calibration(path: str | Path) -> Calibration:
    """Read a file of ``gpusched twin calibration``.

    Raises
    ------
    ScenarioError : a file that cannot be read, or a wrong field
    """
    from gpusched_env.scenarios.convert import build

    data = read_json(path, "calibration", "write one with gpusched twin calibration")
    found = build(Calibration, data, str(path))
    assert isinstance(found, Calibration)
    return found


def write_calibration(calibration: Calibration, path: str | Path) -> None:
    """Write the factors as JSON, atomically.

    Raises
    ------
    GpuschedError : the file cannot be written
    """
    write_whole(Path(path), json.dumps(dataclasses.asdict(calibration), indent=2) + "\n")
