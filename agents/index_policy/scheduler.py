"""An index policy as a scheduler, and its arrays for a new run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np

from gpusched_env.agents.index_policy.decisions import next_index
from gpusched_env.agents.index_policy.rule import IndexRule, excess_of
from gpusched_env.agents.index_policy.state import MEMORY_DTYPE, IndexState
from gpusched_env.agents.searched import SearchedRule
from gpusched_env.core.placement.rules import RULE_NUMBER
from gpusched_env.portable.elementary import power
from gpusched_env.prediction import LEVELS, History, find_predictor
from gpusched_env.prediction.levels import tables
from gpusched_env.problem.instance import Instance
from gpusched_env.simulator import CompiledScheduler, Simulation

WIDTHS: Final = ("consolidate", "rack", "pack")  # placement rules that a job accepts as it loses its patience


def allocate_index(instance: Instance, rule: IndexRule, kinds: int) -> IndexState:
    """Return the arrays of a run before its first event, for so many classes of the history."""
    jobs = len(instance.workload)
    memory = np.zeros((), MEMORY_DTYPE)
    for name in ("patience", "move_factor"):
        memory[name] = getattr(rule, name)
    memory["held"], memory["arrived"] = power(2.0, rule.hold), -1
    return IndexState(
        memory=memory,
        gang=rule.gang_weights(instance),
        index_s=np.zeros((kinds, LEVELS)),
        left_s=np.zeros((kinds, LEVELS)),
        class_of=np.zeros(jobs, np.int32),
        widths=np.array([RULE_NUMBER[name] for name in WIDTHS], np.int32),
        excess=excess_of(instance),
        tightest=instance.cluster.tightest_tier(instance.classes[:, 1]),
        ideal_s=instance.ideal_iteration_s,
        order=np.zeros(jobs, np.int32),
        scratch=np.zeros(jobs, np.int32),
        keys=np.zeros(jobs),
        ranks=np.zeros(jobs),
        rules=np.zeros(jobs, np.int32),
        verdicts=np.zeros(jobs, np.int32),
        member=np.zeros(jobs, np.int8),
    )


@dataclass
class IndexPolicy(SearchedRule, CompiledScheduler):
    """Give the GPUs to the jobs whose expected GPU time per completion is least.

    The score of a job is gang size x Gittins index of its class at the time for which it has made progress; half of it
    if the job runs; and if not, what a preemption costs is added. The first gang that does not fit beside the jobs
    before it comes first if that promises more completions. The distributions of run times come from the jobs that have
    ended: no run time of another job is known. A waiting gang accepts only the fewest machines at first, later one
    rack, later any GPUs: it waits for as long as the wider placement is expected to cost. A gang that has lost as much
    by a wide placement as a move costs moves as soon as a tighter one is free.

    Registered as ``learned:general``, the agent of the package; it is also played as ``learned`` without a name.

    Parameters
    ----------
    predictor : name of the predictor whose classes count, default ``nested``: limits, queues, users, gangs and names
        tell as much as the jobs with the same ones that have ended

    Notes
    -----
    Scores are step functions of elapsed times. The policy wakes when the progress of a running job takes its score
    above that of a waiting job, when it goes on above one, and when a gang loses its patience. Ties go to the lower
    row. A decision point takes O(n log n), n = number of jobs in the system.

    References
    ----------
    J. Gittins, "Bandit processes and dynamic allocation indices", JRSS B 41, 1979.
    """

    policy: ClassVar = next_index
    kind: ClassVar = "index policy"
    load = IndexRule.load

    predictor: str = "nested"

    def take(self, rule: IndexRule) -> None:
        """Play these weights, with a predictor that exists."""
        super().take(rule)
        find_predictor(self.predictor)

    def begin(self, simulation: Simulation, alone: bool) -> IndexState:
        """Return the arrays of a run, with what is known before its jobs end."""
        history = self._history = History(simulation.instance, self.predictor, self.rule.prior)
        own = allocate_index(simulation.instance, self.rule, len(history.shares))
        self._write(own, history)
        return own

    @property
    def notes(self) -> dict[str, int]:
        """For how many jobs the predictor was not believed."""
        history = getattr(self, "_history", None)
        return {} if history is None else history.notes(self.name)

    def assist(self, simulation: Simulation, own: IndexState) -> None:
        """Take up arrivals and ends."""
        if own.history is None:
            own.history = History(simulation.instance, self.predictor, self.rule.prior)
        self._history = history = own.history
        history.follow(simulation.arrays)
        self._write(own, history)

    def _write(self, own: IndexState, history: History) -> None:
        own.history = history
        own.class_of[:] = history.class_of
        if news := history.news():
            found = tables(history.shares[news])
            own.index_s[news], own.left_s[news] = found.index_s, found.mean_s
