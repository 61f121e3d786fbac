"""Slowdowns of pairs from two numbers per model: how sensitive it is to others, and how aggressive towards them.

A model i runs beside a model j at r = 1 / (1 + c_i d_j) of its rate alone: c = sensitivity, d = aggressiveness. Both
may grow with the gang's size: c_i g^a d_j h^b for gangs of g and h GPUs. If the two share a link, and each sends for a
share of its time, c and d are these shares; for a GPU they are shares of its use.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from gpusched_env.errors import ScenarioError
from gpusched_env.portable.arrays import exp, log, total
from gpusched_env.portable.elementary import power
from gpusched_env.sharing.csv_pairs import Row, number_of, text_of

NUMBERS: Final = ("model", "sensitivity", "aggressiveness")
FLEET: Final = "*"  # the model whose numbers hold for all models that are not listed
LEAST: Final = 0.01  # lower rates count as this one in a fit
ROUNDS: Final = 40  # sweeps of coordinate descent
TOLERATED: Final = 0.1  # deviation of a slowdown from which on it counts linearly, not by its square
PRIOR: Final = 0.3  # measurements that the fleet's numbers weigh in those of each model
STEEPEST: Final = 1.0  # largest exponent of the gang size


@dataclass(frozen=True)
class PairNumbers:
    """Two numbers per model, with the exponents of the two gang sizes.

    Parameters
    ----------
    sensitivity, aggressiveness : name of a model -> its number, at least 0, for gangs of one GPU; FLEET = all others
    exponents : powers by which the two numbers grow with the gang size
    """

    sensitivity: dict[str, float]
    aggressiveness: dict[str, float]
    exponents: tuple[float, float] = (0.0, 0.0)

    def rate(self, model: str, other: str, gpus: int = 1, other_gpus: int = 1) -> float:
        """Return the rate of ``model`` beside ``other`` / its rate alone, in (0, 1].

        Raises
        ------
        ScenarioError : a model has no numbers, and the fleet has none either
        """
        excess = power(gpus, self.exponents[0]) * power(other_gpus, self.exponents[1])
        for name, numbers in ((model, self.sensitivity), (other, self.aggressiveness)):
            if name not in numbers and FLEET not in numbers:
                raise ScenarioError(f"no sensitivity and aggressiveness of {name!r}: measure a pair with it, or add it")
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
        for numbers, column in ((self.sensitivity, "sensitivity"), (self.aggressiveness, "aggressiveness")):
            numbers[name] = number_of(row, column, place, most=1e6, wanted="a number from 0 to 1e6")


def fit_pairs(measured: Iterable[tuple[str, str, float]], gpus: Sequence[tuple[int, int]] | None = None) -> PairNumbers:
    """Fit two numbers per model to measured pairs: robust least squares of 1 / r - 1, by coordinate descent.

    Each number is the fleet's times a factor, which is drawn towards 1 with the weight of PRIOR measurements. Numbers
    have four significant digits.

    Parameters
    ----------
    measured : triples (model, other, rate of the model beside the other / its rate alone); rates above 1 count as 1
    gpus : gang sizes of the model and of the other for each triple; without them, sizes have no effect

    Raises
    ------
    ScenarioError : no triple, or a rate that is no number above 0
    """
    rows = list(measured)
    if bad := [row for row in rows if not row[2] > 0.0]:
        raise ScenarioError(f"rate of {bad[0][0]!r} beside {bad[0][1]!r} is {bad[0][2]!r}: give a number above 0")
    if not rows:
        raise ScenarioError("no measured pair to fit: give one rate or more")
    z = 1.0 / np.clip([rate for *_, rate in rows], LEAST, 1.0) - 1.0
    names = [sorted({row[side] for row in rows}) for side in (0, 1)]
    of = [np.array([names[side].index(row[side]) for row in rows]) for side in (0, 1)]
    logs = log(np.ones((len(rows), 2)) if gpus is None else np.asarray(gpus, float)).T
    middle = [total(side) / len(rows) for side in logs]
    fleet, factors, exponents = _descend(z, of, [side - at for side, at in zip(logs, middle, strict=True)])
    numbers: list[dict[str, float]] = []
    for listed, factor, exponent, at in zip(names, factors, exponents, middle, strict=True):
        base = math.sqrt(fleet) * float(exp(-exponent * at))
        numbers.append({FLEET: _round(base)} | dict(zip(listed, map(_round, (base * factor).tolist()), strict=True)))
    return PairNumbers(*numbers, (_round(exponents[0]), _round(exponents[1])))


def _descend(
    z: np.ndarray, of: Sequence[np.ndarray], logs: Sequence[np.ndarray]
) -> tuple[float, list[np.ndarray], list[float]]:
    """Return the fleet's c d, the factors of each model on both sides, and the exponents of both gang sizes."""
    fleet = 1.0
    factors, exponents = [np.ones(int(side.max()) + 1) for side in of], [0.0, 0.0]
    for _ in range(ROUNDS):
        grown = exp(exponents[0] * logs[0] + exponents[1] * logs[1])
        p = grown * factors[0][of[0]] * factors[1][of[1]]
        off = (fleet * p - z) / TOLERATED
        weight = 1.0 / np.sqrt(1.0 + off * off)
        fleet = total(weight * p * z) / total(weight * p * p)
        for k in (0, 1):
            p = fleet * grown * factors[1 - k][of[1 - k]]
            prior = PRIOR * (total(weight * p * p) / len(z)) + 1e-12
            above, below = (np.bincount(of[k], weight * p * x) + prior for x in (z, p))
            factors[k] = above / below
        p = fleet * grown * factors[0][of[0]] * factors[1][of[1]]
        for k in (0, 1):
            slope = weight * p * logs[k]
            prior = total(weight * p * p) / len(z) + 1e-12
            step = (total(slope * (z - p)) - prior * exponents[k]) / (total(slope * p * logs[k]) + prior)
            exponents[k] = min(max(exponents[k] + 0.5 * step, -STEEPEST), STEEPEST)
    return fleet, factors, exponents


def _round(value: float) -> float:
    return float(f"{value:.4g}")


def warn_predicted(path: str, pairs: Sequence[tuple[str, str]]) -> None:
    """Warn that pairs are predictions, not measurements."""
    shown = ", ".join(f"{a} beside {b}" for a, b in pairs[:3]) + (", ..." if len(pairs) > 3 else "")
    warnings.warn(f"{path}: {len(pairs)} pairs are predictions from two numbers per model: {shown}", stacklevel=3)
