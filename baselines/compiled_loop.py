"""A run of a scheduler whose whole loop is one compiled kernel."""

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
    """Simulate a run in a compiled loop, from its first event on; if ``takes_over``, from any moment on.

    Parameters
    ----------
    simulation : a simulation before its first event, or, if ``takes_over``, with running jobs
    kernel : the loop, called with the arrays of the run and ``handles``; each call continues where the last one stopped
    memory : array of one record with the state of the kernel; its field ``until_s`` is the time at which to stop [s]
    handles : further handles that the kernel takes
    """

    takes_over = False

    def __init__(self, simulation: Simulation, kernel: Any, memory: np.ndarray, *handles: Handle) -> None:
        self.simulation = simulation
        self._kernel, self._memory, self._handles = kernel, memory, handles

    def play(self, until_s: float = math.inf, tell: Callable[[], None] | None = None) -> Outcome:
        """Simulate to the end of the run, or until a time.

        Parameters
        ----------
        until_s : stop at the first decision point at or after this time [s]
        tell : called whenever the kernel returns to Python, to show progress

        Returns
        -------
        Outcome : DECIDE if the loop stopped at ``until_s``, otherwise the reason why the run ended
        """
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
