"""Predictors: a number of seconds for each job at its submission, from the run times of the jobs that have ended.

A predictor sees the columns of :class:`Known` and hears of each end; it never sees a run time of a job that has not
ended. Users register their own by :func:`predictor`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from gpusched_env.errors import SchedulerError, unknown_name
from gpusched_env.portable.elementary import exp, log
from gpusched_env.prediction.known import UNKNOWN, Known
from gpusched_env.prediction.levels import LEVELS
from gpusched_env.support.plugins import load_plugins

PREDICTORS: Final[dict[str, type[Predictor]]] = {}
"""Name -> class of every predictor."""
LEAST_S: Final = 1e-3  # [s] shorter run times count as so long where logarithms are taken
TAKEN: Final = ("user", "noisy", "oracle")  # estimators of other kinds
Key = tuple[Any, ...]


class Predictor(ABC):
    """Predicts run times. A run has a predictor of its own.

    One that predicts distributions keeps them itself: it overrides :meth:`most_classes` and :meth:`renew`, writes
    ``shares`` in place, and ``class_of`` and ``renewed`` when it predicts. Of another, distributions are those of jobs
    with similar predictions.

    Attributes
    ----------
    prior : float64 [LEVELS], distribution of run times before the first end
    shares : float64 [C, LEVELS], above 0 once renewed, distribution of each class; 0 = all jobs. Empty = it has none
    class_of : int32 [J]
    renewed : classes whose distributions the last prediction has changed
    """

    prior: np.ndarray = np.full(LEVELS, 1.0 / LEVELS)
    shares: np.ndarray = np.empty((0, LEVELS))
    class_of: np.ndarray = np.empty(0, np.int32)
    renewed: Sequence[int] = ()

    def __init__(self, known: Known) -> None:
        self.known = known

    @classmethod
    def most_classes(cls, jobs: int) -> int:
        """Return the rows of ``shares`` for so many jobs; 0 = it predicts no distributions."""
        return 0

    @abstractmethod
    def predict(self, row: int) -> float:
        """Return the prediction for a job that is submitted now [s]; NaN = none."""

    @abstractmethod
    def end(self, row: int, run_time_s: float, killed: bool) -> None:
        """Learn that a job has ended after ``run_time_s`` [s] of progress; ``killed`` = at its limit."""

    def renew(self) -> None:
        """Bring all distributions up to date, and list them in ``renewed``; nothing if it has none."""
        return


def find_predictor(name: str) -> type[Predictor]:
    """Return the predictor of a name.

    Raises
    ------
    SchedulerError : there is none
    """
    load_plugins()
    if name not in PREDICTORS:
        raise SchedulerError(unknown_name("predictor", name, PREDICTORS))
    return PREDICTORS[name]


def predictor(name: str) -> Callable[[type[Predictor]], type[Predictor]]:
    """Register a predictor under a name, by which ``estimator=`` and ``gpusched predict`` know it.

    Raises
    ------
    SchedulerError : the name is in use
    """

    def register(found: type[Predictor]) -> type[Predictor]:
        if name in PREDICTORS or name in TAKEN:
            raise SchedulerError(f"predictor {name!r} exists already; choose another name")
        PREDICTORS[name] = found
        return found

    return register


@predictor("none")
class NoPredictor(Predictor):
    """Predicts nothing: all jobs are of one class, that of all jobs that have ended."""

    def predict(self, row: int) -> float:
        """Return NaN."""
        return math.nan

    def end(self, row: int, run_time_s: float, killed: bool) -> None:
        """Learn nothing."""


@predictor("limit")
class Limit(NoPredictor):
    """The run time that the user requests."""

    def predict(self, row: int) -> float:
        """Return the limit of a job [s]; NaN = it has none."""
        return float(self.known.limit_s[row])


class ByKeys(Predictor):
    """Base class: a statistic of the last run times of jobs with equal keys.

    The keys are (user, name, gang), (user, gang), (user), (queue, gang), (gang), and none: the first with at least
    LEAST entries counts. A job that does not tell its user, name or queue has no such key.
    """

    LEAST: int = 3

    def __init__(self, known: Known) -> None:
        super().__init__(known)
        self.ended: dict[Key, int] = {}  # entries of each key

    def keys(self, row: int) -> list[Key | None]:
        """Return the keys of a job, the narrowest first; None = the job does not tell it."""
        k = self.known
        user, name, queue, gang = int(k.user[row]), int(k.name[row]), int(k.queue[row]), int(k.gpus[row])
        return [
            None if UNKNOWN in (user, name) else ("name", user, name, gang),
            None if user == UNKNOWN else ("gang of user", user, gang),
            None if user == UNKNOWN else ("user", user),
            None if queue == UNKNOWN else ("queue", queue, gang),
            ("gang", gang),
            (),
        ]

    @abstractmethod
    def statistic(self, key: Key) -> float:
        """Return the statistic of the entries of a key [s]."""

    @abstractmethod
    def enter(self, key: Key, run_time_s: float) -> None:
        """Append an entry to those of a key."""

    def statistics(self, row: int) -> list[float]:
        """Return the statistic of each key of a job [s]; NaN = too few entries."""
        return [
            math.nan if key is None or self.ended.get(key, 0) < self.LEAST else self.statistic(key)
            for key in self.keys(row)
        ]

    def predict(self, row: int) -> float:
        """Return the statistic of the narrowest key with enough entries [s]; NaN = none has."""
        for key in self.keys(row):
            if key is not None and self.ended.get(key, 0) >= self.LEAST:
                return self.statistic(key)
        return math.nan

    def end(self, row: int, run_time_s: float, killed: bool) -> None:
        """Append the run time to the entries of each key of the job."""
        for key in self.keys(row):
            if key is not None:
                self.ended[key] = self.ended.get(key, 0) + 1
                self.enter(key, run_time_s)


@predictor("quantile")
class Quantile(ByKeys):
    """The median of the last run times with equal keys (type 7)."""

    SHARE: float = 0.5
    MOST: int = 50  # entries that count for each key

    def __init__(self, known: Known) -> None:
        super().__init__(known)
        self._past: dict[Key, deque[float]] = {}

    def enter(self, key: Key, run_time_s: float) -> None:
        """Keep the last MOST entries."""
        self._past.setdefault(key, deque(maxlen=self.MOST)).append(run_time_s)

    def statistic(self, key: Key) -> float:
        """Return the quantile [s]."""
        ordered = sorted(self._past[key])
        place = self.SHARE * (len(ordered) - 1)
        low = int(place)
        high = min(low + 1, len(ordered) - 1)
        return ordered[low] + (place - low) * (ordered[high] - ordered[low])


@predictor("recency")
class Recency(ByKeys):
    """The geometric mean of the run times with equal keys; HALF later ends halve a weight."""

    HALF: float = 5.0  # ends after which a weight has halved

    def __init__(self, known: Known) -> None:
        super().__init__(known)
        self._fade = exp(-log(2.0) / self.HALF)
        self._sums: dict[Key, tuple[float, float]] = {}  # of the weights, and of the weighted logarithms

    def enter(self, key: Key, run_time_s: float) -> None:
        """Fade the sums, and add a logarithm of weight 1."""
        weight, total = self._sums.get(key, (0.0, 0.0))
        self._sums[key] = self._fade * weight + 1.0, self._fade * total + log(max(run_time_s, LEAST_S))

    def statistic(self, key: Key) -> float:
        """Return the weighted geometric mean [s]."""
        weight, total = self._sums[key]
        return exp(total / weight)


@predictor("recent-two")
class RecentTwo(Limit):
    """The mean of the last two run times of the user, at most the limit; with fewer than two, the limit.

    See D. Tsafrir, Y. Etsion and D. G. Feitelson, "Backfilling using system-generated predictions rather than user
    runtime estimates", TPDS 2007.
    """

    def __init__(self, known: Known) -> None:
        super().__init__(known)
        self._last: dict[int, tuple[float, ...]] = {}  # of each user, at most two [s]

    def predict(self, row: int) -> float:
        """Return the smaller of mean and limit [s]; NaN = none of them is known."""
        limit_s, last = super().predict(row), self._last.get(int(self.known.user[row]), ())
        if len(last) < 2:
            return limit_s
        mean_s = (last[0] + last[1]) / 2.0
        return mean_s if math.isnan(limit_s) else min(mean_s, limit_s)

    def end(self, row: int, run_time_s: float, killed: bool) -> None:
        """Remember the run time as the last one of its user."""
        user = int(self.known.user[row])
        if user != UNKNOWN:
            self._last[user] = (*self._last.get(user, ())[-1:], run_time_s)
