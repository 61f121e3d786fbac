"""Shortest job first and smallest service first: non-preemptive orders by size."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from gpusched_env.baselines.estimates import SizeOrderedScheduler, is_strict
from gpusched_env.baselines.listed.keys import SIZE
from gpusched_env.baselines.listed.run import ListedRun, ListRules, listed_run
from gpusched_env.simulator import ClusterView, Decision, Simulation


@dataclass
class ShortestJobFirst(SizeOrderedScheduler):
    """Start waiting jobs in order of run time (SJF), or of gang size x run time (SSF); never preempt.

    Parameters
    ----------
    key : "time" = SJF; "gpu-time" = SSF
    strict : the first job that does not fit blocks all behind it (default: skip it)
    placement : placement rule of all jobs

    Notes
    -----
    Ties by arrival, then id. The scenario's ``queue`` overrides ``strict``. O(waiting log waiting) a decision point.
    """

    strict: bool = False

    @property
    def name(self) -> str:
        """Name: sjf or ssf."""
        return "sjf" if self.key == "time" else "ssf"

    def player(self, simulation: Simulation) -> ListedRun | None:
        """Give the compiled loop; there is none for estimates."""
        if type(self) is not ShortestJobFirst or self.estimator != "oracle":
            return None
        strict, by_gpus = is_strict(simulation.view_for(self), self.strict), self.key == "gpu-time"
        return listed_run(self, simulation, ListRules(SIZE, self.placement, strict=strict, by_gpus=by_gpus))

    def decide(self, view: ClusterView) -> Iterable[Decision]:
        """Start whatever fits, smallest first."""
        waiting = view.waiting
        if not len(waiting) or view.free_gpus == 0:
            return []
        return view.list_schedule(self.smallest_first(view, waiting), self.placement, is_strict(view, self.strict))
