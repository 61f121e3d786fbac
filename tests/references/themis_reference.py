"""Themis-lite as its rule is written: every decision point ranks all waiting jobs and all ended leases.

The package's version ranks in a kernel, and only if a job could get GPUs. The reference shares the auction, the plan
for a ranking (``preemptive_schedule``) and the estimates of run times, which have tests of their own. rho (NSDI 2020,
section 3), the order and the leases are its own. No code of the authors is public, and the paper has no rule for ties;
docs/themis.md names ours.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from typing import Final

import numpy as np

from gpusched_env.baselines.themis.scheduler import Themis
from gpusched_env.baselines.themis.shares import max_min_shares
from gpusched_env.simulator import ClusterView, Decision, Lease, Preempt, Start

# Work and waiting times are sums of floats, so jobs that tie in theory differ in the last of 16 digits. Jobs that do
# not tie differ by far more than this part of rho.
TIE: Final = Fraction(1, 10**11)
LEAST_S: Final = 1e-3  # [s] ours, docs/themis.md: least run time and least remaining run time


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
        if arrived > self._table.memory["estimated"]:
            self._estimate(view, self._table)
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
        # equal rho: the lower row, which is ours (docs/themis.md)
        ranked = candidates[np.argsort(ranks(self.fairness(view, candidates)), kind="stable")]
        leased = running[~np.isin(running, ended) & ~np.isin(running, stopping)]
        memory["leased"], memory["ranked"], memory["ended"] = len(leased), len(ranked), len(ended)
        order = np.concatenate([leased, ranked, stopping])
        self._table.order[: len(order)], self._table.ended[: len(ended)] = order, ended
        if self.auction or self.maxmin:
            self._rank(view, self._table)
        kept = ended.tolist()
        for decision in view.preemptive_schedule(self._table.order[: len(order)], self.placement):
            yield decision
            if isinstance(decision, Start):
                yield self._lease(view, decision.job)
            elif isinstance(decision, Preempt) and decision.job in kept:
                kept.remove(decision.job)
        for job in kept:
            yield self._lease(view, job)

    def _lease(self, view: ClusterView, job: int) -> Lease:
        return Lease(job, view.now_s + self.lease_s * float(self._table.shares[job]))

    def _by_share(self, view: ClusterView, rows: np.ndarray) -> np.ndarray:
        """Sort by fair share / time received, then by fair share, then by row; the shares are tested elsewhere."""
        present = np.concatenate([view.waiting, view.running])
        self._measure(view, present)
        due = np.zeros(view.arrived)
        due[present] = max_min_shares(
            view.now_s - view.arrival_s[present], self._table.left_s[present], self._table.fair_s[present],
            view.gpus[present], view.cluster.gpus,
        )  # fmt: skip
        had_s = view.service_s(rows)
        ratio = np.divide(due[rows], had_s, out=np.full(len(rows), np.inf), where=had_s > 0)
        return rows[np.lexsort((ranks(due[rows]), ranks(ratio)))]

    def fairness(self, view: ClusterView, rows: np.ndarray, later_s: float = 0.0) -> np.ndarray:
        """float64: rho of each job; the term max(1, gang / share) of T_ideal is ours (docs/themis.md)."""
        waited_s = view.now_s - view.arrival_s[rows] + later_s
        there_s = view.now_s - self._seen_s[rows]
        contenders = np.divide(
            self._load - self._load_before[rows],
            there_s,
            out=np.full(len(rows), self._present, float),
            where=there_s > 0,
        )
        fair_s = np.maximum(self.ideal_s(view, rows), LEAST_S) * np.maximum(
            1.0, view.gpus[rows] / (view.cluster.gpus / contenders)
        )
        return (waited_s + np.maximum(self.remaining_s(view, rows), LEAST_S)) / fair_s


def ranks(values: np.ndarray) -> np.ndarray:
    """int [n]: 0 for the largest value, and so on; values that tie in theory share a rank."""
    exact = [Fraction(value) if np.isfinite(value) else Fraction(10) ** 400 for value in values.tolist()]
    found, first = np.zeros(len(exact), int), 0
    order = sorted(range(len(exact)), key=lambda i: -exact[i])
    for at, i in enumerate(order):
        if exact[order[first]] - exact[i] > TIE * exact[order[first]]:
            first = at
        found[i] = first
    return found
