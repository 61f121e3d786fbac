"""A packing index as a scheduler."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Final

import numpy as np

from gpusched_env.agents.cards import file_of
from gpusched_env.agents.checkpoints import checkpoint, weights_of, write_checkpoint
from gpusched_env.agents.packing_index.knapsack import MEMORY_DTYPE, PackingState, next_packed
from gpusched_env.core.placement.rules import RULE_NUMBER
from gpusched_env.simulator import CompiledScheduler, Simulation

FORMAT: Final = "gpusched-packing-index-1"
# Weights of the logarithm of a job's value; the defaults give it the value 1 / remaining run time.
NAMES: Final = ("time", "gang", "square", "hold", "near")
DEFAULTS: Final = (1.0, 0.0, 0.0, 0.0, 0.0)


@dataclass
class PackingIndex(CompiledScheduler):
    """Run the set of jobs that fits on the GPUs and has the largest value; preempt the others.

    The logarithm of the value of a job of g GPUs with r seconds left is, with c the cost of a preemption [s]::

        - time ln(r) + gang ln(g) + square ln(g)^2, if it runs + max(hold + near ln(1 + 10 c / r), 0)

    A gang of several GPUs that fits into a machine waits for one; all others take any GPUs.

    Parameters
    ----------
    agent : name of an agent of the package
    path : instead, a file that ``python -m studies.index_search.packing_index`` has written

    Raises
    ------
    SchedulerError : neither or both are given, or the file is missing or damaged

    Notes
    -----
    Value per GPU orders the jobs of the set, which start in this order, and then the others. Ties: running jobs, then
    the lower row. A decision point takes O(n x GPUs), n = number of jobs in the system.
    """

    policy: ClassVar = next_packed
    agent: str = ""
    path: str = ""
    clairvoyant: bool = field(init=False, default=True)
    weights: tuple[float, ...] = field(init=False, repr=False)
    # If running jobs were worth less than waiting ones, jobs could take turns without progress for ever.
    _least_bonus: float = field(init=False, repr=False, default=0.0)

    def __post_init__(self) -> None:
        """Read the weights."""
        file = file_of("packing index", self.agent, self.path)
        with checkpoint(file, FORMAT, "a packing index") as (_, stored):
            self.weights = weights_of(stored, NAMES)

    @classmethod
    def playing(cls, weights: tuple[float, ...], least_bonus: float = 0.0) -> PackingIndex:
        """Return a scheduler that plays weights, in the order of NAMES, that are in no file.

        ``least_bonus`` replaces the 0 of the maximum in the value of a running job.
        """
        policy = cls.__new__(cls)
        policy.agent, policy.path, policy.clairvoyant, policy.weights = "", "", True, weights
        policy._least_bonus = least_bonus
        return policy

    @property
    def name(self) -> str:
        """Name in tables."""
        return f"learned:{self.agent}" if self.agent else "learned"

    def begin(self, simulation: Simulation, alone: bool) -> PackingState:
        """Return the arrays of a run."""
        jobs, cluster = len(simulation.instance.workload), simulation.instance.cluster
        sizes = np.arange(cluster.gpus + 1)
        narrow = (sizes > 1) & (sizes <= cluster.nodes["gpus"].max())
        rules = np.where(narrow, RULE_NUMBER["consolidate"], RULE_NUMBER["pack"]).astype(np.int32)
        memory = np.zeros((), MEMORY_DTYPE)
        memory["least_bonus"] = self._least_bonus
        order, scratch, listed_rules, verdicts = (np.zeros(jobs, np.int32) for _ in range(4))
        values, keys, ranks = (np.zeros(jobs) for _ in range(3))
        return PackingState(
            memory=memory,
            weights=np.array(self.weights),
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


def save_weights(path: Path, weights: tuple[float, ...], about: Mapping[str, Any]) -> None:
    """Write weights, in the order of NAMES, with ``about`` as metadata."""
    write_checkpoint(
        path, {"format": FORMAT, "weights": list(NAMES), "about": dict(about)}, {"weights": np.array(weights)}
    )
