"""Sia's integer program: one configuration, or none, for each job, at the least total cost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy import sparse
from scipy.optimize import Bounds, LinearConstraint, milp

from gpusched_env.baselines.elastic.sia.kernels import Table, fill
from gpusched_env.portable import arrays
from gpusched_env.portable.keys import rounded_keys

DIGITS: Final = 100  # costs are rounded to two decimals, and stored as whole hundredths
MOST_COST: Final = 3000.0  # larger costs are cut to this
MOST_ENTRIES: Final = 1 << 25  # (number of jobs + 1) x states of the largest table that is filled
WAITS: Final = -1


def costs(values: np.ndarray, power: float) -> np.ndarray:
    """int32: costs in hundredths of goodputs relative to the worst: values ** power (< 0), at most 3000."""
    found = np.full(values.shape, MOST_COST)
    positive = values > 0.0
    found[positive] = np.minimum(arrays.power(rounded_keys(values[positive]), power), MOST_COST)
    return np.rint(rounded_keys(found * DIGITS)).astype(np.int32)


@dataclass(frozen=True)
class Program:
    """Choices of jobs, in the order of preference, which breaks ties.

    ``first`` : int32 [J + 1], first choice of each job. ``cost`` : int32 [C], cost of a choice minus the cost of
    waiting; others must be left out. A choice takes ``gpus`` of the ``supply`` of a ``kind`` of nodes.
    """

    first: np.ndarray
    cost: np.ndarray
    kind: np.ndarray
    gpus: np.ndarray
    supply: np.ndarray

    @property
    def jobs(self) -> int:
        """Number of jobs."""
        return len(self.first) - 1

    @property
    def entries(self) -> int:
        """Number of entries of the table of :meth:`by_table`."""
        entries = self.jobs + 1
        for gpus in self.supply.tolist():
            entries *= gpus + 1
        return entries

    def solve(self) -> list[int]:
        """Return the choice of each job in an optimal solution; WAITS = none.

        Of several, earlier jobs have the first choice, and waiting is last. If the table would be too large, HiGHS
        breaks ties.
        """
        return self.by_table() if self.entries <= MOST_ENTRIES else self.by_highs()

    def by_table(self) -> list[int]:
        """Solve exactly, by dynamic programming over the free GPUs of each kind; O(C x states)."""
        radix = self.supply.astype(np.int64) + 1
        stride = np.concatenate([[1], np.cumprod(radix)[:-1]])
        states = int(np.prod(radix))
        room = np.arange(states)[:, None] // stride % radix
        table = Table(
            first=self.first,
            cost=self.cost,
            kind=self.kind,
            gpus=self.gpus,
            stride=stride.astype(np.int32),
            room=room.astype(np.int32),
            least=np.zeros((self.jobs + 1, states), np.int32),
        )
        fill(table, self.jobs)
        chosen, state = [], states - 1
        for i in range(self.jobs):
            found = WAITS
            for c in range(self.first[i], self.first[i + 1]):
                after = state - int(self.gpus[c] * stride[self.kind[c]])
                fits = room[state, self.kind[c]] >= self.gpus[c]
                if fits and self.cost[c] + table.least[i + 1, after] == table.least[i, state]:
                    found, state = c, after
                    break
            chosen.append(found)
        return chosen

    def by_highs(self) -> list[int]:
        """Solve by HiGHS, with a relative gap of at most 1e-9; ties as its version breaks them."""
        count = len(self.cost)
        if not count:
            return [WAITS] * self.jobs
        job = np.repeat(np.arange(self.jobs), np.diff(self.first))
        rows = np.concatenate([job, self.jobs + self.kind])
        entries = np.concatenate([np.ones(count), self.gpus])
        shape = (self.jobs + len(self.supply), count)
        matrix = sparse.csc_array((entries, (rows, np.tile(np.arange(count), 2))), shape)
        limits = np.concatenate([np.ones(self.jobs), self.supply])
        found = milp(
            self.cost.astype(float),
            integrality=np.ones(count),
            bounds=Bounds(0, 1),
            constraints=LinearConstraint(matrix, -np.inf, limits),
            options={"mip_rel_gap": 1e-9},
        )
        chosen = np.full(self.jobs, WAITS)
        if found.x is not None:
            taken = np.flatnonzero(found.x > 0.5)
            chosen[job[taken]] = taken
        return [int(choice) for choice in chosen]

    def total(self, chosen: list[int]) -> int:
        """Return the total cost of a solution, in hundredths, relative to waiting."""
        return int(sum(self.cost[c] for c in chosen if c != WAITS))
