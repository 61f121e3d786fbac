"""Shortest remaining time first and shortest remaining service first: preemptive orders by remaining work."""

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
    """Give the GPUs to the jobs with the least remaining work; preempt the others.

    At every decision point all jobs in the system are sorted by remaining work. GPUs go to the first jobs that fit, and
    running jobs further back in the order are preempted. With free preemption on one GPU no other policy has a smaller
    mean completion time.

    * ``srtf``: remaining work = remaining run time.
    * ``srsf``: remaining work = gang size x remaining run time, the reference policy of the Tiresias paper.

    Parameters
    ----------
    key : "time" (default) = sort by remaining run time [s]; "gpu-time" = sort by gang size x remaining run time [GPU s]
    placement : placement rule of all jobs; default best fit
    estimator, sigma, estimator_seed : source of run times, see :class:`EstimatingScheduler`; default the true ones

    Notes
    -----
    A job that does not fit is skipped. Ties: running jobs, then arrival, then id. The order ignores the cost of a
    preemption. O(n log n) at a decision point, n = jobs in the system.

    References
    ----------
    L. Schrage, "A proof of the optimality of the shortest remaining processing time discipline", Operations Research
    16, 1968 (optimal mean completion time on one machine); J. Gu et al., "Tiresias: A GPU cluster manager for
    distributed deep learning", NSDI 2019 (SRSF).
    """

    @property
    def name(self) -> str:
        """Name: srtf or srsf."""
        return "srtf" if self.key == "time" else "srsf"

    def player(self, simulation: Simulation) -> ListedRun | None:
        """Give the compiled loop, which exists for true run times only."""
        if type(self) is not ShortestRemainingFirst or self.estimator != "oracle":
            return None
        by_gpus = self.key == "gpu-time"
        return listed_run(self, simulation, ListRules(SIZE, self.placement, preempts=True, by_gpus=by_gpus))

    def decide(self, view: ClusterView) -> Iterable[Decision]:
        """Sort all jobs; keep, preempt and start accordingly."""
        waiting = view.waiting
        if not len(waiting):
            return []
        rows = np.concatenate([np.sort(view.running), waiting])  # the sort is stable: running jobs win ties
        return view.preemptive_schedule(self.smallest_first(view, rows), self.placement)
