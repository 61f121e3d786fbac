"""Rehearsals: a plan is simulated in a copy of the run, so that its contention is exactly that of the real run."""

from __future__ import annotations

import math

from gpusched_env.baselines.bco.kernels import Book, next_of_book
from gpusched_env.core.driver import BEGINS
from gpusched_env.errors import SchedulerError
from gpusched_env.simulator import CompiledScheduler, Outcome, Simulation
from gpusched_env.simulator.compiled import Player


class NoPlaceError(SchedulerError):
    """The limit theta leaves a gang too few GPUs, now and later."""


class Rehearsed(CompiledScheduler):
    """Carry out the plan ``book``, and make no new one."""

    policy = next_of_book

    def __init__(self, book: Book) -> None:
        self._book = book

    def begin(self, simulation: Simulation, alone: bool) -> Book:
        """Return the plan."""
        return self._book

    def assist(self, simulation: Simulation, own: Book) -> None:
        """Give up."""
        raise NoPlaceError(f"theta = {own.memory['theta_s']:g} s leaves some gang no place: give a larger one")


class Rehearser:
    """Simulate a plan ahead in a copy of a run without the jobs that have not arrived; the plan may change between."""

    def __init__(self, simulation: Simulation, book: Book) -> None:
        self._simulation = simulation
        self._player = Player(Rehearsed(book), simulation.rehearsal())

    def end_s(self, limit_s: float) -> float:
        """Return when the last of the arrived jobs would finish under the plan [s]; inf = after ``limit_s``."""
        copy, made = self._player.simulation, self._player.choice.made
        self._simulation.rehearsal(limit_s, copy)
        made["open"], made["first"], made["idle"], made["vain"] = 1, BEGINS, 0, 0  # the run is at a decision point
        return copy.now_s if self._player.play() is Outcome.DONE else math.inf
