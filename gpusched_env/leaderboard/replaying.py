"""Replay the decisions of an entry, or play its scheduler, with limits on time and memory."""

from __future__ import annotations

import functools
import math
import time
from dataclasses import dataclass, field
from typing import Final

from gpusched_env.core import events, refusals
from gpusched_env.errors import EntryError
from gpusched_env.event_log import EventLog
from gpusched_env.leaderboard.columns import LEASE, LETTERS, WAIT, Table, milliseconds, unpack
from gpusched_env.leaderboard.entry import Decisions
from gpusched_env.leaderboard.recording import Carrying
from gpusched_env.problem.instance import Instance
from gpusched_env.scenarios import get_scenario
from gpusched_env.simulator import Decision, Lease, Outcome, Preempt, Resize, Simulation, Start, Wait

NAMES: Final = {letter: kind.__name__ for kind, letter in LETTERS.items()}
WITH_TIME: Final = (LEASE, WAIT)


@functools.cache
def compile_kernels() -> None:
    """Compile the kernels that a replay needs by calling each kernel once."""
    simulation = Simulation(get_scenario("tiny-v1").instance(0))
    simulation.advance()
    for decision in (Start(0), Lease(0, math.inf), Preempt(0)):
        simulation.apply(decision)


@dataclass
class Budget:
    """Limits on the replay of an entry: CPU time of all runs [s], and events (of 56 bytes) in the log of each."""

    seconds: float = 60.0
    events: int = 5_000_000
    _end: float = field(init=False)

    def __post_init__(self) -> None:
        """Compile the kernels, then start the clock, so that compilation does not count."""
        compile_kernels()
        self._end = time.process_time() + self.seconds

    def check(self) -> None:
        """Raise an EntryError if the CPU time is used up."""
        if time.process_time() > self._end:
            raise EntryError(f"its replay takes more than {self.seconds:g} s of CPU time; allow more with --seconds")


class Limited(Simulation):
    """A simulation that ends with an error if its log is longer than a budget allows."""

    def __init__(self, instance: Instance, seed: int, budget: Budget) -> None:
        super().__init__(instance, seed)
        self._budget = budget
        self._events = 0

    def drain(self) -> None:
        """Move events from the fixed-size log buffers to the log; raise an EntryError if the log is too long."""
        self._events += int(self._world["events"])
        if self._events > self._budget.events:
            raise EntryError(f"its event log is longer than {self._budget.events:,} events, the most that is replayed")
        super().drain()


class Replay(Limited, Carrying):
    """A simulation that replays the decisions of an entry; a decision that does not happen as recorded is an error."""

    def __init__(self, instance: Instance, seed: int, table: Table, budget: Budget) -> None:
        super().__init__(instance, seed, budget)
        self._table = table
        self._times_ms = table.times_ms.tolist()
        self._next = 0  # index of the next decision
        self._wait_s: float | None = None  # end of the wait of the latest decision point [s]; None = no wait

    def play(self) -> None:
        """Replay all decisions to the end of the run."""
        points, decisions = self._table.points.tolist(), self._table.decisions()
        point = idle = 0
        while (outcome := self.advance()) is Outcome.DECIDE:
            self._budget.check()
            self._woken()
            decided = self._next
            while self._next < len(points) and points[self._next] == point:
                self._decide(next(decisions))
                self._next += 1
            idle = idle + 1 if self._next == decided and events.stuck(self.arrays) else 0
            if idle > (events.IDLE_LIMIT if self._next < len(points) else 0):
                break
            point += 1
        if self._next < len(points):
            raise self._error(f"never comes: the run is over at {self.now_s:.3f} s, decision point {point:,}")
        if outcome is not Outcome.DONE:
            left = len(self.instance.workload) - self.finished
            raise EntryError(f"the decisions end at {self.now_s:.3f} s and leave {left:,} jobs unfinished")
        self._woken()

    def _decide(self, decision: Decision) -> None:
        """Apply the next decision; raise an EntryError unless it happens exactly as recorded."""
        self._budget.check()  # checked for each decision, because all decisions of a run may be at one decision point
        if self._times_ms[self._next] != milliseconds(self.now_s):
            raise self._error(f"comes at {self.now_s:.3f} s in the replay")
        if isinstance(decision, Wait):
            if self._wait_s is not None or not decision.until_s > self.now_s:
                raise self._error("has no effect: only waits that wake the scheduler are recorded")
            self._wait_s = decision.until_s
        done = self.carry_out(decision)
        if done is None and self.refusal == refusals.REFUSALS[refusals.NOT_ARRIVED]:
            raise self._error("knows the future: the job has not arrived yet")
        if done is None:
            raise self._error(f"is refused: {self.refusal}")
        if self.vain:
            what = (
                "the gang has these GPUs already"
                if isinstance(decision, Resize)
                else "the job's lease ends then anyway"
            )
            raise self._error(f"has no effect: {what}")
        if done != decision:
            raise self._error(f"is not in canonical form: {done}")

    def _woken(self) -> None:
        """Raise an EntryError if the latest decision point had a wait and this one is not at the end of that wait."""
        if self._wait_s is not None and self._wait_s != self.now_s:
            self._next -= 1
            raise self._error(f"wakes at {self.now_s:.3f} s instead")
        self._wait_s = None

    def _error(self, what: str) -> EntryError:
        """Make the error about the next decision."""
        table, number = self._table, self._next
        name = NAMES[table.kinds[number]]
        if table.kinds[number] in WITH_TIME:
            name += f" until {table.until_s[number]:.3f} s"
        if table.jobs[number] >= 0:
            name += f" of job {table.jobs[number]}"
        place = f"{table.times_ms[number] / 1000:.3f} s, decision point {table.points[number]:,}"
        return EntryError(f"decision {number:,} ({name} at {place}) {what}")


def replay(instance: Instance, seed: int, decisions: Decisions, budget: Budget | None = None) -> EventLog:
    """Replay the decisions that were recorded for a problem and a seed, and return the event log."""
    simulation = Replay(instance, seed, unpack(decisions), budget or Budget())
    simulation.play()
    return simulation.log()
