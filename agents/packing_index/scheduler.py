"""A packing index as a scheduler."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np

from gpusched_env.agents.cards import file_of
from gpusched_env.agents.checkpoints import checkpoint, weights_of, write_checkpoint
from gpusched_env.agents.packing_index import loop
from gpusched_env.agents.packing_index.knapsack import MEMORY_DTYPE, PackingState, Takes, list_values, pack_best
from gpusched_env.baselines.compiled_loop import CompiledLoop
from gpusched_env.core.placement.rules import RULE_NUMBER
from gpusched_env.core.planning import Walk
from gpusched_env.simulator import ClusterView, Decision, Scheduler, Simulation

FORMAT: Final = "gpusched-packing-index-1"
# Weights of the logarithm of a job's value; the defaults give it the value 1 / remaining run time.
NAMES: Final = ("time", "gang", "square", "hold", "near")
DEFAULTS: Final = (1.0, 0.0, 0.0, 0.0, 0.0)
_LARGEST: Final = 1 << 26  # entries of the table of the knapsack that a compiled loop allocates for all jobs


@dataclass
class PackingIndex(Scheduler):
    """Run the set of jobs that fits on the GPUs and has the largest value; preempt the others.

    The logarithm of the value of a job of g GPUs with r seconds left is, with c the cost of a preemption [s]::

        - time ln(r) + gang ln(g) + square ln(g)^2, if it runs + max(hold + near ln(1 + 10 c / r), 0)

    A gang of several GPUs that fits into a machine waits for one; all others take any GPUs.

    Parameters
    ----------
    agent : name of an agent of the package
    path : instead, a file that ``python -m gpusched_env.agents.packing_index.search`` has written

    Raises
    ------
    SchedulerError : neither or both are given, or the file is missing or damaged

    Notes
    -----
    Value per GPU orders the jobs of the set, which start in this order, and then the others. Ties: running jobs, then
    the lower row. A decision point takes O(n x GPUs), n = number of jobs in the system.
    """

    agent: str = ""
    path: str = ""
    clairvoyant: bool = field(init=False, default=True)
    weights: tuple[float, ...] = field(init=False, repr=False)
    # If running jobs were worth less than waiting ones, jobs could take turns without progress for ever.
    _least_bonus: float = field(init=False, repr=False, default=0.0)
    _plan: PackingState | None = field(init=False, repr=False, default=None)
    _table: Takes | None = field(init=False, repr=False, default=None)

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
        policy._least_bonus, policy._plan, policy._table = least_bonus, None, None
        return policy

    @property
    def name(self) -> str:
        """Name in tables."""
        return f"learned:{self.agent}" if self.agent else "learned"

    def reset(self, view: ClusterView) -> None:
        """Allocate the arrays of a new simulation."""
        self._plan, self._table = self._state(view.simulation), None

    def player(self, simulation: Simulation) -> CompiledLoop | None:
        """Return the compiled loop; None if its table would be large."""
        jobs, sizes = len(simulation.instance.workload), simulation.instance.cluster.gpus + 1
        if type(self) is not PackingIndex or jobs * sizes > _LARGEST:
            return None
        plan, table = self._state(simulation), _table(jobs, sizes)
        walk = Walk(order=plan.order, rules=plan.rules, verdicts=plan.verdicts)
        return CompiledLoop(simulation, loop.play_packing, plan.memory, plan, table, walk)

    def decide(self, view: ClusterView) -> Iterable[Decision]:
        """Pack the cluster, and preempt and start jobs accordingly."""
        plan, sim = self._plan, view.simulation.arrays
        assert plan is not None
        if not len(view.waiting):
            return []
        count = int(list_values(sim, plan))
        if self._table is None or len(self._table.takes) < count:
            self._table = _table(2 * count, view.cluster.gpus + 1)
        pack_best(sim, plan, self._table, count)
        return view.preemptive_schedule(plan.order[:count].copy(), plan.rules[:count].copy())

    def _state(self, simulation: Simulation) -> PackingState:
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
        )

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the state of a run."""
        return self.__dict__ | {"_plan": None, "_table": None}


def _table(jobs: int, sizes: int) -> Takes:
    return Takes(takes=np.zeros((jobs, sizes), np.int8))


def save_weights(path: Path, weights: tuple[float, ...], about: Mapping[str, Any]) -> None:
    """Write weights, in the order of NAMES, with ``about`` as metadata."""
    write_checkpoint(
        path, {"format": FORMAT, "weights": list(NAMES), "about": dict(about)}, {"weights": np.array(weights)}
    )
