"""An index policy as a scheduler."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from gpusched_env.agents.index_policy import loop
from gpusched_env.agents.index_policy.moving import next_move
from gpusched_env.agents.index_policy.ranking import next_change_s, rank_jobs, score_jobs
from gpusched_env.agents.index_policy.rule import IndexRule
from gpusched_env.agents.index_policy.allocation import allocate_index
from gpusched_env.agents.index_policy.state import IndexState
from gpusched_env.baselines.compiled_loop import CompiledLoop
from gpusched_env.core.planning import Walk
from gpusched_env.simulator import ClusterView, Decision, Preempt, Scheduler, Simulation, Wait


@dataclass
class IndexPolicy(Scheduler):
    """Give the GPUs to the jobs with the smallest scores, which a small network computed in advance.

    The score of a job depends on its gang size, on the time for which it has made progress, and on the service of the
    jobs of the same gang size that were submitted shortly before and after it. No run time is known. A waiting job
    accepts only few machines, later one rack, later any GPUs: its patience grows with what a wider placement costs.

    Parameters
    ----------
    rule : the weights

    Notes
    -----
    Scores are step functions of elapsed times, so they change at few points in time. They are rounded to six decimals,
    and ties go to the lower row. A decision point takes O(n log n), n = number of jobs in the system.
    """

    rule: IndexRule = field(default_factory=IndexRule)
    _plan: IndexState | None = field(init=False, repr=False, default=None)

    @property
    def name(self) -> str:
        """Name in tables."""
        return "learned"

    def reset(self, view: ClusterView) -> None:
        """Make the table of scores for the job classes of a new simulation."""
        self._plan = allocate_index(view.simulation.instance, self.rule)

    def player(self, simulation: Simulation) -> CompiledLoop | None:
        """Return the compiled loop."""
        if type(self) is not IndexPolicy:
            return None
        plan = allocate_index(simulation.instance, self.rule)
        walk = Walk(order=plan.order, rules=plan.rules, verdicts=plan.verdicts)
        return CompiledLoop(simulation, loop.play_index, plan.memory, plan, walk)

    def decide(self, view: ClusterView) -> Iterable[Decision]:
        """Give the GPUs to the jobs with the smallest scores, and ask to be woken when a score changes."""
        plan, sim = self._plan, view.simulation.arrays
        assert plan is not None
        if score_jobs(sim, plan):
            count = rank_jobs(sim, plan)
            yield from view.preemptive_schedule(plan.order[:count].copy(), plan.rules[:count].copy())
        mover = next_move(sim, plan)
        if mover >= 0:
            yield Preempt(mover)
        yield Wait(float(next_change_s(sim, plan)))

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the state of a run."""
        return self.__dict__ | {"_plan": None}
