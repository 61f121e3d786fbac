"""Predictors: a number of seconds for each job at its submission, from the run times of the jobs that have ended.

A predictor sees the columns of :class:`Known` and hears of each end; it never sees a run time of a job that has not
ended. Users register their own by :func:`predictor`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from gpusched_env.errors import SchedulerError
from gpusched_env.portable.elementary import exp, log
from gpusched_env.prediction.known import Known

PREDICTORS: Final[dict[str, type[Predictor]]] = {}
"""Name -> class of every predictor."""


class Predictor(ABC):
    """Predicts run times. A run has a predictor of its own."""

    def __init__(self, known: Known) -> None:
        self.known = known

    @abstractmethod
    def predict(self, row: int) -> float:
        """Return the prediction for a job that is submitted now [s]; NaN = none."""

    @abstractmethod
    def end(self, row: int, run_time_s: float, killed: bool) -> None:
        """Learn that a job has ended after ``run_time_s`` [s] of progress; ``killed`` = at its limit."""


def predictor(name: str) -> Callable[[type[Predictor]], type[Predictor]]:
    """Register a predictor under a name, by which ``estimator=`` and ``gpusched predict`` know it.

    Raises
    ------
    SchedulerError : the name is in use
    """

    def register(found: type[Predictor]) -> type[Predictor]:
        if name in PREDICTORS:
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
    LEAST entries counts. A job that does not tell its user or name has no such key.
    """

    LEAST: int = 3
    MOST: int = 50  # entries that are kept for each key

    def __init__(self, known: Known) -> None:
        super().__init__(known)
        self.past: dict[tuple[Any, ...], deque[float]] = {}

    def keys(self, row: int) -> list[tuple[Any, ...]]:
        """Return the keys of a job, the narrowest first."""
        k = self.known
        user, name, queue, gang = int(k.user[row]), int(k.name[row]), int(k.queue[row]), int(k.gpus[row])
        found: list[tuple[Any, ...]] = []
        if user >= 0:
            if name >= 0:
                found.append(("name", user, name, gang))
            found += [("user", user, gang), ("user", user)]
        if queue >= 0:
            found.append(("queue", queue, gang))
        return [*found, ("gang", gang), ()]

    @abstractmethod
    def statistic(self, past: deque[float]) -> float:
        """Return the prediction [s] from entries, the latest last."""

    def predict(self, row: int) -> float:
        """Return the statistic of the narrowest key with enough entries [s]; NaN = none has."""
        for key in self.keys(row):
            past = self.past.get(key)
            if past is not None and len(past) >= self.LEAST:
                return self.statistic(past)
        return math.nan

    def end(self, row: int, run_time_s: float, killed: bool) -> None:
        """Append the run time to each key of the job."""
        for key in self.keys(row):
            self.past.setdefault(key, deque(maxlen=self.MOST)).append(run_time_s)


@predictor("quantile")
class Quantile(ByKeys):
    """The median of the last run times with equal keys (type 7)."""

    SHARE: float = 0.5

    def statistic(self, past: deque[float]) -> float:
        """Return the quantile [s]."""
        ordered = sorted(past)
        place = self.SHARE * (len(ordered) - 1)
        low = int(place)
        high = min(low + 1, len(ordered) - 1)
        return ordered[low] + (place - low) * (ordered[high] - ordered[low])


@predictor("recency")
class Recency(ByKeys):
    """The geometric mean of the last run times with equal keys; HALF later ends halve a weight."""

    HALF: float = 5.0  # ends after which a weight has halved

    def __init__(self, known: Known) -> None:
        super().__init__(known)
        self._weights = [exp(-log(2.0) * age / self.HALF) for age in range(self.MOST)]

    def statistic(self, past: deque[float]) -> float:
        """Return the weighted geometric mean [s]."""
        weight = total = 0.0
        for age, seconds in enumerate(reversed(past)):
            weight += self._weights[age]
            total += self._weights[age] * log(max(seconds, 1e-3))
        return exp(total / weight)
