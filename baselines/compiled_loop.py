"""A run of a scheduler whose loop is one kernel."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from gpusched_env.baselines.loop_kernels import PAUSED
from gpusched_env.simulator import Outcome, Simulation, events


class CompiledLoop:
    """Play a simulation from its first event.

    Parameters
    ----------
    simulation : before its first event
    kernel : called with ``arguments``; goes on where it stopped
    memory : one record, where the kernel stands; ``until_s`` is when it is to stop [s]
    """

    def __init__(self, simulation: Simulation, kernel: Any, memory: np.ndarray, arguments: tuple[Any, ...]) -> None:
        self.simulation = simulation
        self._kernel, self._memory, self._arguments = kernel, memory, arguments

    def play(self, until_s: float = math.inf, tell: Callable[[], None] | None = None) -> Outcome:
        """Play to the end, or until a time, and there until something is to be decided."""
        self._memory["until_s"] = until_s
        while True:
            code = self._kernel(*self._arguments)
            if tell is not None:
                tell()
            if code == PAUSED:
                return Outcome.DECIDE
            if code != events.LOG_FULL:
                return Outcome(code)
            self.simulation.drain()
