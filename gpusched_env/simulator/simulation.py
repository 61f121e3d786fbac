"""One simulation: access to its state from Python, and the loop that calls a scheduler at each decision point."""

from __future__ import annotations

import copy
import math
import operator
from collections.abc import Callable, Iterable
from enum import IntEnum
from typing import Any, Final, NamedTuple, Self, cast

import numpy as np

from gpusched_env.core import admission, events, refusals, resizing, run_times
from gpusched_env.core.network.contention import prepare_model
from gpusched_env.core.placement.rules import RULE_NUMBER, check_numbers, rule_number
from gpusched_env.core.state import FINISHED, REFUSED, Run, allocate
from gpusched_env.core.storage import as_bytes, copied
from gpusched_env.errors import GpuschedError, SchedulerError
from gpusched_env.event_log import EVENT_DTYPE, EventLog
from gpusched_env.problem.instance import Instance
from gpusched_env.problem.workload import MAX_NODES, MIN_NODES
from gpusched_env.simulator.decisions import Decision, Lease, Preempt, Refuse, Resize, Start, Wait
from gpusched_env.simulator.growing import GrowingArray
from gpusched_env.simulator.scheduler import Player, Scheduler
from gpusched_env.simulator.view import ClairvoyantView, ClusterView
from gpusched_env.support.units import BEYOND_CLOCK, LATEST_S

Progress = Callable[[int, int], None]
_PROGRESS_EVERY: Final = 512  # decision points


class Outcome(IntEnum):
    """What stopped :meth:`Simulation.advance`, or the compiled loop of a scheduler."""

    DECIDE = events.DECIDE
    DONE = events.DONE
    STALLED = events.STALLED
    TIME_LIMIT = events.TIME_LIMIT
    TOO_LATE = events.TOO_LATE
    BAD_WAIT = events.BAD_WAIT


OUTCOMES: Final = frozenset(Outcome)


class Until(NamedTuple):
    """Stopping condition of a run in which only some jobs are measured.

    Parameters
    ----------
    first, last : the measured jobs are those with ``first <= row < last``
    grace_s : time for which the run continues after all measured jobs have finished [s]
    """

    first: int
    last: int
    grace_s: float = 0.0


class RunState(NamedTuple):
    """The state of a run, as arrays that never change.

    Parameters
    ----------
    memory : uint8, all arrays but the buffers of the log
    events, event_gpus : EVENT_DTYPE and int32, contents of these buffers
    drained_events, drained_gpus : the log before them
    """

    memory: np.ndarray
    events: np.ndarray
    event_gpus: np.ndarray
    drained_events: np.ndarray
    drained_gpus: np.ndarray


