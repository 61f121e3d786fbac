"""Themis-lite as its rule is written: every decision point ranks all waiting jobs and all ended leases, in NumPy.

The package's version ranks in a kernel, and only if a job could get GPUs.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from gpusched_env.baselines.themis.scheduler import Themis
from gpusched_env.portable.keys import rounded_keys
from gpusched_env.simulator import ClusterView, Decision


class FullThemis(Themis):
    """Rank always."""

    def reset(self, view: ClusterView) -> None:
        """Forget all jobs."""
        super().reset(view)
        self._seen_s = self._load_before = np.empty(0)
        self._load = self._asked_s = 0.0
        self._present = 0

    def decide(self, view: ClusterView) -> Iterable[Decision]:
        """Rank and offer at every decision point."""
        now_s, arrived = view.now_s, view.arrived
        if arrived > self._estimated:
            self._estimate(view)
        self._load += self._present * (now_s - self._asked_s)
        new = arrived - len(self._seen_s)
        self._seen_s = np.append(self._seen_s, np.full(new, now_s))
        self._load_before = np.append(self._load_before, np.full(new, self._load))
        self._asked_s, self._present = now_s, arrived - view.finished_count
        memory = self._table.memory
        memory["load"], memory["present"] = self._load, self._present
        self._table.seen_s[:arrived], self._table.load_before[:arrived] = self._seen_s, self._load_before
        running, ended, stopping = view.running, view.lease_ended, view.running[view.checkpointing]
        candidates = np.sort(np.concatenate([view.waiting, ended]))
        if not len(candidates):
            return
        ranked = candidates[np.argsort(-rounded_keys(self.fairness(view, candidates)), kind="stable")]
        leased = running[~np.isin(running, ended) & ~np.isin(running, stopping)]
        memory["leased"], memory["ranked"] = len(leased), len(ranked)
        yield from self._offer(view, ended.tolist(), np.concatenate([leased, ranked, stopping]))

    def fairness(self, view: ClusterView, rows: np.ndarray, later_s: float = 0.0) -> np.ndarray:
        """float64: rho of each job."""
        waited_s = view.now_s - view.arrival_s[rows] + later_s
        there_s = view.now_s - self._seen_s[rows]
        contenders = np.divide(
            self._load - self._load_before[rows],
            there_s,
            out=np.full(len(rows), self._present, float),
            where=there_s > 0,
        )
        fair_s = np.maximum(self.ideal_s(view, rows), 1e-3) * np.maximum(
            1.0, view.gpus[rows] / (view.cluster.gpus / contenders)
        )
        return (waited_s + np.maximum(self.remaining_s(view, rows), 1e-3)) / fair_s
