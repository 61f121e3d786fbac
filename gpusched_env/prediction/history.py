"""The history of a run: it hands each arrival and each end to a predictor, and keeps distributions of run times."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from gpusched_env.core.state import FINISHED, REFUSED, Run
from gpusched_env.prediction.known import Known
from gpusched_env.prediction.levels import LEVELS, PRIOR_WEIGHT, WEIGHT, counts_of, levels_of, normalised
from gpusched_env.prediction.predictors import find_predictor
from gpusched_env.problem.instance import Instance

CLASSES: Final = 14  # ranges of predictions, with equal numbers of ended jobs
_MOST: Final = 20_000  # ended jobs that count, the latest
_FIRST: Final = 25  # ends before the first distribution; later when a tenth more have ended, or as many
_WATCHED: Final = 200.0  # jobs over which losses are averaged
_LEAST_WATCHED: Final = 100  # jobs before the predictor may be given up


def most_classes(predictor: str, jobs: int) -> int:
    """Return the number of classes of so many jobs."""
    own = find_predictor(predictor).most_classes(jobs)
    return own or 1 + CLASSES


class History:
    """What has been learned in a run. The jobs that have ended by a time decide everything, and nothing else does.

    A job is of a class: 0 = all jobs, or one of the predictor, or a range of its predictions. At the same instant,
    arrivals come before ends, so a prediction never knows of an end at its own instant. While the predictor's
    distributions are worse than that of all jobs, every job is of class 0. Losses are ranked probability scores, the
    integrals of all pinball losses (E. S. Epstein, "A scoring system for probability forecasts of ranked categories",
    1969).

    Parameters
    ----------
    predictor : name of a predictor
    prior : float64 [LEVELS], distribution before the first end; None = the same share for each level

    Attributes
    ----------
    predicted_s : float64 [J], predictions [s]; NaN = none, or the job has not arrived
    class_of : int32 [J]
    shares : float64 [C, LEVELS], distribution of the run times of each class
    trusted : whether the predictor is in use
    given_up : number of jobs that were submitted while it was not
    """

    def __init__(self, instance: Instance, predictor: str, prior: np.ndarray | None = None) -> None:
        self.name, self.known = predictor, Known.of(instance.workload)
        self.predictor = find_predictor(predictor)(self.known)
        jobs = len(instance.workload)
        self._prior = self.predictor.prior = normalised(np.ones(LEVELS) if prior is None else prior)
        self.predicted_s = np.full(jobs, math.nan)
        self.class_of = np.zeros(jobs, np.int32)
        self.predictor.renew()
        self._own = self.predictor.most_classes(jobs) > 0  # distributions of the predictor
        self.shares = self.predictor.shares if self._own else np.tile(self._prior, (1 + CLASSES, 1))
        self.trusted, self.given_up = True, 0
        self._learned, self._news = False, set(self.predictor.renewed if self._own else range(len(self.shares)))
        self._cuts = np.empty(0)
        self.heard = (-1, -1)  # arrivals and ends at the last call of :meth:`follow`
        self._present = np.empty(0, np.int64)  # rows that have been predicted and have not ended
        self._arrived, self._next = 0, _FIRST
        self._rows: list[int] = []  # that have ended, in this order
        self._run_times_s: list[float] = []
        self._losses = np.zeros(2)  # running means: of the predictor, of all jobs
        self.watched = 0

    def notes(self, scheduler: str) -> dict[str, int]:
        """For how many jobs the predictor was not believed by a scheduler: words -> number; empty = none."""
        words = f"given up: predictions of {self.name} in {scheduler}, worse than none, of jobs"
        return {words: self.given_up} if self.given_up else {}

    def follow(self, sim: Run) -> bool:
        """Take up what has arrived and ended since the last call; return whether anything has."""
        jobs, arrived = sim.jobs, int(sim.world["next_arrival"])
        before, self.heard = self.heard, (arrived, int(sim.world["finished"]))
        if self.heard == before:
            return False
        rows = np.append(self._present, np.arange(self._arrived, arrived))
        status = jobs["status"][rows]
        left = (status == FINISHED) | (status == REFUSED)
        ended = rows[status == FINISHED]
        changes = [(float(self.known.arrival_s[row]), 0, row) for row in range(self._arrived, arrived)]
        changes += [(float(jobs["finish_s"][row]), 1, row) for row in ended.tolist()]
        for _, ends, row in sorted(changes):
            if ends:
                self.end(row, float(jobs["service_s"][row]), bool(jobs["remaining"][row] > 0.0))
            else:
                self.arrive(row)
        self._present, self._arrived = rows[~left], arrived
        return True

    def news(self) -> list[int]:
        """Return the classes whose distributions have changed since the last call, which is that of the one reader."""
        found, self._news = sorted(self._news), set()
        return found

    def arrive(self, row: int) -> None:
        """Predict the next job."""
        self._arrived = row + 1
        self.predicted_s[row] = self.predictor.predict(row)
        self._news.update(self.predictor.renewed)
        self.class_of[row] = self._classes(slice(row, row + 1))[0]
        self.given_up += not self.trusted

    def end(self, row: int, run_time_s: float, killed: bool) -> None:
        """Learn that a job has ended."""
        self._watch(row, run_time_s)
        self._rows.append(row)
        self._run_times_s.append(run_time_s)
        self.predictor.end(row, run_time_s, killed)
        if len(self._rows) >= self._next:
            self._next = len(self._rows) + max(_FIRST, len(self._rows) // 10)
            self._refresh()

    def _watch(self, row: int, run_time_s: float) -> None:
        """Compare the distribution of the job's class with that of all jobs; and trust the better one."""
        if math.isnan(self.predicted_s[row]) or not self._learned:
            return
        one = self._classes_if_trusted(slice(row, row + 1))[0]
        reached = np.arange(LEVELS) >= levels_of(np.array([run_time_s]))[0]
        missed = np.cumsum(self.shares[[one, 0]], axis=-1) - reached
        losses = np.cumsum(missed * missed, axis=-1)[:, -1]
        self.watched += 1
        self._losses += (losses - self._losses) / min(self.watched, _WATCHED)
        trusted = self.watched < _LEAST_WATCHED or bool(self._losses[0] <= self._losses[1])
        if trusted != self.trusted:
            self.trusted = trusted
            self._classify()

    def _refresh(self) -> None:
        """Learn the ranges and the distributions anew."""
        self._learned = True
        if self._own:
            self.predictor.renew()
            self._news.update(self.predictor.renewed)
        else:
            self._learn_ranges()
            self._news.update(range(len(self.shares)))
        self._classify()

    def _learn_ranges(self) -> None:
        rows = np.array(self._rows[-_MOST:])
        levels, predicted_s = levels_of(np.array(self._run_times_s[-_MOST:])), self.predicted_s[rows]
        everyone = counts_of(levels, np.zeros(len(rows), np.int64), 1)[0]
        self.shares[:] = everyone = normalised(everyone + PRIOR_WEIGHT * self._prior)
        known = ~np.isnan(predicted_s)
        ordered = np.sort(predicted_s[known])
        places = np.arange(1, CLASSES) * len(ordered) // CLASSES
        self._cuts = np.unique(ordered[places]) if len(ordered) else np.empty(0)
        classes = np.searchsorted(self._cuts, predicted_s[known], side="right")
        counts = counts_of(levels[known], classes, CLASSES)
        self.shares[1:] = normalised(counts + WEIGHT * everyone)

    def _classify(self) -> None:
        self.class_of[:] = self._classes(slice(None))

    def _classes_if_trusted(self, rows: slice) -> np.ndarray:
        if self._own:
            return self.predictor.class_of[rows]
        predicted_s = self.predicted_s[rows]
        return np.where(np.isnan(predicted_s), 0, 1 + np.searchsorted(self._cuts, predicted_s, side="right"))

    def _classes(self, rows: slice) -> np.ndarray:
        return self._classes_if_trusted(rows) * int(self.trusted and self._learned)
