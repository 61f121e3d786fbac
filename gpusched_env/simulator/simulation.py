"""One simulation: access to its state from Python, and the loop that asks a scheduler."""

from __future__ import annotations

import copy
import math
import operator
from collections.abc import Callable, Iterable
from enum import IntEnum
from typing import Any, Final, NamedTuple, Self

import numpy as np

from gpusched_env.core import events
from gpusched_env.core.placement.rules import RULE_NUMBER, check_numbers, rule_number
from gpusched_env.core.state import FINISHED, Run, allocate
from gpusched_env.errors import GpuschedError, SchedulerError
from gpusched_env.event_log import EVENT_DTYPE, EventLog
from gpusched_env.instance import Instance
from gpusched_env.simulator.decisions import Decision, Lease, Preempt, Start, Wait
from gpusched_env.simulator.growing import GrowingArray
from gpusched_env.simulator.scheduler import Scheduler
from gpusched_env.simulator.view import ClairvoyantView, ClusterView

Progress = Callable[[int, int], None]
_PROGRESS_EVERY: Final = 512  # decision points


class Outcome(IntEnum):
    """What stopped :meth:`Simulation.advance`."""

    DECIDE = events.DECIDE
    DONE = events.DONE
    STALLED = events.STALLED
    TIME_LIMIT = events.TIME_LIMIT


class Until(NamedTuple):
    """When to stop a run in which only some jobs are measured.

    Parameters
    ----------
    first, last : rows of these jobs, ``first <= row < last``
    grace_s : time to play on after all of them have finished [s]
    """

    first: int
    last: int
    grace_s: float = 0.0


