"""Gavel's round mechanism with GPU sharing. An entry is a single job or a pair of jobs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

import numpy as np

from gpusched_env.baselines.gavel.rounds import ALONE, NONE, priority

AT_ONCE: Final = 512  # entries per block: most members are taken already by the time of their turn
PairRates: TypeAlias = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""A function from the rows of n first and n second jobs to their rates together, float64 [n, 2, R] [steps/s].

0 = the two jobs cannot share GPUs of this type.
"""


class PairRounds:
    """The time that each entry has received on each GPU type, and the choice of types for the next round.

    ``credit_s`` : time that every entry is assumed to have received at first, half a round. ``fill`` : single jobs
    without a share of a type get the GPUs of this type that are left; ``fill_by_pairs`` : pairs, too, as published.

    Notes
    -----
    Types are served in the order of their columns, because all packed policies know types. Entries are stored in the
    order of the published simulator: each job by arrival, followed by its pairs with earlier jobs. Ties follow this
    order.
    """

    def __init__(
        self, gpus: np.ndarray, credit_s: float, fill: bool, fill_by_pairs: bool, pair_rates: PairRates
    ) -> None:
        self._gpus = gpus
        self._credit_s = credit_s
        self._fill, self._fill_by_pairs = fill, fill_by_pairs
        self._pair_rates = pair_rates
        types = len(gpus)
        # by job row
        self.rates = np.zeros((64, types))
        self.gangs = np.zeros(64, np.int64)
        # by entry
        self.members = np.empty((0, 2), np.int64)
        self.entry_rates = np.empty((0, 2, types))
        self._shares = np.empty((0, types))
        self._time_s = np.empty((0, types))
        self._deficit_s = np.empty((0, types))
        self._planned = np.empty(0, bool)
        self._total_s = np.zeros(types)
        self.since_s = 0.0
        # entry of each chosen job of the present round, by row
        self._entry_of: dict[int, int] = {}

    def admit(self, rows: np.ndarray, rates: np.ndarray, gangs: np.ndarray) -> None:
        """Add new jobs, and all pairs of them with jobs of the same gang size that can share GPUs of some type."""
        while rows.max(initial=-1) >= len(self.gangs):
            self.rates = np.concatenate([self.rates, np.zeros_like(self.rates)])
            self.gangs = np.concatenate([self.gangs, np.zeros_like(self.gangs)])
        self.rates[rows], self.gangs[rows] = rates, gangs
        present = self.members[self.members[:, 1] == ALONE, 0]
        members: list[np.ndarray] = []
        for row in rows.tolist():
            fellows = present[self.gangs[present] == self.gangs[row]]
            members += [np.array([[row, ALONE]]), np.column_stack([fellows, np.full(len(fellows), row)])]
            present = np.append(present, row)
        new = np.concatenate(members)
        paired = new[:, 1] != ALONE
        told = np.zeros((len(new), 2, len(self._gpus)))
        told[~paired, 0] = rates
        if paired.any():
            together = self._pair_rates(new[paired, 0], new[paired, 1])
            told[paired] = together * (together > 0).all(axis=1, keepdims=True)
        kept = ~paired | told.any(axis=(1, 2))
        self._append(new[kept], told[kept])

    def _append(self, members: np.ndarray, rates: np.ndarray) -> None:
        nothing = np.zeros((len(members), len(self._gpus)))
        self.members = np.concatenate([self.members, members])
        self.entry_rates = np.concatenate([self.entry_rates, rates])
        self._shares = np.concatenate([self._shares, nothing])
        self._deficit_s = np.concatenate([self._deficit_s, nothing])
        self._time_s = np.concatenate([self._time_s, nothing + self._credit_s])
        self._planned = np.concatenate([self._planned, np.zeros(len(members), bool)])

    def keep(self, rows: np.ndarray) -> None:
        """Remove all jobs except ``rows``, and the pairs of removed jobs."""
        present = np.zeros(len(self.gangs) + 1, bool)  # the last entry is that of ALONE
        present[rows] = present[ALONE] = True
        kept = present[self.members].all(axis=1)
        for name in ("members", "entry_rates", "_shares", "_time_s", "_deficit_s", "_planned"):
            setattr(self, name, getattr(self, name)[kept])

    def book(self, rows: np.ndarray, types: np.ndarray, seconds: np.ndarray) -> None:
        """Add the time of the last round to each entry; the time of a pair is the longer time of its two members."""
        had: dict[int, tuple[int, float]] = {}
        for row, column, time_s in zip(rows.tolist(), types.tolist(), seconds.tolist(), strict=True):
            entry = self._entry_of[row]
            had[entry] = column, max(time_s, had.get(entry, (column, 0.0))[1])
        for entry, (column, time_s) in had.items():
            self._time_s[entry, column] += time_s
            self._total_s[column] += time_s

    def begin_counting(self, rows: np.ndarray, now_s: float) -> None:
        """Store the missing or excess time of each entry as its deficit, and reset the counters."""
        self._deficit_s += self._shares * (now_s - self.since_s) - (self._time_s - self._credit_s)
        self._time_s[:] = self._credit_s
        self._total_s[:] = self._credit_s * len(self.members)
        self.since_s = now_s

    def plan(self, rows: np.ndarray, shares: np.ndarray) -> None:
        """Set X: float64 [M + P, R], the rows of the single jobs, then those of the pairs of :attr:`pairs`."""
        paired = self.members[:, 1] != ALONE
        singles = int((~paired).sum())
        self._shares[~paired], self._shares[paired] = shares[:singles], shares[singles:]
        self._planned[:] = True

    @property
    def pairs(self) -> tuple[np.ndarray, np.ndarray]:
        """All pairs of jobs: int64 [P, 2] rows, and float64 [P, 2, R] rates."""
        paired = self.members[:, 1] != ALONE
        return self.members[paired], self.entry_rates[paired]

    def choose(self, rows: np.ndarray) -> np.ndarray:
        """int64 [n]: type of each of the jobs ``rows``, by arrival, in the next round; NONE = it waits."""
        able = (self.entry_rates > 0)[:, 0]
        priorities = priority(self._shares * able, self._time_s, self._total_s)
        single = self.members[:, 1] == ALONE
        fills = self._fill & (single | self._fill_by_pairs)
        able &= (priorities > 0) | fills[:, None]
        taken = np.zeros(len(self.gangs) + 1, bool)
        type_of = np.full(len(self.gangs), NONE)
        self._entry_of = {}
        for column in range(len(self._gpus)):
            at = np.flatnonzero(able[:, column] & ~taken[self.members].any(axis=1))
            keys = -self._shares[at, column], -self._deficit_s[at, column], -priorities[at, column]
            self._serve(column, at[np.lexsort(keys)], taken, type_of)
        return type_of[rows]

    def _serve(self, column: int, entries: np.ndarray, taken: np.ndarray, type_of: np.ndarray) -> None:
        """Choose entries for a type, in order: those that fit, and whose members have not been chosen yet."""
        room = int(self._gpus[column])
        for begin in range(0, len(entries), AT_ONCE):
            if not room:
                break
            some = entries[begin : begin + AT_ONCE]
            some = some[~taken[self.members[some]].any(axis=1)]
            gangs = self.gangs[self.members[some, 0]]
            told = zip(some.tolist(), self.members[some].tolist(), gangs.tolist(), strict=True)
            for entry, (first, second), gang in told:
                if gang > room or taken[first] or taken[second]:
                    continue
                room -= gang
                for row in (first,) if second == ALONE else (first, second):
                    taken[row] = True
                    type_of[row] = column
                    self._entry_of[row] = entry

    def ready(self, rows: np.ndarray) -> np.ndarray:
        """Boolean [n]: whether X has a row for the entry of each of the chosen jobs ``rows``."""
        return np.array([row in self._entry_of and self._planned[self._entry_of[row]] for row in rows.tolist()], bool)

    def partner(self, row: int) -> int:
        """Return the job that shares the GPUs of a chosen job in this round; ALONE = none."""
        first, second = self.members[self._entry_of[row]].tolist()
        return int(first if second == row else second)

    def rate(self, row: int, column: int) -> float:
        """Return the rate of a chosen job in this round, beside its partner if it has one [steps/s]."""
        entry = self._entry_of[row]
        return float(self.entry_rates[entry, int(self.members[entry, 1] == row), column])
