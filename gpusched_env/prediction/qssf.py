"""The predictor of QSSF (Hu et al., "Characterization and prediction of deep learning workloads", SC 2021)."""

from __future__ import annotations

import math
from difflib import get_close_matches
from typing import Final

from gpusched_env.prediction.fitted import Boosted
from gpusched_env.prediction.known import UNKNOWN, Known
from gpusched_env.prediction.predictors import Key, predictor

ROLLING: Final = 0.1  # weight of the rolling mean
ALIKE: Final = 0.6  # least Ratcliff-Obershelp ratio of similar names
MOST: Final = 2  # similar names that count


@predictor("qssf")
class Qssf(Boosted):
    """A rolling mean of jobs with similar names, and boosted trees; until these are fitted, the mean alone.

    The rolling mean is that of the user's jobs with the job's name, of these only those of its gang if there are any;
    else of all jobs of the name. If no job of the name has ended, the two most similar names take its place; without
    any, the mean of the user, or of all. The trees deviate from the paper: they are fitted to logarithms, again and
    again, and CPUs are not among their features.
    """

    def __init__(self, known: Known) -> None:
        super().__init__(known)
        self._sums: dict[Key, tuple[int, float]] = {}  # number of jobs, and sum of their run times [s]
        self._ended: dict[str, int] = {}  # names of ended jobs, and their numbers
        self._clusters = {UNKNOWN: UNKNOWN}  # number of a name -> that of the name to which it was similar at first

    def features(self, row: int) -> list[float]:
        """Return codes of user, queue and cluster of the name, gang, hour and weekday."""
        k, name = self.known, int(self.known.name[row])
        if name not in self._clusters:
            self._clusters[name] = next((self._clusters[one] for one in self._similar(name)), name)
        told = (k.user[row], k.queue[row], self._clusters[name], k.gpus[row])
        return [*map(float, told), *self.when(row)]

    def predict(self, row: int) -> float:
        """Return the weighted mean [s]; NaN = no job has ended."""
        boosted_s, rolling_s = super().predict(row), self._rolling(row)
        return ROLLING * rolling_s + (1.0 - ROLLING) * boosted_s if self.fitted else rolling_s

    def end(self, row: int, run_time_s: float, killed: bool) -> None:
        """Add the run time to the sums of name, user and gang."""
        super().end(row, run_time_s, killed)
        user, name, gang = (int(column[row]) for column in (self.known.user, self.known.name, self.known.gpus))
        for key in ((name, user, gang), (name, user), (name,), ("user", user), ()):
            number, total = self._sums.get(key, (0, 0.0))
            self._sums[key] = number + 1, total + run_time_s
        if name != UNKNOWN:
            self._ended[self.known.names[name]] = name

    def _rolling(self, row: int) -> float:
        user, gang = int(self.known.user[row]), int(self.known.gpus[row])
        names = self._similar(int(self.known.name[row]))
        own: list[list[Key]] = [[(name, user, gang) for name in names], [(name, user) for name in names]]
        everyone: list[list[Key]] = [[(name,) for name in names], [("user", user)], [()]]
        for keys in [*own, *everyone] if user != UNKNOWN else [everyone[0], everyone[2]]:
            sums = [self._sums.get(key, (0, 0.0)) for key in keys]
            if number := sum(count for count, _ in sums):
                return sum(total for _, total in sums) / number
        return math.nan

    def _similar(self, name: int) -> list[int]:
        """Return the name if a job of it has ended, else the most similar ones, ties: the greater; digits are codes."""
        text = "" if name == UNKNOWN else self.known.names[name]
        if text in self._ended:
            return [name]
        alike = [] if text.isdigit() or not text else get_close_matches(text, self._ended, MOST, ALIKE)
        return [self._ended[one] for one in alike]
