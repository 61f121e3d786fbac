"""Runs that begin with running and waiting jobs: what has happened so far is played first, then a scheduler goes on."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from gpusched_env.errors import GpuschedError
from gpusched_env.event_log import FAIL, LEASE_END, PREEMPT, RATE, REFUSE, RESIZE, RESUME, START, EventLog
from gpusched_env.problem.instance import Instance
from gpusched_env.simulator.decisions import Decision, Lease, Preempt, Refuse, Resize, Start
from gpusched_env.simulator.simulation import Outcome, Simulation


class Move(NamedTuple):
    """A decision of the past.

    Parameters
    ----------
    time_s : when it was carried out [s]
    decision : the decision; a Start or Resize names its GPUs
    """

    time_s: float
    decision: Decision


def begin(instance: Instance, moves: Sequence[Move], now_s: float, seed: int = 0, ask: bool = True) -> Simulation:
    """Return a run at time ``now_s``, in which these decisions have been made; ``Simulation.run`` continues it.

    All events up to and including ``now_s`` happen first: arrivals, completions and the decisions. The log of the
    whole run is therefore complete. Schedulers begin without a memory of the past: the usage of tenants, for example,
    is counted from ``now_s`` on.

    Parameters
    ----------
    instance : the jobs of the past, of the present and of the future
    moves : decisions by ascending time, up to ``now_s``
    now_s : the present [s]
    seed : as for :class:`Simulation`. The past takes no random numbers
    ask : whether ``now_s`` is a decision point even if nothing happens then. False = the cut of a run: the scheduler is
        asked at the next event, as if it had made the decisions of the past itself

    Raises
    ------
    GpuschedError : a decision that the simulator refuses, or that lies after ``now_s``
    """
    simulation = Simulation(instance, seed)
    world = simulation.arrays.world
    limit_s = float(world["time_limit_s"])
    if math.isnan(now_s) or now_s < 0:
        raise GpuschedError(f"now_s is {now_s}: give a time of at least 0 s")
    if now_s > limit_s:
        raise GpuschedError(f"now_s is {now_s:g} s, after the time limit of the scenario ({limit_s:g} s)")
    if moves and moves[-1].time_s > now_s:
        raise GpuschedError(f"{moves[-1].decision} at {moves[-1].time_s:g} s is not in the past of {now_s:g} s")
    world["time_limit_s"] = now_s
    played = 0
    while True:
        if played < len(moves):
            simulation.wake_at(moves[played].time_s)
        before = len(simulation.events_since(0))
        outcome = simulation.advance()
        fresh = simulation.events_since(before)
        for event in fresh[fresh["kind"] == PREEMPT]:  # reservations preempt gangs: the log tells no difference
            move = (float(event["time_s"]), Preempt(int(event["job"])))
            played += played < len(moves) and moves[played] == move
        if played < len(moves) and (outcome is not Outcome.DECIDE or simulation.now_s > moves[played].time_s):
            time_s, decision = moves[played]
            raise GpuschedError(f"{decision} cannot have been made at {time_s:g} s: {simulation.refusal or 'no event'}")
        if outcome is not Outcome.DECIDE:
            break
        while played < len(moves) and moves[played].time_s == simulation.now_s:
            if simulation.apply(moves[played].decision):
                break  # there may be another decision point at this time
            played += 1
    world["time_limit_s"] = limit_s
    if ask and outcome is not Outcome.DONE:
        world["deciding"] = 1
    return simulation


def moves_of(instance: Instance, log: EventLog, until_s: float = math.inf) -> list[Move]:
    """Return the decisions of a run up to and including ``until_s`` [s], as its event log tells them.

    Raises
    ------
    GpuschedError : the run grants leases, which a log does not tell; or it has failures, and nothing fails in the
        instance
    """
    if instance.recovery is None and (log.events["kind"] == FAIL).any():
        raise GpuschedError("moves_of: the log has failures: give the instance the outages of this run")
    events = log.events[: int(np.searchsorted(log.events["time_s"], until_s, side="right"))]
    moves = []
    for index in np.flatnonzero(np.isin(events["kind"], (START, PREEMPT, RESUME, RESIZE, REFUSE, LEASE_END))).tolist():
        if events["kind"][index] == LEASE_END:
            raise GpuschedError(
                "moves_of: the log does not tell the leases of a run; choose a scheduler without leases"
            )
        if events["kind"][index] == RESUME and index and events["kind"][index - 1] == RESIZE:
            continue  # part of the resize
        decision = decision_of_event(instance, log, index)
        if decision is not None:
            moves.append(Move(float(events["time_s"][index]), decision))
    return moves


def first_difference(instance: Instance, log: EventLog, complete: bool) -> int | None:
    """Make the decisions of a log again; return the number of the first event that is then another one, None = none is.

    A log does not tell leases. A gang is given one until each ``lease-end`` that the log has, and no other.

    Parameters
    ----------
    complete : whether the log must hold the whole run; otherwise it may end at any event
    """
    events, times = log.events, log.events["time_s"].tolist()
    if not times:
        return None
    simulation, grants = Simulation(instance), _leases(instance, log)
    world = simulation.arrays.world
    if not complete:
        # At the time limit nothing is decided any more, but the log may hold decisions of its last moment.
        world["time_limit_s"] = min(float(world["time_limit_s"]), float(np.nextafter(times[-1], np.inf)))
    made = [*np.flatnonzero(np.isin(events["kind"], (START, PREEMPT, RESUME, RESIZE, REFUSE))).tolist(), len(times)]
    number = following = granted = 0
    outcome = Outcome.DECIDE
    while outcome is Outcome.DECIDE:
        while made[following] < number:
            following += 1
        next_s = times[made[following]] if made[following] < len(times) else math.inf
        # A lease may be renewed, and a rate change with it, when nothing else happens.
        later = (move.time_s for move in itertools.islice(grants, granted, None) if move.time_s > simulation.now_s)
        next_s = min(next_s, next(later, math.inf))
        if next_s < math.inf:
            simulation.wake_at(next_s)
        outcome = simulation.advance()
        decision: Decision | None
        while True:  # compare what happened, then make the next decision of this moment
            fresh = simulation.events_since(number)
            told = events[number : number + len(fresh)]
            if fresh[: len(told)].tobytes() != told.tobytes():
                return number + int(np.argmax(fresh[: len(told)] != told))
            if complete and len(told) < len(fresh):
                return len(times) - 1
            number += len(told)
            if outcome is not Outcome.DECIDE or number == len(times) or times[number] != simulation.now_s:
                break
            decision = decision_of_event(instance, log, number)
            if decision is None or simulation.apply(decision):
                break
        if outcome is Outcome.DECIDE and number < len(times) and times[number] < simulation.now_s:
            return number
        while granted < len(grants) and grants[granted].time_s < simulation.now_s:
            granted += 1
        for move in itertools.takewhile(lambda move: move.time_s == simulation.now_s, grants[granted:]):
            simulation.apply(move.decision)
    return number if number < len(times) else None


def decision_of_event(instance: Instance, log: EventLog, index: int) -> Decision | None:
    """Return the decision that an event tells; None = the simulator made the event."""
    event = log.events[index]
    kind, job = int(event["kind"]), int(event["job"])
    if kind == PREEMPT:
        return Preempt(job)
    if kind == REFUSE:
        return None if event["value"] == 1.0 else Refuse(job)  # 1 = the simulator cancelled it
    if kind == RESIZE and index + 1 < len(log.events):
        return Resize(job, int(log.events["gpu_count"][index + 1]), gpus=tuple(log.gang(index + 1).tolist()))
    if kind in (START, RESUME):
        shares = instance.gpu_jobs > 1
        sub_steps = int(event["sub_steps"]) if instance.sharing is not None else None
        return Start(job, gpus=tuple(log.gang(index).tolist()), share=shares, sub_steps=sub_steps)
    return None


def _leases(instance: Instance, log: EventLog) -> list[Move]:
    """Return leases that end as the log says, by ascending time.

    With ``pace_until_lease``, a gang that gets a new rate gets a lease as well, as this may be why it has the rate.
    """
    moves = []
    ends_s: dict[int, float] = {}  # job -> end of its next lease
    stops_s: dict[int, float] = {}  # job -> when its gang is stopped
    events = log.events[["kind", "job", "time_s"]].tolist()
    for kind, job, time_s in reversed(events):
        if kind in (PREEMPT, RESIZE):
            stops_s[job] = time_s
        elif kind in (START, RESUME, LEASE_END) or (kind == RATE and instance.semantics.pace_until_lease):
            until_s = ends_s.pop(job, math.inf)
            stops = kind == LEASE_END and stops_s.get(job) == time_s
            if not stops and (kind in (LEASE_END, RATE) or until_s < math.inf):
                moves.append(Move(time_s, Lease(job, until_s)))
            if kind in (LEASE_END, RATE):
                ends_s[job] = time_s if kind == LEASE_END else until_s
    moves.reverse()
    return moves
