"""Themis-lite as its rule reads: at every decision point everyone who waits and every ended lease is ranked and walked.

The suite's own ranks only where somebody could get GPUs.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from gpusched_env.baselines.themis.scheduler import Themis
from gpusched_env.simulator import ClusterView, Decision


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
        yield from self._offer(view, ended, ranked, running[view.checkpointing])
