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

    At every decision point, all jobs in the system are sorted by remaining work. The first jobs that fit get the GPUs,
    and running jobs later in the order are preempted. On one GPU, and if preemption costs nothing, no other policy has
    a smaller mean completion time.

    * ``srtf``: remaining work = remaining run time.
    * ``srsf``: remaining work = gang size x remaining run time, the reference policy of the Tiresias paper.

    Parameters
    ----------
    key : "time" (default) = sort by remaining run time [s]; "gpu-time" = sort by gang size x remaining run time [GPU s]
    placement : placement rule of all jobs; default best fit
    estimator, sigma, estimator_seed : source of run times, see :class:`EstimatingScheduler`; default true run times

    Notes
    -----
    A job that does not fit is skipped. Ties: running jobs before waiting jobs, then the earliest arrival, then the
    lowest id. The order ignores the cost of a preemption. When a job passes its user's estimate, jobs are sorted anew.
    A decision point takes O(n log n), n = number of jobs in the system.

    References
    ----------
    L. Schrage, "A proof of the optimality of the shortest remaining processing time discipline", Operations Research
    16, 1968 (optimal mean completion time on one machine); J. Gu et al., "Tiresias: A GPU cluster manager for
    distributed deep learning", NSDI 2019 (SRSF).
    """

    @property
    def name(self) -> str:
        """Name in tables: ``srtf`` or ``srsf``."""
        return "srtf" if self.key == "time" else "srsf"

    def player(self, simulation: Simulation) -> ListedRun | None:
        """Return the compiled loop, which exists for true run times only."""
        if type(self) is not ShortestRemainingFirst or self.estimator != "oracle":
            return None
        by_gpus = self.key == "gpu-time"
        return listed_run(self, simulation, ListRules(SIZE, self.placement, preempts=True, by_gpus=by_gpus))

    def decide(self, view: ClusterView) -> Iterable[Decision]:
        """Sort all jobs by remaining work, and preempt and start jobs accordingly."""
        waiting = view.waiting
        if not len(waiting):
            return
        rows = np.concatenate([np.sort(view.running), waiting])  # the sort is stable: running jobs win ties
        yield from view.preemptive_schedule(self.smallest_first(view, rows), self.placement)
        if len(view.waiting):
            yield from self.wait_for_overrun(view)
