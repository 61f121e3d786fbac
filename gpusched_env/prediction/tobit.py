"""A normal distribution of ln(run time), in which jobs that were killed are censored."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from gpusched_env.portable import arrays
from gpusched_env.portable.elementary import log
from gpusched_env.prediction.fitted import Fitted
from gpusched_env.prediction.known import Known
from gpusched_env.prediction.predictors import LEAST_S, Key, predictor

RIDGE: Final = 1e-3
MOST_JOBS: Final = 2_000  # ended jobs that count, the latest
PRIOR: Final = 3.0  # jobs for which the mean of the next wider key counts in that of a key
STEPS: Final = 50  # of Newton's method
HALVINGS: Final = 30  # of one step
ENOUGH: Final = 1e-9  # gain of ln(likelihood) per job below which the steps end
_ROOT_2PI: Final = 2.5066282746310002
_NEAR: Final = 2.5  # argument up to which the series of the normal distribution is used
_TERMS: Final = 60  # of the series, and of the continued fraction


@predictor("tobit")
class Tobit(Fitted):
    """A censored regression (J. Tobin, "Estimation of relationships for limited dependent variables", 1958).

    ln x = b'z + s e with normal e; z = 1, ln(limit / mean of all), 0 without limit, ln(gang), and for each key of
    ``quantile`` the mean of ln x, drawn to that of the next wider key, minus the latter. Of a job that was killed at
    its limit, x is known to be more. Jobs that still run do not count, because histories do not tell how long they have
    run; so the latest jobs that have ended are too short. The prediction is the median, exp(b'z).
    """

    EVERY = 100

    def __init__(self, known: Known) -> None:
        super().__init__(known)
        self._sums: dict[Key, tuple[int, float]] = {}  # of each key: number of jobs, and sum of ln x
        self._killed: list[bool] = []  # of the ended jobs
        self._weights: list[float] = []  # b

    def features(self, row: int) -> list[float]:
        """Return z."""
        means: list[float] = []
        for key in reversed(self.keys(row)):
            number, total = (0, 0.0) if key is None else self._sums.get(key, (0, 0.0))
            means.append((total + PRIOR * means[-1]) / (number + PRIOR) if means else total / max(number, 1))
        limit_s = float(self.known.limit_s[row])
        limit = 0.0 if math.isnan(limit_s) else log(max(limit_s, LEAST_S)) - means[0]
        return [1.0, limit, log(float(self.known.gpus[row])), *np.diff(means).tolist()]

    def end(self, row: int, run_time_s: float, killed: bool) -> None:
        """Add ln x to the sums of the job's keys."""
        self._killed.append(killed)
        for key in self.keys(row):
            if key is not None:
                number, total = self._sums.get(key, (0, 0.0))
                self._sums[key] = number + 1, total + log(max(run_time_s, LEAST_S))
        super().end(row, run_time_s, killed)

    def fit(self) -> bool:
        """Maximise the likelihood; it has no maximum if all jobs were killed."""
        if all(self._killed[-MOST_JOBS:]):
            return False
        z = np.array([self.seen[row] for row in self.rows[-MOST_JOBS:]])
        self._weights = censored_fit(z, np.array(self.logs[-MOST_JOBS:]), np.array(self._killed[-MOST_JOBS:]))
        return True

    def model(self, features: list[float]) -> float:
        """Return b'z."""
        total = 0.0
        for weight, value in zip(self._weights, features, strict=True):
            total += weight * value
        return total


def censored_fit(z: np.ndarray, logs: np.ndarray, censored: np.ndarray) -> list[float]:
    """Return b of the greatest penalised likelihood, by Newton's method on b / s and 1 / s, in which it is concave.

    See R. J. Olsen, "Note on the uniqueness of the maximum likelihood estimator for the Tobit model", 1978. The penalty
    is RIDGE |b / s|^2 / 2.

    Parameters
    ----------
    z : float64 [N, K]
    logs : float64 [N], ln x, or of a censored job the logarithm of what x is known to exceed
    censored : bool [N]
    """
    u = np.column_stack([z, -logs])
    ridge = np.append(np.full(z.shape[1], RIDGE), 0.0)
    scale, free = 1.0 - np.sign(ridge), float((~censored).sum())  # 1 for 1 / s, 0 for b / s

    def likelihood(at: np.ndarray) -> float:
        if not at[-1] > 0.0:
            return math.nan
        q = _sum(u * at, 1)
        told = np.where(censored, _normal(q)[0], log(float(at[-1])) - q * q / 2.0)
        return float(_sum(told, 0) - _sum(ridge * at * at, 0) / 2.0)

    at, value = scale, -math.inf
    for _ in range(STEPS):
        q = _sum(u * at, 1)
        mills = _normal(q)[1]
        gradient = _sum(np.where(censored, mills, -q)[:, None] * u, 0) + free / at[-1] * scale - ridge * at
        bent = np.where(censored, mills * (mills + q), 1.0)[:, None] * u
        bend = np.array([_sum(bent * u[:, [k]], 0) for k in range(len(at))])
        step = _solved(bend + np.diag(ridge + free / (at[-1] * at[-1]) * scale), gradient)
        before, value = max(value, likelihood(at)), math.nan
        for _ in range(HALVINGS):
            if (value := likelihood(at + step)) >= before:
                at = at + step
                break
            step = step / 2.0
        if not value - before > ENOUGH * len(u):
            break
    return (at[:-1] / at[-1]).tolist()


def _sum(values: np.ndarray, axis: int) -> np.ndarray:
    """Add in the order of the values, so that every machine has the same bits."""
    return np.take(np.cumsum(values, axis=axis), -1, axis=axis)


def _solved(matrix: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Solve a positive definite system by elimination."""
    table = np.column_stack([matrix, right])
    for k in range(len(right)):
        table[k] /= table[k, k]
        others = np.arange(len(right)) != k
        table[others] -= table[others][:, [k]] * table[k]
    return table[:, -1]


def _normal(q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return ln of the distribution function of the normal distribution, and its density / distribution function."""
    density = arrays.exp(-q * q / 2.0) / _ROOT_2PI
    near, far = np.clip(q, -_NEAR, _NEAR), np.maximum(np.abs(q), _NEAR)
    term = total = near
    ratio = far
    for k in range(1, _TERMS):
        term = term * near * near / (2.0 * k + 1.0)
        total = total + term
        ratio = far + (_TERMS - k) / ratio  # the continued fraction, from its end: density / tail
    low = q < -_NEAR
    below = np.where(q > _NEAR, 1.0 - density / ratio, 0.5 + density * total)
    log_below = arrays.log(np.where(low, 1.0 / (ratio * _ROOT_2PI), below)) - np.where(low, q * q / 2.0, 0.0)
    return log_below, np.where(low, ratio, density / np.where(low, 1.0, below))
