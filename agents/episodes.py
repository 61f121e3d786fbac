"""One episode of each of several workloads, played side by side in one native batch of environments."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpusched_env.core.events import DECIDE
from gpusched_env.envs.cluster_env import ClusterEnv
from gpusched_env.envs.step import SKIP
from gpusched_env.envs.vector_runs import VectorRuns
from gpusched_env.errors import SchedulerError
from gpusched_env.simulator import Simulation


class Episodes:
    """Episodes of B workloads; each waits for an action until it is over.

    ``environment`` has the windows and the reward of the agent. Attributes: ``observations``, buffers into which the
    environments write, float32 [B, ...] by name; ``masks``, bool [B, actions]; ``shapes`` of a single environment.
    """

    def __init__(self, environment: ClusterEnv, seeds: Sequence[int], keep_logs: bool = False) -> None:
        drawn = {seed: environment.scenario.instance(seed) for seed in dict.fromkeys(seeds)}
        self.instances = [drawn[seed] for seed in seeds]
        self._runs = VectorRuns([environment] * len(seeds), self.instances, threads=1, keep_logs=keep_logs)
        for b, (instance, seed) in enumerate(zip(self.instances, seeds, strict=True)):
            self._runs.begin(b, instance, seed)
        self.observations = self._runs.batch.observations
        self.masks = self._runs.batch.mask.view(np.bool_)
        self.shapes = {name: array.shape[1:] for name, array in self.observations.items()}
        self._runs.play()

    @property
    def simulations(self) -> list[Simulation]:
        """Simulation of each episode."""
        return self._runs.simulations

    def clock_s(self) -> np.ndarray:
        """Return the simulated time of the decision that each episode waits for, float64 [B] [s]."""
        return self._runs.batch.episodes["clock_s"].copy()

    def waiting(self) -> np.ndarray:
        """Return the episodes that wait for an action; empty once all are over."""
        batch = self._runs.batch
        rows = np.flatnonzero(batch.episodes["outcome"] == DECIDE)
        if not self.masks[rows].any(axis=1).all():
            raise SchedulerError("an episode stalls: nothing runs, and the placement rules can start no waiting job")
        return rows

    def seen(self, rows: np.ndarray) -> tuple[dict[str, np.ndarray], np.ndarray]:
        """Return copies of the observations and of the masks, bool [rows, actions], of these episodes."""
        return {name: array[rows] for name, array in self.observations.items()}, self.masks[rows]

    def slots(self, b: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the jobs in the queue slots and in the running slots of an episode; -1 = empty."""
        return self._runs.batch.queue_slots[b], self._runs.batch.running_slots[b]

    def play(self, rows: np.ndarray, actions: Sequence[int] | np.ndarray) -> np.ndarray:
        """Play an action in each of these episodes; return the results of the steps, see envs.step_results."""
        batch = self._runs.batch
        batch.actions[:] = SKIP
        batch.actions[rows] = actions
        self._runs.play()
        return batch.results[rows]
