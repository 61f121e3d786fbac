"""Predictions by nested keys: jobs of a key are like those of the key around it until jobs of its own have ended."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np

from gpusched_env.prediction.known import UNKNOWN, Known
from gpusched_env.prediction.levels import LEVELS, MIDDLES_S, PRIOR_WEIGHT, WEIGHT, counts_of, levels_of, normalised
from gpusched_env.prediction.predictors import Predictor, predictor

MOST_KEYS: Final = 16_384  # of a run; the jobs of later ones are like those of the wider key that is one of them
_COLUMNS: Final = ("queue", "account", "user", "gpus", "name")  # after the limit, from wide keys to narrow ones
_SMOOTH: Final = counts_of(np.arange(LEVELS), np.arange(LEVELS), LEVELS)  # what an end in a level adds to the others


@predictor("nested")
class Nested(Predictor):
    """A distribution for each key: that of its ended jobs, and of WEIGHT jobs like those of the key around it.

    The outermost key is that of all jobs, around which the prior is; each told column narrows the key: level of the
    limit, queue, account, user, gang, name. Each end of a job of a key fades the weights of those before by FADE, that
    of all jobs aside. This is the mean of a hierarchy of Dirichlet distributions (D. MacKay and L. Bauman Peto, "A
    hierarchical Dirichlet language model", 1995). The prediction is the mean.
    """

    FADE: float = 0.95

    def __init__(self, known: Known) -> None:
        super().__init__(known)
        jobs = len(known.gpus)
        limits = np.where(np.isnan(known.limit_s), UNKNOWN, levels_of(known.limit_s))
        self._columns = [limits, *(getattr(known, column) for column in _COLUMNS)]
        keys = self.most_classes(jobs)
        self._numbers: dict[tuple[int, int, int], int] = {}  # (key around it, column, value) -> key
        self._around = [0]
        self._counts = np.zeros((keys, LEVELS))
        self.shares, self.class_of = np.zeros((keys, LEVELS)), np.zeros(jobs, np.int32)
        self.renewed: Sequence[int] = ()

    @classmethod
    def most_classes(cls, jobs: int) -> int:
        """Return the number of keys for which there is room."""
        return min(1 + (1 + len(_COLUMNS)) * jobs, MOST_KEYS)

    def _inwards(self, key: int) -> list[int]:
        """Return the keys from that of all jobs to this one."""
        found = [key]
        while found[-1]:
            found.append(self._around[found[-1]])
        return found[::-1]

    def _key(self, row: int) -> int:
        key = 0
        for column, values in enumerate(self._columns):
            if (value := int(values[row])) != UNKNOWN:
                inner = self._numbers.get((key, column, value))
                if inner is None:
                    inner = len(self._around)
                    if inner == len(self.shares):
                        return key
                    self._numbers[key, column, value] = inner
                    self._around.append(key)
                key = inner
        return key

    def _renew(self, key: int) -> None:
        """Write the distribution of a key, from that of the key around it."""
        around, weight = (self.shares[self._around[key]], WEIGHT) if key else (self.prior, PRIOR_WEIGHT)
        self.shares[key] = normalised(self._counts[key] + weight * around)

    def predict(self, row: int) -> float:
        """Return the mean of the distribution of the job's key [s]; NaN = no job has ended."""
        self.class_of[row] = key = self._key(row)
        self.renewed = self._inwards(key)
        for one in self.renewed:
            self._renew(one)
        return float(np.cumsum(self.shares[key] * MIDDLES_S)[-1]) if self._counts[0].any() else math.nan

    def end(self, row: int, run_time_s: float, killed: bool) -> None:
        """Count the run time for each key of the job."""
        smooth = _SMOOTH[levels_of(np.array([run_time_s]))[0]]
        for key in self._inwards(int(self.class_of[row])):
            fade = self.FADE if key else 1.0
            self._counts[key] = fade * self._counts[key] + smooth

    def renew(self) -> None:
        """Bring the distributions of all keys up to date."""
        self.renewed = range(len(self._around))  # that around a key has a smaller number
        for key in self.renewed:
            self._renew(key)
