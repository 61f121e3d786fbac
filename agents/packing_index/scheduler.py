"""A packing index as a scheduler."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Final

import numpy as np

from gpusched_env.agents.packing_index.knapsack import MEMORY_DTYPE, PackingState, next_packed
from gpusched_env.agents.searched import SearchedRule
from gpusched_env.core.placement.rules import RULE_NUMBER
from gpusched_env.simulator import CompiledScheduler, Simulation

FORMAT: Final = "gpusched-packing-index-1"
# Weights of the logarithm of a job's value; the defaults give it the value 1 / remaining run time.
NAMES: Final = ("time", "gang", "square", "hold", "near")
DEFAULTS: Final = (1.0, 0.0, 0.0, 0.0, 0.0)


@dataclass
class PackingIndex(SearchedRule, CompiledScheduler):
    """Run the set of jobs that fits on the GPUs and has the largest value; preempt the others.

    The logarithm of the value of a job of g GPUs with r seconds left is, with c the cost of a preemption [s]::

        - time ln(r) + gang ln(g) + square ln(g)^2, if it runs + max(hold + near ln(1 + 10 c / r), 0)

    A gang of several GPUs that fits into a machine waits for one; all others take any GPUs.

    Notes
    -----
    Value per GPU orders the jobs of the set, which start in this order, and then the others. Ties: running jobs, then
    the lower row. A decision point takes O(n x GPUs), n = number of jobs in the system.
    """

    policy: ClassVar = next_packed
    kind: ClassVar = "packing index"
    format: ClassVar = FORMAT
    names: ClassVar = NAMES
    clairvoyant: bool = field(init=False, default=True)
    # Instead of the 0 in the value of a running job; below 0, jobs could take turns without progress for ever.
    least_bonus: float = field(init=False, repr=False, default=0.0)

    def begin(self, simulation: Simulation, alone: bool) -> PackingState:
        """Return the arrays of a run."""
        jobs, cluster = len(simulation.instance.workload), simulation.instance.cluster
        sizes = np.arange(cluster.gpus + 1)
        narrow = (sizes > 1) & (sizes <= cluster.nodes["gpus"].max())
        rules = np.where(narrow, RULE_NUMBER["consolidate"], RULE_NUMBER["pack"]).astype(np.int32)
        memory = np.zeros((), MEMORY_DTYPE)
        memory["least_bonus"] = self.least_bonus
        order, scratch, listed_rules, verdicts = (np.zeros(jobs, np.int32) for _ in range(4))
        values, keys, ranks = (np.zeros(jobs) for _ in range(3))
        return PackingState(
            memory=memory,
            weights=np.array(self.rule),
            rule_of_size=rules,
            order=order,
            scratch=scratch,
            values=values,
            keys=keys,
            ranks=ranks,
            rules=listed_rules,
            verdicts=verdicts,
            best=np.zeros(len(sizes)),
            takes=np.zeros((0, len(sizes)), np.int8),
        )

    def assist(self, simulation: Simulation, own: PackingState) -> None:
        """Make a table for twice as many jobs as there are now."""
        world = simulation.arrays.world
        jobs = int(world["waiting"] + world["running"])
        own.replace("takes", np.zeros((2 * jobs, own.takes.shape[1]), np.int8))