class _TakenOver:
    """In place of the arrays of a run whose arrays serve another run."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise GpuschedError(
            "this run is over: its environment has been reset, and only its log is left; read what you need "
            "before the reset, or copy.deepcopy(simulation)"
        )


class Simulation:
    """Simulate one problem instance, event by event.

    Parameters
    ----------
    instance : the problem instance
    seed : seed of the random placement rules; nothing else is random
    arrays : the state of the run, already filled; None = allocate new arrays at time 0

    Attributes
    ----------
    arrays : the state of the run, as the handle that kernels take
    refusal : reason for which the latest decision was refused; empty if it was applied
    """

    def __init__(self, instance: Instance, seed: int = 0, arrays: Run | None = None) -> None:
        self.instance = instance
        self.arrays = allocate([instance], [seed]).handle(0) if arrays is None else arrays
        self.arrays.failure = None  # of an earlier run in the same arrays
        prepare_model(int(self._world["contention"]))
        self.refusal = ""
        # Initial capacity: an arrival, a start and a completion of each job, and some preemptions.
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
        # Looked up each time, because in a copy of this object a stored view would still refer to the original array.
        return self.arrays.world

    # --- time

    @property
    def now_s(self) -> float:
        """Simulated time [s]."""
        return float(self._world["clock_s"])

    @property
    def has_begun(self) -> bool:
        """Whether some gang has started."""
        return bool(self._world["starts"] > 0)

    @property
    def finished(self) -> int:
        """Number of jobs that have left the system: finished, or refused."""
        return int(self._world["finished"])

    def advance(self) -> Outcome:
        """Simulate events up to the next decision point, or until the run ends; return what stopped it."""
        self._check_usable()
        while (outcome := events.advance(self.arrays)) not in OUTCOMES:
            self.drain()  # the log is full
        if outcome != events.DECIDE:  # at decision points there is room
            self.make_room()
        return Outcome(outcome)

    def _check_usable(self) -> None:
        if (failure := self.arrays.failure) is not None:
            raise GpuschedError(
                f"this run ended in an error of a kernel, {type(failure).__name__}: {failure}; its state means "
                "nothing any more: make a new Simulation, or reset the environment"
            ) from failure

    def wake_at(self, time_s: float) -> None:
        """Make :meth:`advance` stop at ``time_s`` at the latest, or now if this is not in the future."""
        if not time_s <= LATEST_S and time_s != math.inf:
            raise GpuschedError(
                f"Wait(until_s={time_s!r}): give a time in simulated seconds up to {LATEST_S:g}, or inf for none"
            )
        if self._world["clock_s"] < time_s < self._world["timer_s"]:
            self._world["timer_s"] = time_s

    def end_of(self, wait: Wait) -> float:
        """Return when a wait of the present decision point ends at the latest [s]."""
        until_s, now_s = _seconds(wait), self.now_s
        if not until_s > now_s:
            raise GpuschedError(
                f"Wait(until_s={until_s!r}) at {now_s!r} s: this time is not in the future, so the clock would not "
                "advance; give a later time, or leave out the wait"
            )
        return until_s

    def rehearsal(self, limit_s: float = math.inf, into: Simulation | None = None) -> Simulation:
        """Copy the run, so that the future of the present jobs can be simulated without changing this run.

        The copy omits jobs that have not arrived, held jobs, and what may stop gangs that nobody has preempted: future
        outages, failures of jobs and power caps. Outages and caps of the present end there in time.

        Parameters
        ----------
        limit_s : simulated time at which the copy ends, counted from the start of the run [s]; if the time limit of the
            scenario is earlier, the copy ends then
        into : a rehearsal that an earlier call for this run returned; its arrays are overwritten, and it is returned
            again. None = allocate new arrays
        """
        if into is None:
            into = Simulation(self.instance, arrays=self.arrays.copy())
        else:
            into.arrays.copy_from(self.arrays)
        world = into.arrays.world
        world["jobs"] = world["next_arrival"]
        held = world["next_arrival"] - world["entered"]
        world["entered"] += held  # held jobs are left out, as if they had come and gone
        world["finished"] += held
        world["holds"], world["eligible_s"] = 0, math.inf
        if self.instance.recovery is not None:
            _forget_outages(into.arrays)
            run_times.forget_failures(into.arrays)
        world["time_limit_s"] = min(world["time_limit_s"], limit_s)
        world["events"] = world["event_gpus"] = 0
        return into

    def state(self) -> RunState:
        """Return the state of the run; the log that was drained before is not copied."""
        world = self._world
        return RunState(
            self.arrays.storage.copy(),
            copied(self.arrays.events[: world["events"]]),
            self.arrays.event_gpus[: world["event_gpus"]].copy(),
            self._drained_events[:],
            self._drained_gpus[:],
        )

    def restore(self, state: RunState) -> None:
        """Continue from a state of a run of the same instance; the reason of the latest refusal is lost."""
        self.arrays.storage[:] = state.memory
        as_bytes(self.arrays.events[: len(state.events)])[:] = as_bytes(state.events)
        self.arrays.event_gpus[: len(state.event_gpus)] = state.event_gpus
        self._drained_events = GrowingArray.of(state.drained_events)
        self._drained_gpus = GrowingArray.of(state.drained_gpus)
        self.refusal, self.arrays.failure = "", None

    def change_run_times(self, run_s: np.ndarray) -> None:
        """Change the total work of all jobs that have not finished.

        What a job has done stays done. ``instance`` keeps the old run times, so a clairvoyant scheduler that reads
        them there sees those.

        Parameters
        ----------
        run_s : float64 [J], run time of each job on its ideal placement [s]; a running job that has run longer ends now
        """
        run_s = np.ascontiguousarray(run_s, np.float64)
        if run_s.shape != (len(self.instance.workload),) or not (np.isfinite(run_s) & (run_s > 0)).all():
            raise GpuschedError("run_s: give a finite number of seconds above 0 for each job")
        run_times.change_run_times(self.arrays, run_times.RunTimes(run_s=run_s))

    # --- decisions

    def apply(self, decision: Decision) -> str:
        """Apply one decision; return the reason if the decision is refused, otherwise an empty string.

        The returned text is also stored in ``refusal``.

        Raises
        ------
        GpuschedError : ``decision`` is not a decision, or it has an unknown placement rule, a NaN time, the end of a
            wait that is not in the future, or a row, a size or a number of sub-steps that is not an integer; or the run
            has ended in an error before
        """
        self._check_usable()
        code: int = refusals.APPLIED
        if isinstance(decision, Start):
            code = self._start(decision)
        elif isinstance(decision, Resize):
            code = self._resize(decision)
        elif isinstance(decision, Preempt):
            code = events.preempt(self.arrays, self.row_of(decision))
        elif isinstance(decision, Lease):
            code = self._lease(decision)
        elif isinstance(decision, Refuse):
            code = admission.refuse(self.arrays, self.row_of(decision))
        elif isinstance(decision, Wait):
            self.wake_at(self.end_of(decision))
        else:
            raise GpuschedError(f"{decision!r} is not a decision: use Start, Resize, Preempt, Lease, Refuse or Wait")
        self.make_room()
        self.refusal = refusals.REFUSALS[code]
        return self.refusal

    def _start(self, decision: Start) -> int:
        row = self.row_of(decision)
        rule, explicit = self._place(decision)
        if explicit > self._world["gpus"]:
            return refusals.BAD_GANG
        steps = 0
        if decision.sub_steps is not None:
            steps = _whole(decision, "sub_steps", decision.sub_steps)
            if steps < 1:
                return refusals.BAD_SUB_STEPS
        size = 0
        if decision.size is not None:
            size = _whole(decision, "size", decision.size)
            if size < 1:
                return refusals.BAD_SIZE
        if explicit and row >= 0 and self.instance.sizes.count[row] > 1:  # such a job runs in one copy
            if decision.size is not None and size != explicit:
                return refusals.BAD_SIZE
            size = explicit
        return self.start(row, rule, explicit, bool(decision.share), steps, size)

    def _resize(self, decision: Resize) -> int:
        row, size = self.row_of(decision), _whole(decision, "size", decision.size)
        rule, explicit = self._place(decision)
        if size < 1 or explicit > self._world["gpus"]:
            return refusals.BAD_SIZE
        if decision.gpus is not None and len(set(decision.gpus)) < explicit:
            return refusals.BAD_GPUS
        return int(resizing.resize(self.arrays, row, size, rule, explicit))

    def _place(self, decision: Start | Resize) -> tuple[int, int]:
        """Return the number of the placement rule and the number of explicit GPUs, which are written to ``chosen``.

        If there are more of them than the cluster has, none is written.
        """
        if decision.gpus is None:
            return rule_number(decision.rule), 0
        explicit, known = len(decision.gpus), self.instance.cluster.gpus
        if explicit <= known:
            self.arrays.chosen[:explicit] = [gpu if 0 <= gpu < known else -1 for gpu in decision.gpus]
        return events.EXPLICIT, explicit

    def row_of(self, decision: Start | Resize | Preempt | Lease | Refuse) -> int:
        """Return the row of the decision's job as a Python int; -1 if no job has this row."""
        try:
            row = operator.index(decision.job)
        except TypeError:
            raise GpuschedError(f"{decision}: a job is named by its row, a whole number") from None
        return row if 0 <= row < len(self.instance.workload) else -1

    def start(
        self, job: int, rule: int, explicit: int = 0, share: bool = False, sub_steps: int = 0, size: int = 0
    ) -> int:
        """Start a job like ``apply(Start(...))``, with the placement rule given by number.

        Parameters
        ----------
        job : row of the job
        rule : number of the placement rule (RULE_NUMBER); events.EXPLICIT = use the GPUs in ``arrays.chosen``
        explicit : number of GPUs in ``arrays.chosen``
        share : whether other jobs may hold some of these GPUs
        sub_steps : number of gradient-accumulation sub-steps; 0 = choose the number as for ``Start(sub_steps=None)``
        size : number of GPUs of an elastic job; 0 = the number that the job requests

        Returns
        -------
        index into refusals.REFUSALS; 0 = the job was started
        """
        if not events.EXPLICIT <= rule < len(RULE_NUMBER):
            check_numbers(np.array([rule]))
        code: int = resizing.choose_size(self.arrays, job, size) if size else refusals.APPLIED
        if code != refusals.APPLIED:
            return code
        code = events.start(self.arrays, job, rule, explicit, share, sub_steps)
        self.make_room()
        if size and code != refusals.APPLIED:
            resizing.ask_again(self.arrays, job)
        return code

    def _lease(self, decision: Lease) -> int:
        until_s = _seconds(decision)
        if math.isnan(until_s):
            raise GpuschedError(f"{decision}: give a time in simulated seconds, inf = no lease")
        return int(events.lease(self.arrays, self.row_of(decision), until_s))

    def give_up(self) -> Run:
        """Return the arrays, in which another run may begin; of this run, only the log is left."""
        self.drain()
        arrays, self.arrays = self.arrays, cast("Run", _TakenOver())
        return arrays

    # --- the log

    def make_room(self) -> None:
        """Drain the log if it has no room for a decision.

        Whatever has written to the log calls this, so a run that Python holds takes a decision of any kernel, such as
        an action of an environment.
        """
        if not events.has_room(self.arrays):
            self.drain()

    def drain(self) -> None:
        """Move the contents of the log buffers into Python's arrays."""
        if isinstance(self.arrays, _TakenOver):
            return
        world = self._world
        self._drained_events.add(self.arrays.events[: world["events"]])
        self._drained_gpus.add(self.arrays.event_gpus[: world["event_gpus"]])
        world["gpus_before"] += world["event_gpus"]
        world["events"] = world["event_gpus"] = 0

    def log(self) -> EventLog:
        """Return the log of all events so far."""
        self.drain()
        return EventLog(self._drained_events[:], self._drained_gpus[:])

    def events_since(self, first: int) -> np.ndarray:
        """EVENT_DTYPE: the events from number ``first`` on, as a view to which callers must not write."""
        self.drain()
        return self._drained_events[first:]

    # --- the loop

    def view_for(self, scheduler: Scheduler) -> ClusterView:
        """Return a ClairvoyantView if ``scheduler`` declares ``clairvoyant``, otherwise a ClusterView."""
        scheduler.check_parameters()
        return ClairvoyantView(self) if scheduler.clairvoyant else ClusterView(self)

    def player_for(self, scheduler: Scheduler) -> Player | None:
        """Return the compiled loop that can continue this run; None = there is none, and ``decide`` must be called."""
        self._check_knows(scheduler)
        player = scheduler.player(self)
        return player if not self.has_begun or getattr(player, "takes_over", False) else None

    def _check_knows(self, scheduler: Scheduler) -> None:
        """Refuse a scheduler that does not know what jobs demand of nodes."""
        if self.instance.node_sets is not None and not scheduler.knows_partitions:
            what, remedy = "partitions or reservations", "leave out the section partitions"
            if self.instance.partitions is None:
                what, remedy = "GPU types that jobs ask for", "ignore them (ignore_types)"
            raise SchedulerError(
                f"scheduler {scheduler.name!r} knows no {what}: it chooses machines itself, or expects that no gang is "
                f"preempted; choose another one, or {remedy}"
            )
        if self.instance.node_counts is not None and not scheduler.knows_node_counts:
            raise SchedulerError(
                f"scheduler {scheduler.name!r} chooses GPUs itself, whatever number of nodes a job demands; "
                f"choose another one, or ignore {MIN_NODES} and {MAX_NODES} (ignore_nodes)"
            )

    def run(self, scheduler: Scheduler, progress: Progress | None = None, until: Until | None = None) -> None:
        """Simulate with a scheduler until every job has finished or the time limit of the scenario is reached.

        Parameters
        ----------
        progress : called from time to time with (number of finished jobs, number of all jobs)
        until : stopping condition; None = none. With a stopping condition, the compiled loop of the scheduler is not
            used, and the simulator calls ``decide``

        Raises
        ------
        GpuschedError : a decision that :meth:`apply` does not take, such as a wait that is not in the future
        SchedulerError : jobs wait, no further event can occur, and the scheduler starts no job; the run goes on beyond
            the latest time of the clock; ``decide`` returns something that is not iterable; or the scheduler knows no
            partitions or node counts, and the problem has some
        """
        self._check_knows(scheduler)
        self._check_usable()
        view = self.view_for(scheduler)
        player = None if until is not None else self.player_for(scheduler)
        if player is None:
            outcome = self._ask(scheduler, view, progress, until)
        else:
            jobs = len(self.instance.workload)
            outcome = player.play(tell=None if progress is None else lambda: progress(self.finished, jobs))
        if outcome is Outcome.STALLED:
            raise self._stall(scheduler, view)
        if outcome is Outcome.TOO_LATE:
            raise SchedulerError(f"scheduler {scheduler.name!r}: {BEYOND_CLOCK}")
        if outcome is Outcome.BAD_WAIT:
            self.apply(Wait(float(self._world["timer_s"])))  # raises the error that ``decide`` would get
        if progress is not None:
            progress(self.finished, len(self.instance.workload))

    def _ask(self, scheduler: Scheduler, view: ClusterView, progress: Progress | None, until: Until | None) -> Outcome:
        """Call ``decide`` at every decision point until the run is over."""
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
            try:
                for decision in decisions:
                    self.apply(decision)
            except GpuschedError as error:
                frame = getattr(decisions, "gi_frame", None)  # the line that yielded the decision
                code = frame.f_code if frame is not None else getattr(scheduler.decide, "__code__", None)
                if code is not None:
                    line = code.co_firstlineno if frame is None else frame.f_lineno
                    error.add_note(f'  File "{code.co_filename}", line {line}, in {code.co_name}')
                raise
            idle = idle + 1 if events.stuck(self.arrays) else 0
            if idle > events.IDLE_LIMIT:
                return Outcome.STALLED
            points += 1
            if progress is not None and points % _PROGRESS_EVERY == 0:
                progress(self.finished, len(self.instance.workload))
        return outcome

    def _never_back(self) -> str:
        """Return the numbers of the nodes that have crashed for ever, with the times of their outages."""
        down = np.flatnonzero(self.arrays.down)
        if self.instance.outages is None or not len(down):
            return ""
        rows = self.instance.outages.rows
        told = [f"{node} at {rows['start_s'][rows['node'] == node].max():g} s" for node in down[:5].tolist()]
        return ", ".join(told) + (", ..." if len(down) > 5 else "")

    def _finished(self, row: int) -> bool:
        return bool(self.arrays.jobs["status"][row] in (FINISHED, REFUSED))

    def _stall(self, scheduler: Scheduler, view: ClusterView) -> SchedulerError:
        """Return an error that describes the deadlock and its usual cause."""
        place = f"scheduler {scheduler.name!r} stalls at {self.now_s:g} s"
        last = f"; its last decision was refused: {self.refusal}" if self.refusal else ""
        running = int(self._world["running"])
        if running:
            return SchedulerError(
                f"{place}: {running} jobs run, but none gets a whole iteration into a slot of "
                f"{self._world['slot_s']:g} s, and no event will come; make semantics.slot_s larger, or place gangs "
                "where they contend less"
            )
        rows = view.waiting
        if down := self._never_back():
            last = f"; nodes that crash and never come back (outages): {down}{last}"
        ids = ", ".join(str(i) for i in view.job_id[rows[:5]])
        return SchedulerError(
            f"{place}: nothing runs, no event will come, and {len(rows)} jobs wait (ids {ids}"
            f"{', ...' if len(rows) > 5 else ''}). A placement rule that refuses these gangs on the empty cluster, "
            f"or a decide() that yields no Start for them, is the usual cause{last}"
        )


