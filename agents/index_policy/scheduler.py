"""An index policy as a scheduler, and its arrays for a new run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np

from gpusched_env.agents.index_policy.decisions import next_index
from gpusched_env.agents.index_policy.rule import IndexRule, scores_of
from gpusched_env.agents.index_policy.state import MEMORY_DTYPE, IndexState
from gpusched_env.agents.searched import SearchedRule
from gpusched_env.core.placement.rules import RULE_NUMBER
from gpusched_env.prediction import History, Known, find_predictor
from gpusched_env.prediction.history import CLASSES
from gpusched_env.problem.instance import Instance
from gpusched_env.problem.workload import Workload
from gpusched_env.simulator import CompiledScheduler, Simulation

WIDTHS: Final = ("consolidate", "rack", "pack")  # placement rules that a job accepts as it loses its patience


def allocate_index(instance: Instance, rule: IndexRule) -> IndexState:
    """Return the arrays of a run before its first event."""
    jobs = len(instance.workload)
    memory = np.zeros((), MEMORY_DTYPE)
    for name in ("hold", "least_run_s", "move_factor"):
        memory[name] = getattr(rule, name)
    memory["arrived"] = -1
    return IndexState(
        memory=memory,
        gang=rule.gang_scores(instance),
        scores=np.tile(scores_of(rule.prior[None]), (1 + CLASSES, 1)),
        class_of=np.zeros(jobs, np.int32),
        widths=np.array([RULE_NUMBER[name] for name in WIDTHS], np.int32),
        patience_s=rule.patience_of(instance),
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


def predictor_for(workload: Workload) -> str:
    """Return the predictor that did best on training windows with such columns."""
    known = Known.of(workload)
    if not np.isnan(known.limit_s).all():
        return "limit"
    return "quantile" if (known.user >= 0).any() or (known.name >= 0).any() else "none"


@dataclass
class IndexPolicy(SearchedRule, CompiledScheduler):
    """Give the GPUs to the jobs whose expected GPU time per completion is least.

    The score of a job is log2 of its gang size x the Gittins index of its class at the time for which it has made
    progress. The distributions of run times come from the jobs that have ended: no run time of another job is known. A
    waiting gang accepts only the fewest machines at first, later one rack, later any GPUs: its patience grows with what
    a wider placement costs. A gang that has lost much time by a wide placement moves as soon as a tighter one is free.

    Registered as ``learned:general``, the agent of the package; it is also played as ``learned`` without a name.

    Parameters
    ----------
    predictor : name of the predictor whose ranges are the classes; default empty = ``limit`` if jobs request run times,
        ``quantile`` if they tell users or names, otherwise ``none``. What any job of the log tells counts, also later
        ones: it stands for what a site knows of its own jobs. Of jobs, nothing is known before they are submitted

    Notes
    -----
    Scores are step functions of elapsed times. The policy wakes when the progress of a running job takes its score
    above that of a waiting job, and when a gang loses its patience. Scores are rounded to six decimals, and ties go to
    the lower row. A decision point takes O(n log n), n = number of jobs in the system.

    References
    ----------
    J. Gittins, "Bandit processes and dynamic allocation indices", JRSS B 41, 1979.
    """

    policy: ClassVar = next_index
    kind: ClassVar = "index policy"
    load = IndexRule.load

    predictor: str = ""

    def take(self, rule: IndexRule) -> None:
        """Play these weights, with a predictor that exists."""
        super().take(rule)
        if self.predictor:
            find_predictor(self.predictor)

    def begin(self, simulation: Simulation, alone: bool) -> IndexState:
        """Return the arrays of a run, with what is known before its jobs end."""
        self._history: History | None = None
        return allocate_index(simulation.instance, self.rule)

    @property
    def notes(self) -> dict[str, int]:
        """For how many jobs the predictor was not believed."""
        history = getattr(self, "_history", None)
        return {} if history is None else history.notes(self.name)

    def assist(self, simulation: Simulation, own: IndexState) -> None:
        """Take up arrivals and ends."""
        if own.history is None:
            instance = simulation.instance
            own.history = History(instance, self.predictor or predictor_for(instance.workload), self.rule.prior)
        self._history = history = own.history
        before = history.revision
        history.follow(simulation.arrays)
        own.class_of[:] = history.class_of
        if history.revision != before:
            own.scores[:] = scores_of(history.shares)
