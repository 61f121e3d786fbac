"""Shortest remaining time first and shortest remaining service first: preemptive orders by remaining work."""

from __future__ import annotations

from dataclasses import dataclass

from gpusched_env.baselines.list_policies.scheduler import ListRules
from gpusched_env.baselines.list_policies.sizes import SizeOrderedScheduler
from gpusched_env.prediction.levels import gittins_s
from gpusched_env.simulator import Simulation


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
    lowest id. The order ignores the cost of a preemption. When a job passes its user's estimate, or its
    prediction is revised, jobs are sorted anew.
    A decision point takes O(n log n), n = number of jobs in the system.

    References
    ----------
    L. Schrage, "A proof of the optimality of the shortest remaining processing time discipline", Operations Research
    16, 1968 (optimal mean completion time on one machine); J. Gu et al., "Tiresias: A GPU cluster manager for
    distributed deep learning", NSDI 2019 (SRSF).
    """

    left_s = staticmethod(gittins_s)

    @property
    def name(self) -> str:
        """Name in tables: ``srtf`` or ``srsf``."""
        return "srtf" if self.key == "time" else "srsf"

    def rules(self, simulation: Simulation) -> ListRules:
        """Return the rules."""
        return self.by_size(simulation, preempts=True)
