"""An index policy as a scheduler, and its arrays for a new run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np

from gpusched_env.agents.index_policy.decisions import next_index
from gpusched_env.agents.index_policy.rule import IndexRule
from gpusched_env.agents.index_policy.state import MEMORY_DTYPE, IndexState
from gpusched_env.agents.searched import SearchedRule
from gpusched_env.core.placement.rules import RULE_NUMBER
from gpusched_env.problem.instance import Instance
from gpusched_env.simulator import CompiledScheduler, Simulation

WIDTHS: Final = ("consolidate", "rack", "pack")  # placement rules that a job accepts as it loses its patience


def allocate_index(instance: Instance, rule: IndexRule) -> IndexState:
    """Return the arrays of a run before its first event."""
    jobs = len(instance.workload)
    memory = np.zeros((), MEMORY_DTYPE)
    for name in ("hold", "least_run_s", "move_factor", "reach", "burst_s", "series_s", "censored"):
        memory[name] = getattr(rule, name)
    tables = rule.tables(instance)
    earlier, later = neighbours(instance.workload.jobs["gpus"])
    return IndexState(
        memory=memory,
        thresholds_s=tables.thresholds_s,
        scores=tables.scores,
        aging=tables.aging,
        widths=np.array([RULE_NUMBER[name] for name in WIDTHS], np.int32),
        patience_s=tables.patience_s,
        tightest=instance.cluster.tightest_tier(instance.classes[:, 1]),
        ideal_s=tables.ideal_s,
        order=np.zeros(jobs, np.int32),
        scratch=np.zeros(jobs, np.int32),
        keys=np.zeros(jobs),
        ranks=np.zeros(jobs),
        rules=np.zeros(jobs, np.int32),
        verdicts=np.zeros(jobs, np.int32),
        member=np.zeros(jobs, np.int8),
        earlier=earlier,
        later=later,
        evidence=np.zeros(jobs, np.int32),
        told=np.zeros((jobs, 2), np.int32),
        tellers=np.zeros((jobs, 2), np.int32),
    )


def neighbours(gpus: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the row of the job of equal gang size submitted before each job, and after it; -1 = none."""
    order = np.argsort(gpus, kind="stable").astype(np.int32)
    earlier, later = np.full(len(gpus), -1, np.int32), np.full(len(gpus), -1, np.int32)
    alike = gpus[order[1:]] == gpus[order[:-1]]
    earlier[order[1:][alike]] = order[:-1][alike]
    later[order[:-1][alike]] = order[1:][alike]
    return earlier, later


@dataclass
class IndexPolicy(SearchedRule, CompiledScheduler):
    """Give the GPUs to the jobs with the smallest scores; a small network has written the scores into a table.

    The score of a job depends on its gang size, on the time for which it has made progress, and on the service of jobs
    of the same gang size that were submitted shortly before and after it. No run time is known. A waiting gang accepts
    only the fewest machines at first, later one rack, later any GPUs: its patience grows with what a wider placement
    costs. A gang that has lost much time by a wide placement moves as soon as a tighter one is free.

    Registered as ``learned:general``, the agent of the package; it is also played as ``learned`` without a name.

    Notes
    -----
    Scores are step functions of elapsed times. The policy wakes when the progress of a running job takes its score
    above that of a waiting job, and when a gang loses its patience. What a wait and the progress of similar jobs change
    counts from the next event on. Scores are rounded to six decimals, and ties go to the lower row. A decision point
    takes O(n log n), n = number of jobs in the system.
    """

    policy: ClassVar = next_index
    kind: ClassVar = "index policy"
    load = IndexRule.load

    def begin(self, simulation: Simulation, alone: bool) -> IndexState:
        """Make the table of scores for the job classes of a run."""
        return allocate_index(simulation.instance, self.rule)
