"""Bounds of finish-time fairness that are fast to compute.

If the bounds show that all running jobs come before all waiting jobs, the jobs need not be sorted.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

# A difference by this factor exceeds all rounding errors.
_CLEAR: Final = 1.0 + 1e-6
# [s] lower limit of a divisor, so that the quotient is finite when a job arrives
_INSTANT_S: Final = 1e-6
# Rows of the table [s]; LOAD_BEFORE [job s]. LEFT_SINCE: remaining run time - arrival, constant while a job waits.
# DUE: time in the system + remaining run time at the start. This sum never falls while the job runs, because no
# placement is faster than the best one.
_SEEN, _LOAD_BEFORE, _IDEAL, _IDEAL_PER_CONTENDER, _LEFT_SINCE, _DUE = range(6)


class RhoBounds:
    """Upper bounds of the rho of waiting jobs, and lower bounds of the rho of running jobs, precise to about 1e-6.

    Parameters
    ----------
    gpus : GPUs of the cluster
    """

    def __init__(self, gpus: int) -> None:
        self._gpus = gpus
        self._table = np.empty((6, 64))
        self._jobs = 0

    def arrive(
        self,
        gangs: np.ndarray,
        ideal_s: np.ndarray,
        left_s: np.ndarray,
        arrival_s: np.ndarray,
        seen_s: float,
        load: float,
    ) -> None:
        """Add the next rows.

        Parameters
        ----------
        gangs, arrival_s : GPUs, arrival [s]
        ideal_s, left_s : whole and remaining run time on the best placement [s], > 0
        seen_s, load : present time [s], and the integral of the number of jobs in the system until then [job s]
        """
        jobs = self._jobs + len(gangs)
        if jobs > self._table.shape[1]:
            self._table = np.pad(self._table, ((0, 0), (0, 2 * jobs - self._table.shape[1])))
        new = self._table[:, self._jobs : jobs]
        new[_SEEN], new[_LOAD_BEFORE] = seen_s, load
        new[_IDEAL], new[_IDEAL_PER_CONTENDER] = ideal_s, ideal_s * gangs / self._gpus
        new[_LEFT_SINCE] = left_s - arrival_s
        self._jobs = jobs

    def start(self, row: int, now_s: float) -> None:
        """Note that a waiting job starts."""
        self._table[_DUE, row] = now_s + self._table[_LEFT_SINCE, row]

    def stop(self, row: int, left_s: float, arrival_s: float) -> None:
        """Note that a job waits again, with ``left_s`` [s] of run time remaining."""
        self._table[_LEFT_SINCE, row] = left_s - arrival_s

    def stay_first(self, ended: np.ndarray, waiting: np.ndarray, now_s: float, load: float) -> bool:
        """Return whether the rho of every job whose lease ends is clearly above those of all waiting jobs.

        Parameters
        ----------
        ended, waiting : their rows, at least one each
        now_s, load : time [s], and the integral of the number of jobs in the system until now [job s]
        """
        least = math.inf
        for row in ended.tolist():
            seen_s, before, ideal_s, per_contender_s, _, due_s = self._table[:, row].tolist()
            least = min(
                least, due_s / max(ideal_s, per_contender_s * (load - before) / max(now_s - seen_s, _INSTANT_S))
            )
        seen, befores, ideals, per_contender, left, _ = self._table[:, waiting]
        fair_s = np.maximum(ideals, per_contender * (load - befores) / np.maximum(now_s - seen, _INSTANT_S))
        return least > float(((now_s + left) / fair_s).max()) * _CLEAR