def _forget_outages(arrays: Run) -> None:
    """Take the outages and power caps that have not begun from the closings to come."""
    world = arrays.world
    coming = arrays.closings[world["next_closing"] : world["closings"]].copy()
    ends = (coming["step"] < 0) & ((arrays.down[coming["node"]] & -coming["step"]) > 0)
    first = np.zeros(len(coming), bool)
    first[np.unique(coming[["node", "step"]], return_index=True)[1]] = True
    kept = coming[(coming["node"] < 0) | (ends & first)]
    arrays.closings[world["next_closing"] :][: len(kept)] = kept
    world["closings"] = world["next_closing"] + len(kept)
    world["closing_s"] = kept["time_s"][0] if len(kept) else math.inf


def _seconds(decision: Lease | Wait) -> float:
    """Return the time of a decision as a float."""
    try:
        return float(decision.until_s)
    except OverflowError:
        raise GpuschedError(f"{type(decision).__name__}: until_s is larger than any float; inf = no end") from None


def _whole(decision: Decision, name: str, value: Any) -> int:
    """Return a number of a decision as a Python int."""
    try:
        return operator.index(value)
    except TypeError:
        raise GpuschedError(f"{decision}: {name} is a whole number, or None") from None


def simulate(
    instance: Instance,
    scheduler: Scheduler,
    progress: Progress | None = None,
    seed: int = 0,
    until: Until | None = None,
) -> EventLog:
    """Simulate a problem instance with a scheduler and return the event log.

    Parameters
    ----------
    instance : the problem instance
    scheduler : the scheduler, which is reset first
    progress : called from time to time with (number of finished jobs, number of all jobs)
    seed : seed of the random placement rules
    until : stopping condition, see :meth:`Simulation.run`; None = simulate to the end

    Raises
    ------
    SchedulerError : jobs wait, no further event can occur, and the scheduler starts no job
    """
    simulation = Simulation(instance, seed)
    simulation.run(scheduler, progress, until)
    return simulation.log()
