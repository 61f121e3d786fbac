"""The arrays of an index policy for a new run."""

from __future__ import annotations

from typing import Final

import numpy as np

from gpusched_env.agents.index_policy.rule import IndexRule
from gpusched_env.agents.index_policy.state import MEMORY_DTYPE, IndexState
from gpusched_env.core.placement.rules import RULE_NUMBER
from gpusched_env.problem.instance import Instance

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