class Simulation:
    """Play one instance event by event.

    Parameters
    ----------
    instance : the problem
    seed : of the random placement rules, nothing else
    arrays : arrays to play in, already filled; None = allocate new ones

    Attributes
    ----------
    arrays : the handle that kernels take
    """

    def __init__(self, instance: Instance, seed: int = 0, arrays: Run | None = None) -> None:
        self.instance = instance
        self.arrays = allocate([instance], [seed]).handle(0) if arrays is None else arrays
        self.refusal = ""
        # an arrival, a start and a completion of each job, and some preemptions
        self._drained_events = GrowingArray(EVENT_DTYPE, 4 * len(instance.workload))
        self._drained_gpus = GrowingArray(np.dtype(np.int32), 4 * len(instance.workload))

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Copy the run; its instance, which never changes, is shared."""
        twin = type(self).__new__(type(self))
        memo |= {id(self): twin, id(self.instance): self.instance}
        twin.__dict__ |= {name: copy.deepcopy(value, memo) for name, value in self.__dict__.items()}
        return twin

    @property
    def _world(self) -> np.void:
        # looked up each time: in a copy of the object, a stored view would refer to the old array
        return self.arrays.world

    # --- time

    @property
    def now_s(self) -> float:
        """Simulated time [s]."""
        return float(self._world["clock_s"])

    @property
    def finished(self) -> int:
        """Number of finished jobs."""
        return int(self._world["finished"])

    def advance(self) -> Outcome:
        """Play events until a scheduler may decide, or no event can happen any more."""
        while True:
            outcome = events.advance(self.arrays)
            if outcome != events.LOG_FULL:
                return Outcome(outcome)
            self.drain()

    def wake_at(self, time_s: float) -> None:
        """Set the timer: :meth:`advance` stops at ``time_s`` at the latest. A time not in the future is ignored.

        Raises
        ------
        GpuschedError : the time is NaN
        """
        if math.isnan(time_s):
            raise GpuschedError("Wait(until_s=nan): give a time in simulated seconds")
        if self._world["clock_s"] < time_s < self._world["timer_s"]:
            self._world["timer_s"] = time_s

    def rehearsal(self, limit_s: float = math.inf, into: Simulation | None = None) -> Simulation:
        """Copy the run, without the jobs that have not arrived, to be played ahead; this run does not change.

        Parameters
        ----------
        limit_s : time limit of the copy [s]; the scenario's limit applies if it is earlier
        into : an earlier rehearsal of this run, whose arrays are reused
        """
        if into is None:
            into = Simulation(self.instance, arrays=self.arrays.copy())
        else:
            into.arrays.copy_from(self.arrays)
        world = into.arrays.world
        world["jobs"] = world["next_arrival"]
        world["time_limit_s"] = min(world["time_limit_s"], limit_s)
        world["events"] = world["event_gpus"] = 0
        return into

    # --- decisions

    def apply(self, decision: Decision) -> str:
        """Carry out one decision; return the reason if it is refused, else an empty string (also kept in ``refusal``).

        Raises
        ------
        GpuschedError : not a decision, an unknown placement rule, or a NaN time
        """
        if isinstance(decision, Start):
            self.refusal = self._start(decision)
        elif isinstance(decision, Preempt):
            self.refusal = events.REFUSALS[self._preempt(self._row(decision))]
        elif isinstance(decision, Lease):
            self.refusal = events.REFUSALS[self._lease(decision)]
        elif isinstance(decision, Wait):
            self.wake_at(float(decision.until_s))
            self.refusal = ""
        else:
            raise GpuschedError(f"{decision!r} is not a decision: use Start, Preempt, Lease or Wait")
        return self.refusal

    def _start(self, decision: Start) -> str:
        explicit = 0
        if decision.gpus is not None:
            rule = events.EXPLICIT
            explicit = len(decision.gpus)
            if explicit > self._world["gpus"]:
                return events.REFUSALS[events.BAD_GANG]
            known = self.instance.cluster.gpus
            self.arrays.chosen[:explicit] = [gpu if 0 <= gpu < known else -1 for gpu in decision.gpus]
        else:
            rule = rule_number(decision.rule)
        steps = 0
        if decision.sub_steps is not None:
            try:
                steps = operator.index(decision.sub_steps)
            except TypeError:
                raise GpuschedError(f"{decision}: sub_steps is a whole number, or None") from None
            if steps < 1:
                return events.REFUSALS[events.BAD_SUB_STEPS]
        return events.REFUSALS[self.start(self._row(decision), rule, explicit, bool(decision.share), steps)]

    def _row(self, decision: Start | Preempt | Lease) -> int:
        """Return the decision's job as a plain int; -1 if no job has this row."""
        try:
            row = operator.index(decision.job)
        except TypeError:
            raise GpuschedError(f"{decision}: a job is named by its row, a whole number") from None
        return row if 0 <= row < len(self.instance.workload) else -1

    def start(self, job: int, rule: int, explicit: int = 0, share: bool = False, sub_steps: int = 0) -> int:
        """Start by rule number; return 0 or the number of the refusal (events.REFUSALS).

        Raises
        ------
        GpuschedError : a number that no rule has
        """
        if not events.EXPLICIT <= rule < len(RULE_NUMBER):
            check_numbers(np.array([rule]))
        code: int = events.start(self.arrays, job, rule, explicit, share, sub_steps)
        if code == events.BUFFER_FULL:
            self.drain()
            code = events.start(self.arrays, job, rule, explicit, share, sub_steps)
        return code

    def _preempt(self, job: int) -> int:
        code: int = events.preempt(self.arrays, job)
        if code == events.BUFFER_FULL:
            self.drain()
            code = events.preempt(self.arrays, job)
        return code

    def _lease(self, decision: Lease) -> int:
        until_s = float(decision.until_s)
        if math.isnan(until_s):
            raise GpuschedError(f"{decision}: give a time in simulated seconds, inf = no lease")
        code: int = events.lease(self.arrays, self._row(decision), until_s)
        return code

    # --- the log

    def drain(self) -> None:
        """Move the contents of the log buffers into Python's arrays."""
        world = self._world
        self._drained_events.add(self.arrays.events[: world["events"]])
        self._drained_gpus.add(self.arrays.event_gpus[: world["event_gpus"]])
        world["gpus_before"] += world["event_gpus"]
        world["events"] = world["event_gpus"] = 0

    def log(self) -> EventLog:
        """All events so far."""
        self.drain()
        return EventLog(self._drained_events[:], self._drained_gpus[:])

    def events_since(self, first: int) -> np.ndarray:
        """EVENT_DTYPE: events of the log from number ``first`` on; do not write to them."""
        self.drain()
        return self._drained_events[first:]

    # --- the loop

    def view_for(self, scheduler: Scheduler) -> ClusterView:
        """Return the scheduler's view; only schedulers that declare ``clairvoyant`` see true run times."""
        return ClairvoyantView(self) if scheduler.clairvoyant else ClusterView(self)

    def run(self, scheduler: Scheduler, progress: Progress | None = None, until: Until | None = None) -> None:
        """Let a scheduler play to the end, or to the scenario's time limit.

        Parameters
        ----------
        until : stop when these jobs have finished; disables compiled loops, so ``decide`` is called

        Raises
        ------
        SchedulerError : jobs wait, nothing runs, no event can come, and the scheduler starts nothing
        """
        view = self.view_for(scheduler)
        player = None if until is not None else scheduler.player(self)
        if player is None:
            outcome = self._ask(scheduler, view, progress, until)
        else:
            jobs = len(self.instance.workload)
            outcome = player.play(tell=None if progress is None else lambda: progress(self.finished, jobs))
        if outcome is Outcome.STALLED:
            raise self._stall(scheduler, view)
        if progress is not None:
            progress(self.finished, len(self.instance.workload))

    def _ask(self, scheduler: Scheduler, view: ClusterView, progress: Progress | None, until: Until | None) -> Outcome:
        """Ask a scheduler at every decision point, until the run is over."""
        scheduler.reset(view)
        idle = points = 0
        unfinished, done_s = 0 if until is None else until.first, math.inf
        while (outcome := self.advance()) is Outcome.DECIDE:
            if until is not None:
                while unfinished < until.last and self._finished(unfinished):
                    unfinished += 1
                done_s = min(done_s, self.now_s) if unfinished == until.last else done_s
                if self.now_s >= done_s + until.grace_s:
                    return Outcome.DONE
            decisions = scheduler.decide(view)
            if not isinstance(decisions, Iterable):
                raise SchedulerError(
                    f"scheduler {scheduler.name!r}: decide() gave {decisions!r}; yield decisions or return a list"
                )
            for decision in decisions:
                self.apply(decision)
            idle = idle + 1 if self._stuck() else 0
            if idle > events.IDLE_LIMIT:
                return Outcome.STALLED
            points += 1
            if progress is not None and points % _PROGRESS_EVERY == 0:
                progress(self.finished, len(self.instance.workload))
        return outcome

    def _finished(self, row: int) -> bool:
        return bool(self.arrays.jobs["status"][row] == FINISHED)

    def _stuck(self) -> bool:
        """Tell whether no job will arrive or finish unless the scheduler acts."""
        world = self._world
        if world["next_arrival"] < world["jobs"]:
            return False
        running = self.arrays.running[: world["running"]]
        return not len(running) or bool(
            world["slot_s"] > 0 and np.isinf(self.arrays.replicas["until_s"][running]).all()
        )

    def _stall(self, scheduler: Scheduler, view: ClusterView) -> SchedulerError:
        """Describe the deadlock and its usual cause."""
        place = f"scheduler {scheduler.name!r} stalls at {self.now_s:g} s"
        running = int(self._world["running"])
        if running:
            return SchedulerError(
                f"{place}: {running} jobs run, but none gets a whole iteration into a slot of "
                f"{self._world['slot_s']:g} s, and no event will come; make semantics.slot_s larger, or place gangs "
                "where they contend less"
            )
        rows = view.waiting
        ids = ", ".join(str(i) for i in view.job_id[rows[:5]])
        return SchedulerError(
            f"{place}: nothing runs, no event will come, and {len(rows)} jobs wait (ids {ids}"
            f"{', ...' if len(rows) > 5 else ''}). A placement rule that refuses these gangs on the empty cluster, "
            "or a decide() that yields no Start for them, is the usual cause"
        )


def simulate(
    instance: Instance,
    scheduler: Scheduler,
    progress: Progress | None = None,
    seed: int = 0,
    until: Until | None = None,
) -> EventLog:
    """Run a scheduler on an instance and return the event log.

    Parameters
    ----------
    progress : called now and then with (finished jobs, all jobs)
    seed : of the random placement rules
    until : stop when these jobs have finished, see :meth:`Simulation.run`

    Raises
    ------
    SchedulerError : the scheduler leaves jobs waiting forever
    """
    simulation = Simulation(instance, seed)
    simulation.run(scheduler, progress, until)
    return simulation.log()
