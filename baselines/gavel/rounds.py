"""Gavel's round mechanism, which turns time shares X into one GPU type per job and round (section 5 of the paper)."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

import numpy as np

UNTRIED: Final = 1e9  # priority of a share of 1 on a type on which the job has had no time yet
NONE: Final = -1  # no type
ALONE: Final = -1  # no partner
AT_ONCE: Final = 512  # entries per block: most members are taken already by the time of their turn
PairRates: TypeAlias = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""A function from the rows of n first and n second jobs to their rates together, float64 [n, 2, R] [steps/s].

0 = the two jobs cannot share GPUs of this type.
"""


class Rounds:
    """The time that each entry has received on each GPU type, and the choice of types for the next round.

    An entry is a single job or a pair of jobs. ``jobs`` : number of all rows. ``credit_s`` : time that every entry is
    assumed to have received at first, half a round. ``fill`` : jobs without a share of a type get its GPUs that are
    left; ``fill_by_pairs`` : pairs, too, as published. ``seed`` : of the order in which types are served; None = by
    column. ``pair_rates`` : None = no jobs share GPUs.

    Notes
    -----
    Priority of an entry on a type = its share of the type / the fraction of the type's time that it has received.
    Entries are in the order of the published simulator: each job by arrival, followed by its pairs with earlier jobs.
    Ties follow this order.
    """

    def __init__(
        self,
        gpus: np.ndarray,
        jobs: int,
        credit_s: float,
        fill: bool,
        seed: int | None = None,
        pair_rates: PairRates | None = None,
        fill_by_pairs: bool = False,
    ) -> None:
        self._gpus, self._credit_s = gpus, credit_s
        self._fill, self._fill_by_pairs = fill, fill_by_pairs
        self._random = None if seed is None else random.Random(seed)
        self._pair_rates = pair_rates
        types = len(gpus)
        # by job row
        self.rates = np.zeros((jobs, types))
        self.gangs = np.zeros(jobs, np.int64)
        # by entry
        self.members = np.empty((0, 2), np.int64)
        self.entry_rates = np.empty((0, 2, types))
        self._shares, self._time_s, self._deficit_s = (np.empty((0, types)) for _ in range(3))
        self._planned = np.empty(0, bool)  # X has a row for the entry
        self._total_s = np.zeros(types)
        self.since_s = 0.0  # when counting began
        self._entry_of: dict[int, int] = {}  # entry of each chosen job of the present round, by row

    def admit(self, rows: np.ndarray, rates: np.ndarray, gangs: np.ndarray) -> None:
        """Add new jobs, and all pairs of them with jobs of the same gang size that can share GPUs of some type.

        ``rates`` : float64 [n, R] steps/s, 0 = never there; ``gangs`` : int [n] [GPU].
        """
        self.rates[rows], self.gangs[rows] = rates, gangs
        single = np.column_stack([rows, np.full(len(rows), ALONE)])
        self._append(single, np.stack([rates, np.zeros_like(rates)], axis=1))
        if self._pair_rates is None:
            return
        present = self.members[self.members[:, 1] == ALONE, 0]
        pairs = np.stack(np.meshgrid(present, rows), axis=-1).reshape(-1, 2)
        pairs = pairs[(pairs[:, 0] < pairs[:, 1]) | ~np.isin(pairs[:, 0], rows)]  # of two new jobs, one of both orders
        pairs = np.sort(pairs[self.gangs[pairs[:, 0]] == self.gangs[pairs[:, 1]]], axis=1)
        if len(pairs):
            together = self._pair_rates(*pairs.T)
            together = together * (together > 0).all(axis=1, keepdims=True)
            kept = together.any(axis=(1, 2))
            self._append(pairs[kept], together[kept])

    def _append(self, members: np.ndarray, rates: np.ndarray) -> None:
        nothing = np.zeros((len(members), len(self._gpus)))
        added = (members, rates, nothing, nothing + self._credit_s, nothing, np.zeros(len(members), bool))
        both = np.concatenate([self.members, members])
        order = np.lexsort((np.where(both[:, 1] == ALONE, ALONE, both[:, 0]), both.max(axis=1)))
        for name, new in zip(_BY_ENTRY, added, strict=True):
            setattr(self, name, np.concatenate([getattr(self, name), new])[order])
        self._entry_of = {}  # its entries have other numbers now

    def keep(self, rows: np.ndarray) -> None:
        """Remove all jobs except ``rows``, and the pairs of removed jobs."""
        present = np.zeros(len(self.gangs) + 1, bool)  # the last entry is that of ALONE
        present[rows] = present[ALONE] = True
        kept = present[self.members].all(axis=1)
        for name in _BY_ENTRY:
            setattr(self, name, getattr(self, name)[kept])
        self._entry_of = {}

    def book(self, rows: np.ndarray, types: np.ndarray, seconds: np.ndarray) -> None:
        """Add the time of the last round to each entry; the time of a pair is the longer time of its two members."""
        had: dict[int, tuple[int, float]] = {}
        for row, column, time_s in zip(rows.tolist(), types.tolist(), seconds.tolist(), strict=True):
            entry = self._entry_of[row] if row in self._entry_of else self._alone(row)
            had[entry] = column, max(time_s, had.get(entry, (column, 0.0))[1])
        for entry, (column, time_s) in had.items():
            self._time_s[entry, column] += time_s
            self._total_s[column] += time_s

    def _alone(self, row: int) -> int:
        return int(np.flatnonzero((self.members[:, 0] == row) & (self.members[:, 1] == ALONE))[0])

    def begin_counting(self, now_s: float) -> None:
        """Store the missing or excess time of each entry as its deficit, and reset the counters."""
        self._deficit_s += self._shares * (now_s - self.since_s) - (self._time_s - self._credit_s)
        self._time_s[:] = self._credit_s
        self._total_s[:] = self._credit_s * len(self.members)
        self.since_s = now_s

    def plan(self, shares: np.ndarray) -> None:
        """Set X: float64 [M + P, R], the rows of the single jobs, then those of the pairs of :attr:`pairs`."""
        paired = self.members[:, 1] != ALONE
        singles = int((~paired).sum())
        self._shares[~paired], self._shares[paired] = shares[:singles], shares[singles:]
        self._planned[:] = True

    @property
    def pairs(self) -> tuple[np.ndarray, np.ndarray] | None:
        """All pairs of jobs: int64 [P, 2] rows, and float64 [P, 2, R] rates; None = no jobs share GPUs."""
        paired = self.members[:, 1] != ALONE
        return None if self._pair_rates is None else (self.members[paired], self.entry_rates[paired])

    def priorities(self, running: Sequence[tuple[int, int, float]] = ()) -> np.ndarray:
        """float64 [M + P, R]: share / fraction of the type's time that each entry has had.

        ``running`` : row, type, and time that is not booked yet [s], of single jobs.
        """
        shares = self._shares * (self.entry_rates > 0)[:, 0]
        time_s, total_s = self._time_s.copy(), self._total_s.copy()
        for row, column, seconds in running:
            time_s[self._alone(row), column] += seconds
            total_s[column] += seconds
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(time_s > 0, shares / (time_s / total_s), shares * UNTRIED)

    def choose(self, rows: np.ndarray, running: Sequence[tuple[int, int, float]] = ()) -> np.ndarray:
        """int64 [n]: type of each of the jobs ``rows``, by arrival, in the next round; NONE = it waits."""
        order = list(range(len(self._gpus)))
        if self._random is not None:
            self._random.shuffle(order)
        priorities = self.priorities(running)
        fills = self._fill & ((self.members[:, 1] == ALONE) | self._fill_by_pairs)
        able = (self.entry_rates > 0)[:, 0] & ((priorities > 0) | fills[:, None])
        taken = np.zeros(len(self.gangs) + 1, bool)
        type_of = np.full(len(self.gangs), NONE)
        self._entry_of = {}
        for column in order:
            at = np.flatnonzero(able[:, column] & ~taken[self.members].any(axis=1))
            keys = -self._shares[at, column], -self._deficit_s[at, column], -priorities[at, column]
            self._serve(column, at[np.lexsort(keys)], taken, type_of)
        return type_of[rows]

    def _serve(self, column: int, entries: np.ndarray, taken: np.ndarray, type_of: np.ndarray) -> None:
        """Choose entries for a type, in order: those that fit, and whose members have not been chosen yet."""
        room = int(self._gpus[column])
        for begin in range(0, len(entries), AT_ONCE):
            some = entries[begin : begin + AT_ONCE]
            some = some[~taken[self.members[some]].any(axis=1)]
            gangs = self.gangs[self.members[some, 0]]
            told = zip(some.tolist(), self.members[some].tolist(), gangs.tolist(), strict=True)
            for entry, (first, second), gang in told:
                if not room:
                    return
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


_BY_ENTRY: Final = ("members", "entry_rates", "_shares", "_time_s", "_deficit_s", "_planned")
