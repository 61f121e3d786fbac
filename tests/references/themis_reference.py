"""Themis-lite as its rule is written: every decision point ranks all waiting jobs and all ended leases.

The package's version ranks in a kernel, and only if a job could get GPUs. The reference shares the plan for a
ranking (``preemptive_schedule``) and the estimates of run times, which have tests of their own. rho (NSDI 2020,
section 3), the order and the leases are its own. No code of the authors is public, and the paper has no rule for ties;
docs/themis.md names ours.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from typing import Final

import numpy as np

from gpusched_env.baselines.themis.scheduler import Themis
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
        self._told = self.told(view.simulation.instance)
        self._seen_s = self._load_before = np.empty(0)
        self._load = self._asked_s = 0.0
        self._present = 0

    def decide(self, view: ClusterView) -> Iterable[Decision]:
        """Rank and offer at every decision point."""
        now_s = view.now_s
        self._load += self._present * (now_s - self._asked_s)
        new = view.arrived - len(self._seen_s)
        self._seen_s = np.append(self._seen_s, np.full(new, now_s))
        self._load_before = np.append(self._load_before, np.full(new, self._load))
        self._asked_s, self._present = now_s, view.arrived - view.finished_count
        running, ended, stopping = view.running, view.lease_ended, view.running[view.checkpointing]
        candidates = np.sort(np.concatenate([view.waiting, ended]))
        if not len(candidates):
            return
        # equal rho: the lower row, which is ours (docs/themis.md)
        ranked = candidates[np.argsort(ranks(self.fairness(view, candidates)), kind="stable")]
        leased = running[~np.isin(running, ended) & ~np.isin(running, stopping)]
        kept = ended.tolist()
        for decision in view.preemptive_schedule(np.concatenate([leased, ranked, stopping]), self.placement):
            yield decision
            if isinstance(decision, Start):
                yield Lease(decision.job, now_s + self.lease_s)
            elif isinstance(decision, Preempt) and decision.job in kept:
                kept.remove(decision.job)
        yield from [Lease(job, now_s + self.lease_s) for job in kept]

    def fairness(self, view: ClusterView, rows: np.ndarray) -> np.ndarray:
        """float64: rho of each job; the term max(1, gang / share) of T_ideal is ours (docs/themis.md)."""
        waited_s = view.now_s - view.arrival_s[rows]
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
