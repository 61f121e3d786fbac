"""Shortest remaining time first and shortest remaining service first: preemptive orders by what is left."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from gpusched_env.baselines.estimates import SizeOrderedScheduler
from gpusched_env.baselines.listed.keys import SIZE
from gpusched_env.baselines.listed.run import ListedRun, ListRules, listed_run
from gpusched_env.simulator import ClusterView, Decision, Simulation


@dataclass
class ShortestRemainingFirst(SizeOrderedScheduler):
    """Let the jobs with the least remaining time (x gang size) hold the GPUs; preempt the others.

    Parameters
    ----------
    key : "time" = SRTF; "gpu-time" = SRSF (the yardstick of Tiresias)
    placement : placement rule of all jobs

    Notes
    -----
    Re-sorted at every decision point; the walk takes what fits; running jobs win ties, then arrival, then id.
    Optimal in mean JCT on one GPU with free preemption (Schrage, 1968). The order does not weigh what a preemption
    costs. O(n log n) a decision point, n jobs in the system.

    References
    ----------
    J. Gu et al., "Tiresias: A GPU cluster manager for distributed deep learning", NSDI 2019 (SRSF).
    """

    @property
    def name(self) -> str:
        """Name: srtf or srsf."""
        return "srtf" if self.key == "time" else "srsf"

    def player(self, simulation: Simulation) -> ListedRun | None:
        """Give the compiled loop; there is none for estimates."""
        if type(self) is not ShortestRemainingFirst or self.estimator != "oracle":
            return None
        by_gpus = self.key == "gpu-time"
        return listed_run(self, simulation, ListRules(SIZE, self.placement, preempts=True, by_gpus=by_gpus))

    def decide(self, view: ClusterView) -> Iterable[Decision]:
        """Re-sort, keep, preempt and start."""
        waiting = view.waiting
        if not len(waiting):
            return []
        rows = np.concatenate([np.sort(view.running), waiting])  # running first: they win ties
        return view.preemptive_schedule(self.smallest_first(view, rows), self.placement)
