"""Predictors that fit a model to the ended jobs, again and again; the first of them boosts trees."""

from __future__ import annotations

import math
from abc import abstractmethod
from functools import cache
from typing import Any, Final

import numpy as np

from gpusched_env.errors import SchedulerError
from gpusched_env.portable.elementary import exp, log
from gpusched_env.prediction.known import UNKNOWN, Known
from gpusched_env.prediction.predictors import LEAST_S, Quantile, predictor

HOUR_S: Final = 3600.0
MOST_S: Final = 1e9  # [s] largest prediction of a model


class Fitted(Quantile):
    """Base class: a model of ln(run time) over features that were known when each job was submitted.

    It is fitted when EVERY jobs have ended, and again when as many, or a tenth more, have ended since. Until then, jobs
    are predicted as by ``quantile``.
    """

    EVERY: int = 500

    def __init__(self, known: Known) -> None:
        super().__init__(known)
        self.rows: list[int] = []  # that have ended, in this order
        self.logs: list[float] = []  # of their run times
        self.seen: dict[int, list[float]] = {}  # row -> features
        self.fitted = False
        self._next = self.EVERY

    @abstractmethod
    def features(self, row: int) -> list[float]:
        """Return the features of a job that is submitted now."""

    @abstractmethod
    def fit(self) -> bool:
        """Fit the model to the jobs ``rows``; return False if they do not tell enough, and another time may."""

    @abstractmethod
    def model(self, features: list[float]) -> float:
        """Return the model's ln(run time)."""

    def predict(self, row: int) -> float:
        """Return the prediction [s]; NaN = too few jobs have ended."""
        self.seen[row] = self.features(row)
        if not self.fitted:
            return super().predict(row)
        return min(max(exp(self.model(self.seen[row])), LEAST_S), MOST_S)

    def end(self, row: int, run_time_s: float, killed: bool) -> None:
        """Take up the run time, and fit the model if it is time."""
        super().end(row, run_time_s, killed)
        self.rows.append(row)
        self.logs.append(log(max(run_time_s, LEAST_S)))
        if len(self.rows) >= self._next:
            self._next = len(self.rows) + max(self.EVERY, len(self.rows) // 10)
            self.fitted = self.fit() or self.fitted


@cache
def _threads() -> Any:
    """Return the threads of libraries; with several, OpenMP takes longer for one job than for its trees."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


@predictor("gbdt")
class Boosted(Fitted):
    """Boosted trees over all columns, the hour and the statistics of ``quantile`` (scikit-learn's histogram boosting).

    Codes of texts are numbers in the order of their first jobs. scikit-learn does not give the same bits on every
    machine or in every version, so ln(run time) is rounded to two decimals; where it is halfway between two, or two
    splits gain the same but for rounding, machines may still differ.
    """

    def __init__(self, known: Known) -> None:
        super().__init__(known)
        try:
            from sklearn.ensemble import HistGradientBoostingRegressor
        except ImportError as error:
            raise SchedulerError("gbdt and qssf need scikit-learn: pip install 'gpusched-env[predict]'") from error
        self._new: Any = HistGradientBoostingRegressor
        self._trees: Any = None

    def features(self, row: int) -> list[float]:
        """Return codes, gang, limit, hour, weekday, and the median of each key; -1 = unknown."""
        k = self.known
        told = [float(column[row]) for column in (k.user, k.account, k.name, k.queue, k.gpus, k.limit_s)]
        told += [*self.when(row), *self.statistics(row)]
        return [float(UNKNOWN) if math.isnan(value) else value for value in told]

    def when(self, row: int) -> tuple[float, float]:
        """Return the hour of the day and the day of the week of the submission, counted from time 0."""
        hours = float(self.known.arrival_s[row]) // HOUR_S
        return hours % 24.0, hours // 24.0 % 7.0

    def fit(self) -> bool:
        """Boost 100 trees."""
        table = np.array([self.seen[row] for row in self.rows])
        with _threads().limit(limits=1):
            self._trees = self._new(early_stopping=False, random_state=0).fit(table, np.array(self.logs))
        return True

    def model(self, features: list[float]) -> float:
        """Return ln(run time), rounded."""
        with _threads().limit(limits=1):
            return round(float(self._trees.predict(np.array([features]))[0]), 2)
