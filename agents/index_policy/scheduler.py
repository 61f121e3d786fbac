"""An index policy as a scheduler."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from gpusched_env.agents.cards import file_of
from gpusched_env.agents.index_policy import loop
from gpusched_env.agents.index_policy.allocation import WIDTHS, allocate_index
from gpusched_env.agents.index_policy.moving import next_move
from gpusched_env.agents.index_policy.ranking import next_change_s, rank_jobs, score_jobs
from gpusched_env.agents.index_policy.rule import IndexRule
from gpusched_env.agents.index_policy.state import IndexState
from gpusched_env.baselines.compiled_loop import CompiledLoop
from gpusched_env.core.planning import Walk
from gpusched_env.instance import Instance
from gpusched_env.simulator import ClusterView, Decision, Preempt, Scheduler, Simulation, Start, Wait


@dataclass
class IndexPolicy(Scheduler):
    """Give the GPUs to the jobs with the smallest scores; a small network has written the scores into a table.

    The score of a job depends on its gang size, on the time for which it has made progress, and on the service of jobs
    of the same gang size that were submitted shortly before and after it. No run time is known. A waiting gang accepts
    only the fewest machines at first, later one rack, later any GPUs: its patience grows with what a wider placement
    costs. A gang that has lost much time by a wide placement moves as soon as a tighter one is free.

    Registered as ``learned:general``, the agent of the package; it is also played as ``learned`` without a name.

    Parameters
    ----------
    agent : name of an agent of the package
    path : instead, a file that ``python -m gpusched_env.agents.index_policy.search`` has written

    Raises
    ------
    SchedulerError : neither or both are given, or the file is missing or damaged

    Notes
    -----
    Scores are step functions of elapsed times. The policy wakes when the progress of a running job takes its score
    above that of a waiting job, and when a gang loses its patience. What a wait and the progress of similar jobs change
    counts from the next event on. Scores are rounded to six decimals, and ties go to the lower row. A decision point
    takes O(n log n), n = number of jobs in the system.
    """

    agent: str = ""
    path: str = ""
    rule: IndexRule = field(init=False, repr=False, compare=False)
    _plan: IndexState | None = field(init=False, repr=False, default=None)

    def __post_init__(self) -> None:
        """Read the weights."""
        self.rule = IndexRule.load(file_of("index policy", self.agent, self.path))

    @classmethod
    def playing(cls, rule: IndexRule) -> IndexPolicy:
        """Return a scheduler that plays a rule that is in no file."""
        policy = cls.__new__(cls)
        policy.agent, policy.path, policy.rule, policy._plan = "", "", rule, None
        return policy

    @property
    def name(self) -> str:
        """Name in tables."""
        return f"learned:{self.agent}" if self.agent else "learned"

    def reset(self, view: ClusterView) -> None:
        """Make the table of scores for the job classes of a new simulation."""
        self._plan = self.plan_of(view.simulation.instance)

    def plan_of(self, instance: Instance) -> IndexState:
        """Return the arrays of a run before its first event."""
        return allocate_index(instance, self.rule)

    def player(self, simulation: Simulation) -> CompiledLoop | None:
        """Return the compiled loop."""
        return self.compiled(simulation) if type(self) is IndexPolicy else None

    def compiled(self, simulation: Simulation) -> CompiledLoop:
        """Return the compiled loop, also for a subclass that decides in the same way."""
        plan = self.plan_of(simulation.instance)
        walk = Walk(order=plan.order, rules=plan.rules, verdicts=plan.verdicts)
        return CompiledLoop(simulation, loop.play_index, plan.memory, plan, walk)

    def decide(self, view: ClusterView) -> Iterable[Decision]:
        """Give the GPUs to the jobs with the smallest scores; ask to be woken when a running job may lose its GPUs."""
        plan, sim = self._plan, view.simulation.arrays
        assert plan is not None
        if score_jobs(sim, plan):
            count = rank_jobs(sim, plan)
            yield from view.preemptive_schedule(plan.order[:count].copy(), plan.rules[:count].copy())
        mover = next_move(sim, plan)
        if mover >= 0:
            yield Preempt(mover)
            if mover in view.waiting:  # at once, since a checkpoint takes no time
                yield Start(mover, WIDTHS[0])
        yield Wait(float(next_change_s(sim, plan)))

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the state of a run."""
        return self.__dict__ | {"_plan": None}
