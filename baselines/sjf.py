"""Shortest job first, smallest service first and longest job first: non-preemptive orders by job size."""

from __future__ import annotations

from dataclasses import dataclass

from gpusched_env.baselines.estimates import is_strict
from gpusched_env.baselines.list_policies.scheduler import ListRules
from gpusched_env.baselines.list_policies.sizes import SizeOrderedScheduler
from gpusched_env.simulator import Simulation


@dataclass
class ShortestJobFirst(SizeOrderedScheduler):
    """Start waiting jobs in order of size, smallest first; never preempt.

    Short jobs leave the system quickly, so few jobs wait, and the mean completion time is small. Long or large jobs may
    starve. The run times must be known or estimated.

    * ``sjf``: size = run time (shortest job first).
    * ``ssf``: size = gang size x run time (smallest service first).
    * ``lpt``: the reverse, longest run time first. If all jobs are present at the beginning, the makespan is small,
      because no long job begins late.

    Parameters
    ----------
    key : "time" (default) = sort by run time [s]; "gpu-time" = sort by gang size x run time [GPU s]
    strict : True = the first job that does not fit blocks all jobs behind it; False (default) = such jobs are skipped
    longest : True = largest first; False (default) = smallest first
    placement : placement rule of all jobs; default best fit
    estimator, sigma, estimator_seed : source of run times, see :class:`EstimatingScheduler`; default true run times

    Notes
    -----
    Ties: the earliest arrival, then the lowest id. The field ``queue`` of a scenario overrides ``strict``. A decision
    point takes O(waiting log waiting).

    References
    ----------
    W. E. Smith, "Various optimizers for single-stage production", Naval Research Logistics Quarterly 3, 1956. Result:
    on one machine, SJF has the smallest mean completion time of all orders if all jobs are present at the beginning.
    R. L. Graham, "Bounds on multiprocessing timing anomalies", SIAM Journal on Applied Mathematics 17, 1969. Result:
    jobs of one GPU each, longest first, have a makespan of at most 4/3 of the smallest one.
    """

    strict: bool = False
    longest: bool = False

    @property
    def name(self) -> str:
        """Name in tables: ``sjf``, ``ssf`` or ``lpt``."""
        if self.longest:
            return "lpt"
        return "sjf" if self.key == "time" else "ssf"

    def rules(self, simulation: Simulation) -> ListRules:
        """Return the rules; the scenario may override the queue discipline."""
        strict = is_strict(simulation.view_for(self), self.strict)
        return self.by_size(simulation, strict=strict, largest=self.longest)
