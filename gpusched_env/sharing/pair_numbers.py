"""Slowdowns of pairs from two numbers per model: how sensitive it is to others, and how aggressive towards them.

Model i runs beside model j at 1 / (1 + c_i d_j) of its rate alone; c = sensitivity, d = aggressiveness. Two gangs that
send over one link for shares c and d of their times, or two jobs that compute on one GPU for such shares, delay each
other by c d. Exponents of the gang size did not help on the pairs that were measured.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

import numpy as np

from gpusched_env.errors import ScenarioError
from gpusched_env.portable.arrays import total
from gpusched_env.sharing.csv_pairs import Row, number_of, text_of

NUMBERS: Final = ("model", "sensitivity", "aggressiveness")
FLEET: Final = "*"  # its numbers hold for all models that are not listed
LEAST: Final = 0.01  # lower rates count as this one in a fit
ROUNDS: Final = 40  # sweeps of coordinate descent
TOLERATED: Final = 0.1  # errors of c d above it count linearly, smaller ones by their squares
PRIOR: Final = 0.3  # weight of the prior, in measurements


class PairRate(NamedTuple):
    """Rate of a model beside another model / its rate alone."""

    model: str
    other: str
    rate: float


class PairNumbers(NamedTuple):
    """Numbers of models, at least 0."""

    sensitivity: dict[str, float]
    aggressiveness: dict[str, float]

    def rate(self, model: str, other: str) -> float:
        """Return the rate of ``model`` beside ``other`` / its rate alone, in (0, 1]."""
        excess = 1.0
        for name, numbers in ((model, self.sensitivity), (other, self.aggressiveness)):
            if name not in numbers and FLEET not in numbers:
                raise ScenarioError(f"{name!r} has no sensitivity and aggressiveness: add them, or those of {FLEET!r}")
            excess *= numbers[name if name in numbers else FLEET]
        return 1.0 / (1.0 + excess)

    def rates(self) -> dict[tuple[str, str], float]:
        """Return the rate of each listed model beside each listed model."""
        return {(a, b): self.rate(a, b) for a in self.sensitivity for b in self.aggressiveness}

    def add(self, row: Row, place: str) -> None:
        """Add a row of a CSV file with the columns NUMBERS."""
        name = text_of(row, "model", place)
        if name in self.sensitivity:
            raise ScenarioError(f"{place}: the model {name!r} is given already: keep one of its lines")
        for numbers, column in zip(self, NUMBERS[1:], strict=False):
            numbers[name] = number_of(row, column, place, most=1e6, wanted="a number from 0 to 1e6")


def fit_pairs(measured: Iterable[PairRate]) -> PairNumbers:
    """Fit numbers to measured pairs: robust least squares of 1 / rate - 1, by coordinate descent.

    A number is that of FLEET times a factor, which a prior draws towards 1. Rates above 1 count as 1. Numbers have four
    significant digits.
    """
    rows = list(measured)
    for row in rows:
        if FLEET in row[:2] or not 0.0 < row.rate < math.inf:
            raise ScenarioError(f"{row}: give two models and a finite rate above 0")
    if not rows:
        raise ScenarioError("no measured pair to fit: give one or more")
    z = 1.0 / np.clip([row.rate for row in rows], LEAST, 1.0) - 1.0
    names = [np.unique(side, return_inverse=True) for side in ([row[k] for row in rows] for k in (0, 1))]
    fleet, factors = _descend(z, [of for _, of in names])
    numbers = []
    for (listed, _), factor in zip(names, factors, strict=True):
        own = math.sqrt(fleet) * np.append(factor, 1.0)
        numbers.append(dict(zip([*listed.tolist(), FLEET], map(_rounded, own.tolist()), strict=True)))
    return PairNumbers(*numbers)


def _descend(z: np.ndarray, of: Sequence[np.ndarray]) -> tuple[float, list[np.ndarray]]:
    """Return c d of the fleet, and for the model and the other the factor of each model."""
    fleet, factors = 1.0, [np.ones(int(side.max()) + 1) for side in of]
    for _ in range(ROUNDS):
        p = factors[0][of[0]] * factors[1][of[1]]
        off = (fleet * p - z) / TOLERATED
        weight = 1.0 / np.sqrt(1.0 + off * off)
        fleet = total(weight * p * z) / total(weight * p * p)
        for k in (0, 1):
            p = fleet * factors[1 - k][of[1 - k]]
            prior = PRIOR * total(weight * p * p) / len(z) + 1e-12
            factors[k] = (np.bincount(of[k], weight * p * z) + prior) / (np.bincount(of[k], weight * p * p) + prior)
    return fleet, factors


def _rounded(value: float) -> float:
    return float(f"{value:.4g}")


def predicted(path: str, measured: list[PairRate], lacking: list[tuple[str, str]]) -> dict[tuple[str, str], float]:
    """Return the rates of pairs that a table lacks, by a fit to those that it has, and warn that they are predicted."""
    numbers = fit_pairs(measured)
    shown = ", ".join(f"{a} beside {b}" for a, b in lacking[:3]) + ", ..." * (len(lacking) > 3)
    warnings.warn(f"{path}: {len(lacking)} pairs are predicted by two numbers per model: {shown}", stacklevel=2)
    return {(a, b): numbers.rate(a, b) for a, b in lacking}
