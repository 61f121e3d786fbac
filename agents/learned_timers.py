"""A trained tuner that sets the timers of a delay scheduler during a run."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from gpusched_env.agents.timer_network import TimerNetwork
from gpusched_env.delay_timers.actions import TimerActions
from gpusched_env.delay_timers.observer import TimerObserver

if TYPE_CHECKING:
    from gpusched_env.baselines.dally.run import DelayRun

# The tuners of the package, by the names that ``timers`` of Dally accepts.
SHIPPED: Final = {"": "delay_tuner.npz", "cells": "delay_tuner_cells.npz"}


class LearnedTimers:
    """Set the timers by a network, once every tuning interval."""

    def __init__(self, network: TimerNetwork) -> None:
        self.network = network
        self.interval_s = network.interval_s
        self.by_hand = network.residual

    @classmethod
    def load(cls, path: str = "") -> Self:
        """Read a tuner's file; an empty path, or a name in SHIPPED, means a tuner of the package."""
        return cls(TimerNetwork.load(shipped(path) if path in SHIPPED else Path(path)))

    def begin(self, run: DelayRun) -> None:
        """Set the timers before the first event."""
        self._actions = TimerActions(run.simulation.instance.cluster, self.network.classes, self.network.residual)
        self._observer = TimerObserver(run.simulation, self._actions, self.interval_s, self.network.costs)
        if self.by_hand:
            run.tune_by_hand()
        self.tune(run)

    def tune(self, run: DelayRun) -> None:
        """Set the timers for the next interval."""
        self._actions.carry_out(self.network.act(self._observer.observe(run.waits_s, run.simulation.now_s)), run)


def shipped(name: str = "") -> Path:
    """Return the path of a tuner that the package contains, by its name in SHIPPED."""
    return Path(str(files("gpusched_env.agents"))) / SHIPPED[name]
