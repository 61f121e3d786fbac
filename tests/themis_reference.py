"""Themis-lite as its rule reads: at every decision point everyone who waits and every ended lease is ranked and walked.

The suite's own ranks only where somebody could get GPUs.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from gpusched_env.baselines.themis import Themis
from gpusched_env.simulator import ClusterView, Decision, Preempt, Start


class FullThemis(Themis):
    """Rank always."""

    def decide(self, view: ClusterView) -> Iterable[Decision]:
        """Offer everything to everyone."""
        self._count(view)
        running, ended = view.running, view.lease_ended
        candidates = np.sort(np.concatenate([view.waiting, ended]))
        if not len(candidates):
            return
        ranked = self._by_share(view, candidates) if self.maxmin else self._by_fairness(view, candidates)
        shares = None
        if self.auction:
            ranked, shares = self._auction(view, ranked, view.free_gpus + int(view.gpus[ended].sum()))
        checkpointing = running[view.checkpointing]
        leased = running[~np.isin(running, [*ended, *checkpointing])]
        # Leases that run are kept; GPUs that are being checkpointed are spoken for once they are free.
        order = np.concatenate([leased, ranked, checkpointing])
        kept = dict.fromkeys(ended.tolist())
        for decision in view.preemptive_schedule(order, self.placement):
            yield decision
            if isinstance(decision, Start):
                yield self._lease(view, decision.job, shares)
            elif isinstance(decision, Preempt):
                kept.pop(decision.job, None)
        for job in kept:
            yield self._lease(view, job, shares)
