"""Themis-lite as its rule is written: every decision point ranks all waiting jobs and all ended leases.

The package's version ranks only if a job could get GPUs.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from gpusched_env.baselines.themis.scheduler import Themis
from gpusched_env.simulator import ClusterView, Decision


class FullThemis(Themis):
    """Rank always."""

    def decide(self, view: ClusterView) -> Iterable[Decision]:
        """Rank and offer at every decision point."""
        self._count(view)
        running, ended = view.running, view.lease_ended
        candidates = np.sort(np.concatenate([view.waiting, ended]))
        if not len(candidates):
            return
        ranked = self._by_share(view, candidates) if self.maxmin else self._by_fairness(view, candidates)
        yield from self._offer(view, ended, ranked, running[view.checkpointing])
