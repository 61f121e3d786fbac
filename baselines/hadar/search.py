"""Grants in a round of Hadar: exact search for short queues, a greedy walk for long ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from gpusched_env.baselines.hadar.kernels import ROUND_DTYPE, Asking, find_alloc, walk


@dataclass
class Round:
    """The input of one round, jobs best first, and its result ``counts`` : int32 [Q, N], GPUs granted.

    ``rates`` : float64 [C, tiers, T]; ``prices`` : float64 [N, c + 1], see :func:`price_table`; ``mixed`` : a gang may
    use several GPU types; ``free`` : int32 [N], GPUs not granted yet.
    """

    jobs: np.ndarray
    rates: np.ndarray
    nodes: np.ndarray
    prices: np.ndarray
    now_s: float
    round_s: float
    mixed: bool

    def __post_init__(self) -> None:
        """Begin with all GPUs free."""
        self.free = self.nodes["gpus"].astype(np.int32)
        self.counts = np.zeros((len(self.jobs), len(self.nodes)), np.int32)
        self._asking = Asking(
            round=np.array((self.now_s, self.round_s, self.mixed, True), ROUND_DTYPE),
            jobs=self.jobs,
            rates=np.ascontiguousarray(self.rates),
            nodes=self.nodes,
            free=self.free.copy(),
            prices=np.ascontiguousarray(self.prices),
            trial=np.zeros(len(self.nodes), np.int32),
            counts=self.counts,
        )

    def find(self, i: int, free: np.ndarray, priced: bool = True) -> tuple[float, np.ndarray]:
        """FIND_ALLOC: payoff of job ``i`` with these free GPUs, 0 = no placement, and its GPUs; not priced: free."""
        self._asking.free[:], self._asking.round["priced"] = free, priced
        payoff: float = find_alloc(self._asking, i)
        return payoff, self.counts[i].copy()

    def greedy(self, priced: bool = True) -> None:
        """Grant each job, in order, the placement with the largest positive payoff; not priced: to those without."""
        self._asking.free[:], self._asking.round["priced"] = self.free, priced
        walk(self._asking)
        self.free[:] = self._asking.free

    def exact(self) -> None:
        """Grant the set of jobs with the largest total payoff: each job, in order, gets its placement or is skipped.

        Prices depend only on the free GPUs, so these are the state of the search: up to 2^jobs of them.
        """
        best = _remembering(self)
        for i in range(len(self.jobs)):
            payoff, counts = self.find(i, self.free)
            self.counts[i] = 0
            if payoff > 0 and payoff + best(i + 1, self.free - counts) > best(i + 1, self.free):
                self.counts[i] = counts
                self.free -= counts
            else:
                payoff = 0.0
            self.jobs["payoff"][i] = payoff


def _remembering(question: Round) -> Callable[[int, np.ndarray], float]:
    """Make the memoised function that gives the largest total payoff of the jobs from ``i`` on."""
    known: dict[tuple[int, bytes], float] = {}

    def best(i: int, free: np.ndarray) -> float:
        if i == len(question.jobs) or not free.any():
            return 0.0
        key = (i, free.tobytes())
        if key not in known:
            payoff, counts = question.find(i, free)
            total = best(i + 1, free)
            if payoff > 0:
                total = max(total, payoff + best(i + 1, free - counts))
            known[key] = total
        return known[key]

    return best
