"""A run of a scheduler whose loop is one kernel."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from gpusched_env.baselines.loop_kernels import PAUSED
from gpusched_env.core import events
from gpusched_env.core.handle import Handle
from gpusched_env.simulator import Outcome, Simulation


class CompiledLoop:
    """Play a simulation from its first event.

    Parameters
    ----------
    simulation : before its first event
    kernel : called with the run's arrays and ``handles``; goes on where it stopped
    memory : one record, where the kernel stands; ``until_s`` is when it is to stop [s]
    """

    def __init__(self, simulation: Simulation, kernel: Any, memory: np.ndarray, *handles: Handle) -> None:
        self.simulation = simulation
        self._kernel, self._memory, self._handles = kernel, memory, handles

    def play(self, until_s: float = math.inf, tell: Callable[[], None] | None = None) -> Outcome:
        """Play to the end, or until a time, and there until something is to be decided."""
        self._memory["until_s"] = until_s
        while True:
            code = self._kernel(self.simulation.arrays, *self._handles)
            if tell is not None:
                tell()
            if code == PAUSED:
                return Outcome.DECIDE
            if code != events.LOG_FULL:
                return Outcome(code)
            self.simulation.drain()
