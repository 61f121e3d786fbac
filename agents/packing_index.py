"""A preemptive scheduler that packs the cluster by value: a knapsack whose values have few learned weights."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np

from gpusched_env.agents.cards import file_of
from gpusched_env.agents.checkpoints import read_checkpoint, write_checkpoint
from gpusched_env.core.handle import Handle, array, kernel
from gpusched_env.core.placement.rules import rule_number
from gpusched_env.portable import arrays
from gpusched_env.simulator import ClairvoyantView, ClusterView, Decision, Scheduler

FORMAT: Final = "gpusched-packing-index-1"
# Weights of the logarithm of a job's value; the defaults give it the value 1 / remaining run time.
NAMES: Final = ("time", "gang", "square", "hold", "near")
DEFAULTS: Final = (1.0, 0.0, 0.0, 0.0, 0.0)
NEAR: Final = 10.0  # costs of a preemption in which a job is near its end
SHORTEST_S: Final = 1.0  # [s] shortest remaining time whose logarithm is taken
DECIMALS: Final = 9  # decimals of the logarithm of a value: closer ones tie


class Packing(Handle):
    """A knapsack problem and its solution."""

    gangs = array(np.int64, "jobs")  # [GPU]
    values = array(np.float64, "jobs")
    best = array(np.float64, "budgets")  # value of the best set of the first jobs, for each budget of GPUs
    takes = array(np.int8, "jobs", "budgets")  # 1 = the best set of the first jobs contains this job
    chosen = array(np.int8, "jobs")  # 1 = the best set of all jobs contains this job


@kernel
def pack_best(packing: Packing, count: int, gpus: int) -> None:
    """Choose the set of the first ``count`` jobs whose gangs fit together on ``gpus`` GPUs and whose value is largest.

    Ties: a job joins a set only if the value rises, so earlier jobs stay. O(count x gpus).
    """
    for budget in range(gpus + 1):
        packing.best[budget] = 0.0
    for i in range(count):
        gang = packing.gangs[i]
        for budget in range(gpus, -1, -1):
            packing.takes[i, budget] = 0
            if budget >= gang and packing.best[budget - gang] + packing.values[i] > packing.best[budget]:
                packing.best[budget] = packing.best[budget - gang] + packing.values[i]
                packing.takes[i, budget] = 1
    budget = gpus
    for i in range(count - 1, -1, -1):
        packing.chosen[i] = packing.takes[i, budget]
        if packing.chosen[i] == 1:
            budget -= packing.gangs[i]


@dataclass
class PackingIndex(Scheduler):
    """Run the set of jobs that fits on the GPUs and has the largest value; preempt the others.

    The logarithm of the value of a job of g GPUs with r seconds left is, with c the cost of a preemption [s]::

        - time ln(r) + gang ln(g) + square ln(g)^2, if it runs + hold + near ln(1 + 10 c / r)

    A gang of several GPUs that fits into a machine waits for one; all others take any GPUs.

    Parameters
    ----------
    agent : name of an agent of the package
    path : instead, a file that ``python -m gpusched_env.agents.packing_index_search`` has written

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
    _packing: Packing | None = field(init=False, repr=False, default=None)

    def __post_init__(self) -> None:
        """Read the weights."""
        file = file_of("packing index", self.agent, self.path)
        self.weights = tuple(read_checkpoint(file, FORMAT, "a packing index")[1]["weights"].tolist())

    @classmethod
    def playing(cls, weights: tuple[float, ...]) -> PackingIndex:
        """Return a scheduler that plays weights, in the order of NAMES, that are in no file."""
        policy = cls.__new__(cls)
        policy.agent, policy.path, policy.weights, policy._packing = "", "", weights, None
        policy.clairvoyant = True
        return policy

    @property
    def name(self) -> str:
        """Name in tables."""
        return f"learned:{self.agent}" if self.agent else "learned"

    def reset(self, view: ClusterView) -> None:
        """Find the gangs that fit into a machine."""
        sizes = np.arange(view.cluster.gpus + 1)
        narrow = (sizes > 1) & (sizes <= view.cluster.nodes["gpus"].max())
        self._rules = np.where(narrow, rule_number("consolidate"), rule_number("pack")).astype(np.int32)
        self._packing = None

    def decide(self, view: ClusterView) -> Iterable[Decision]:
        """Pack the cluster, and preempt and start jobs accordingly."""
        assert isinstance(view, ClairvoyantView)
        if not len(view.waiting):
            return []
        running = np.sort(view.running)
        rows = np.concatenate([running, view.waiting])
        logs = self._log_values(view, rows, len(running))
        gangs = view.gpus[rows]
        # The sort is stable: running jobs win ties, then lower rows.
        order = np.argsort(np.round(arrays.log(gangs.astype(float)) - logs, DECIMALS), kind="stable")
        rows, gangs, logs = rows[order], gangs[order], logs[order]
        if gangs.sum() > view.cluster.gpus:
            chosen = self._chosen(gangs, arrays.exp(logs - logs.max()), view.cluster.gpus)
            rows = np.concatenate([rows[chosen], rows[~chosen]])
        return view.preemptive_schedule(rows, self._rules[view.gpus[rows]])

    def _log_values(self, view: ClairvoyantView, rows: np.ndarray, running: int) -> np.ndarray:
        """Return the logarithms of the values of jobs, of which the first ``running`` run."""
        time, gang, square, hold, near = self.weights
        left_s = np.maximum(view.remaining_s(rows), SHORTEST_S)
        size = arrays.log(view.gpus[rows].astype(float))
        logs = gang * size + square * size * size - time * arrays.log(left_s)
        cost_s = view.semantics.checkpoint_s + view.semantics.restore_s
        logs[:running] += hold + near * arrays.log(1.0 + NEAR * cost_s / left_s[:running])
        return np.round(logs, DECIMALS)

    def _chosen(self, gangs: np.ndarray, values: np.ndarray, gpus: int) -> np.ndarray:
        """Return which jobs are in the most valuable set that fits, bool [jobs]."""
        count = len(gangs)
        if self._packing is None or len(self._packing.gangs) < count:
            room = 2 * count
            self._packing = Packing(
                gangs=np.zeros(room, np.int64),
                values=np.zeros(room),
                best=np.zeros(gpus + 1),
                takes=np.zeros((room, gpus + 1), np.int8),
                chosen=np.zeros(room, np.int8),
            )
        self._packing.gangs[:count] = gangs
        self._packing.values[:count] = values
        pack_best(self._packing, count, gpus)
        return self._packing.chosen[:count] == 1

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the arrays of a run."""
        return self.__dict__ | {"_packing": None}


def save_weights(path: Path, weights: tuple[float, ...], about: Mapping[str, Any]) -> None:
    """Write weights, in the order of NAMES, with ``about`` as metadata."""
    write_checkpoint(
        path, {"format": FORMAT, "weights": list(NAMES), "about": dict(about)}, {"weights": np.array(weights)}
    )
