"""Water filling over entities, such as groups of users. Each entity has a weight, which it splits among its jobs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from gpusched_env.baselines.gavel.objectives import Feasible
from gpusched_env.baselines.gavel.problem import Problem
from gpusched_env.baselines.gavel.program import SLACKS, Optimum, program_of


class Entity(NamedTuple):
    """Jobs (positions in the problem, by arrival) that share one weight, above 0.

    ``rule`` : "fairness" splits it by the weights of the jobs that can still rise; "fifo" gives it to the first one.
    """

    jobs: Sequence[int]
    weight: float = 1.0
    rule: str = "fairness"

    def split(self, weights: np.ndarray, rising: np.ndarray) -> dict[int, float]:
        """Weight of each job that can still rise; ``weights`` are those of all jobs."""
        left = [job for job in self.jobs if rising[job]]
        if self.rule == "fifo":
            return dict.fromkeys(left[:1], self.weight)
        total = float(weights[left].sum())
        return {job: self.weight * float(weights[job]) / total for job in left}


def fill_by_entity(problem: Problem, entities: Sequence[Entity], feasible: Feasible = None) -> Optimum | None:
    """Raise z_m thr(m) / thr_prop(m) of each job in proportion to its part of its entity's weight, until none can rise.

    When a job cannot rise any more, its weight goes to the other jobs of its entity. Jobs are frozen when their
    constraints have positive multipliers, as in :func:`~gpusched_env.baselines.gavel.objectives.water_filling`.

    References
    ----------
    D. Narayanan et al., OSDI 2020, section 4.3; stanford-futuredata/gavel,
    scheduler/policies/max_min_fairness_water_filling.py.
    """
    program, scale = program_of(problem, feasible), problem.gangs / problem.proportional
    rising, level = np.ones(len(scale), bool), np.zeros(len(scale))
    while True:
        weights = np.zeros(len(scale))
        for entity in entities:
            for job, weight in entity.split(problem.weights, rising).items():
                weights[job] = weight
        found = next(filter(None, (program.raise_levels(scale, level, weights, slack) for slack in SLACKS)), None)
        if found is None:
            return None
        level += weights * found.value
        stuck = found.binding if found.binding.any() else weights > 0  # fallback: rounding hides all multipliers
        rising &= ~stuck
        if not rising.any():
            return found._replace(value=float(level.min()))
