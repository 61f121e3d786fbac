"""The runs of a vector environment, their buffers, and the threads that step them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from itertools import pairwise
from typing import Any, Final

import numpy as np

from gpusched_env.core.events import TOO_LATE
from gpusched_env.core.state import State, grown, lengths, longest, refill
from gpusched_env.envs.batch import Batch
from gpusched_env.envs.checks import CheckedGangs, check_begin
from gpusched_env.envs.cluster_env import ClusterEnv
from gpusched_env.envs.step import DRAIN, LATE, OVER, RESUME, SKIP, STOPPED, discard_log, has_stopped
from gpusched_env.errors import GpuschedError
from gpusched_env.problem.instance import Instance
from gpusched_env.simulator import Simulation
from gpusched_env.support.units import BEYOND_CLOCK

_LEAST: Final = 16  # environments per thread below which another thread does not pay


class VectorRuns:
    """The runs, the buffers (``batch``) and the threads of B environments.

    Parameters
    ----------
    singles : a single environment for each, which holds its scenario and options
    instances : first instance of each environment
    """

    def __init__(
        self, singles: Sequence[ClusterEnv], instances: Sequence[Instance], threads: int | None, keep_logs: bool
    ) -> None:
        self._singles, self._keeps_logs = singles, keep_logs
        self._sizes = longest(instances)
        for name in ("classes", "sizes"):  # spare room: other seeds may draw more job classes, and each is a size
            self._sizes[name] += self._sizes[name] // 4
        first = max(singles, key=lambda single: single.axes["nodes"])  # its observation has room for all
        self.state = State(len(singles), self._sizes)
        runs = [self.state.handle(b) for b in range(len(singles))]
        self.batch = Batch(
            first.windows, first.axes, runs, first.skips_forced_waits, first.reward_weights, keep_logs,
            first.refusal_cost,
        )  # fmt: skip
        self.simulations: list[Simulation] = [
            Simulation(instance, arrays=run) for instance, run in zip(instances, runs, strict=True)
        ]
        self._checked: CheckedGangs = {}  # scenarios never have the same Cluster object
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        parts = max(1, min(threads or cores, len(singles) // _LEAST if threads is None else len(singles)))
        edges = [len(singles) * part // parts for part in range(parts + 1)]
        self._parts = list(pairwise(edges))
        self._players = [self.batch.player(*part) for part in self._parts]
        self._pool = self._threads()

    def _threads(self) -> ThreadPoolExecutor | None:
        others = len(self._parts) - 1
        return ThreadPoolExecutor(others, "gpusched-step") if others else None

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the threads: they cannot be copied."""
        return self.__dict__ | {"_pool": None, "_players": None}

    def __setstate__(self, kept: dict[str, Any]) -> None:
        """Bind the copied arrays and start threads."""
        self.__dict__.update(kept)
        self._checked = {}
        self._bind()
        self._pool = self._threads()

    def begin(self, b: int, instance: Instance, seed: int) -> None:
        """Load an instance into environment ``b``; its next action is RESUME, which plays up to the first decision."""
        needed = lengths(instance)
        if any(needed[name] > self._sizes[name] for name in needed):
            self._grow({name: max(needed[name], size) for name, size in self._sizes.items()})
        refill(self.state, b, instance, seed)
        simulation = Simulation(instance, arrays=self.simulations[b].arrays)
        single = self._singles[b]
        check_begin(simulation, single.windows, self._checked)
        self.simulations[b] = simulation
        self.batch.begin(b, instance, single.limit(instance))
        self.batch.actions[b] = RESUME

    def copy(self, source: int, target: int) -> None:
        """Put environment ``target`` into the state of ``source``, event log included."""
        run = self.simulations[source]
        self.simulations[target] = Simulation(run.instance, arrays=self.simulations[target].arrays)
        self.simulations[target].restore(run.state())
        self.batch.copy(source, target)

    def _grow(self, sizes: dict[str, int]) -> None:
        self._sizes = sizes
        self.state = grown(self.state, sizes)
        self._bind()

    def _bind(self) -> None:
        """Use the arrays of ``state`` from now on; all data has been copied to them."""
        runs = [self.state.handle(b) for b in range(len(self.simulations))]
        for simulation, run in zip(self.simulations, runs, strict=True):
            simulation.arrays = run
        self.batch.bind(runs)
        self._players = [self.batch.player(*part) for part in self._parts]

    def play(self) -> bool:
        """Carry out ``batch.actions`` in every environment; return whether an episode has ended."""
        bits = self._drive()
        while bits & STOPPED:
            stopped = has_stopped(self.batch.episodes) & (self.batch.actions != SKIP)
            for b in np.flatnonzero(stopped).tolist():
                self._drain(b)
            self.batch.actions[:] = np.where(stopped, RESUME, SKIP)
            bits = self._drive() | bits & (DRAIN | OVER | LATE)
        if self._singles[0].windows.predictor:
            this = self.batch
            again = [b for b, simulation in enumerate(self.simulations) if this.foresee(b, simulation)]
            this.write_again(again)
        if bits & DRAIN:
            world, events, gpus = self.state.world, self.state.events.shape[1], self.state.event_gpus.shape[1]
            full = (2 * world["events"] > events) | (2 * world["event_gpus"] > gpus)
            for b in np.flatnonzero(full).tolist():
                self.simulations[b].drain()
        if bits & LATE:
            late = np.flatnonzero(self.batch.episodes["outcome"] == TOO_LATE).tolist()
            raise GpuschedError(f"environment {late[0]}: {BEYOND_CLOCK}")
        return bits & OVER != 0

    @property
    def has_failed(self) -> bool:
        """Whether an error inside a kernel has ended a run."""
        return any(simulation.arrays.failure is not None for simulation in self.simulations)

    def _drain(self, b: int) -> None:
        """Empty the log of environment ``b``, which is full."""
        if self._keeps_logs:
            self.simulations[b].drain()
        else:
            discard_log(self.simulations[b].arrays)

    def _drive(self) -> int:
        if self._pool is None:
            return self.batch.play()
        mine, *others = self._players
        futures = [self._pool.submit(play) for play in others]
        try:
            bits = mine()
        except BaseException:
            wait(futures)
            raise
        for future in futures:
            bits |= future.result()
        return bits

    def close(self) -> None:
        """End the threads."""
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None  # further steps run in this thread

    def summary(self, b: int) -> dict[str, Any]:
        """Return the metrics and the digest of an ended episode; empty if logs are not kept."""
        return self._singles[b].summary(self.simulations[b]) if self._keeps_logs else {}
