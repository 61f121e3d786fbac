"""Gavel's round mechanism, which turns time shares X into one GPU type per job and round (section 5 of the paper)."""

from __future__ import annotations

import random
from typing import Final

import numpy as np

UNTRIED: Final = 1e9  # priority of a share of 1 on a type on which the job has had no time yet
NONE: Final = -1  # no type
ALONE: Final = -1  # no partner


class Rounds:
    """The time that each job has received on each GPU type, and the choice of types for the next round.

    ``credit_s`` : time that every job is assumed to have received at first, half a round. ``fixed_order`` : serve the
    types by column, else in random order. ``fill`` : jobs without a share of a type get its GPUs that are left.

    Notes
    -----
    Priority of a job on a type = the job's share of the type / the fraction of the type's time that the job has
    received. Each round takes one sort per type.
    """

    def __init__(self, gpus: np.ndarray, credit_s: float, fixed_order: bool, fill: bool, seed: int = 0) -> None:
        self._gpus = gpus
        self._credit_s = credit_s
        self._random = None if fixed_order else random.Random(seed)
        self._fill = fill
        types = len(gpus)
        # by job row
        self.rates = np.zeros((64, types))
        self.gangs = np.zeros(64, np.int64)
        self.shares = np.zeros((64, types))
        self.planned = np.zeros(64, bool)  # X has an entry for the job
        self._time_s = np.zeros((64, types))
        self._deficit_s = np.zeros((64, types))
        self._total_s = np.zeros(types)
        self.since_s = 0.0  # when counting began

    def admit(self, rows: np.ndarray, rates: np.ndarray, gangs: np.ndarray) -> None:
        """Add new jobs: rates float64 [n, R] steps/s (0 = never there), gang sizes int [n]."""
        while rows.max(initial=-1) >= len(self.gangs):
            for name in ("rates", "gangs", "shares", "planned", "_time_s", "_deficit_s"):
                column = getattr(self, name)
                setattr(self, name, np.concatenate([column, np.zeros_like(column)]))
        self.rates[rows], self.gangs[rows] = rates, gangs
        self._time_s[rows] = self._credit_s

    def book(self, rows: np.ndarray, types: np.ndarray, seconds: np.ndarray) -> None:
        """Add the time that jobs received on a type in the last round."""
        self._time_s[rows, types] += seconds
        np.add.at(self._total_s, types, seconds)

    def begin_counting(self, rows: np.ndarray, now_s: float) -> None:
        """Store the missing or excess time of the jobs ``rows`` as their deficits, and reset the counters."""
        owed = self.shares[rows] * (now_s - self.since_s) - (self._time_s[rows] - self._credit_s)
        self._deficit_s[rows] += owed
        self._time_s[rows] = self._credit_s
        self._total_s[:] = self._credit_s * len(rows)
        self.since_s = now_s

    def plan(self, rows: np.ndarray, shares: np.ndarray) -> None:
        """Set X of the jobs ``rows``, float64 [n, R]."""
        self.shares[rows] = shares
        self.planned[rows] = True

    def priorities(self, rows: np.ndarray) -> np.ndarray:
        """float64 [n, R]: share / fraction of the type's time that the job has had."""
        return priority(self.shares[rows] * (self.rates[rows] > 0), self._time_s[rows], self._total_s)

    def choose(self, rows: np.ndarray) -> np.ndarray:
        """int64 [n]: type of each of the jobs ``rows``, by arrival, in the next round; NONE = it waits."""
        order = list(range(len(self._gpus)))
        if self._random is not None:
            self._random.shuffle(order)
        chosen = np.full(len(rows), NONE)
        priorities, gangs = self.priorities(rows), self.gangs[rows]
        able = (self.rates[rows] > 0) & ((priorities > 0) | self._fill)
        one_gpu_each = bool((gangs == 1).all())
        for column in order:
            candidates = np.flatnonzero(able[:, column] & (chosen == NONE))
            room = int(self._gpus[column])
            if not one_gpu_each or len(candidates) > room:
                at = rows[candidates]
                keys = -self.shares[at, column], -self._deficit_s[at, column], -priorities[candidates, column]
                candidates = candidates[np.lexsort(keys)]
                candidates = candidates[:room] if one_gpu_each else _fitting(candidates, gangs[candidates], room)
            chosen[candidates] = column
        return chosen

    def keep(self, rows: np.ndarray) -> None:
        """Do nothing, because rows of finished jobs do not occur again."""

    def ready(self, rows: np.ndarray) -> np.ndarray:
        """Boolean [n]: whether X has a row for each of the jobs ``rows``."""
        return self.planned[rows]

    def partner(self, row: int) -> int:
        """Return ALONE, because no job shares GPUs."""
        return ALONE

    def rate(self, row: int, column: int) -> float:
        """Return the rate of a job on a type [steps/s]."""
        return float(self.rates[row, column])

    @property
    def pairs(self) -> None:
        """Pairs of jobs: none."""


def priority(shares: np.ndarray, had_s: np.ndarray, total_s: np.ndarray) -> np.ndarray:
    """float64 [n, R]: share / fraction of each type's time that was received."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(had_s > 0, shares / (had_s / total_s), shares * UNTRIED)


def _fitting(candidates: np.ndarray, gangs: np.ndarray, room: int) -> np.ndarray:
    """Choose from a list, in order, the candidates that fit into the remaining room."""
    taken = []
    for candidate, gang in zip(candidates.tolist(), gangs.tolist(), strict=True):
        if gang <= room:
            taken.append(candidate)
            room -= gang
            if not room:
                break
    return np.array(taken, np.int64)
