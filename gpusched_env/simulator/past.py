"""Runs that begin with running and waiting jobs: what has happened so far is played first, then a scheduler goes on."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from gpusched_env.errors import GpuschedError
from gpusched_env.event_log import LEASE_END, PREEMPT, REFUSE, RESIZE, RESUME, START, EventLog
from gpusched_env.instance import Instance
from gpusched_env.simulator.decisions import Decision, Preempt, Refuse, Resize, Start
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
        outcome = simulation.advance()
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
    GpuschedError : the run grants leases, which a log does not tell
    """
    events = log.events[: int(np.searchsorted(log.events["time_s"], until_s, side="right"))]
    moves = []
    resizing = False
    for index in np.flatnonzero(np.isin(events["kind"], (START, RESUME, PREEMPT, RESIZE, REFUSE, LEASE_END))).tolist():
        event = events[index]
        kind, job = int(event["kind"]), int(event["job"])
        if kind == REFUSE and event["value"] == 1.0:
            continue  # the simulator cancelled it
        if kind == LEASE_END:
            raise GpuschedError(
                "moves_of: the log does not tell the leases of a run; choose a scheduler without leases"
            )
        if kind == RESIZE:
            resizing = True
            continue
        decision: Decision
        if kind in (START, RESUME):
            gpus = tuple(log.gang(index).tolist())
            if resizing:
                decision = Resize(job, len(gpus), gpus=gpus)
            else:
                shares = instance.gpu_jobs > 1
                decision = Start(job, gpus=gpus, share=shares, sub_steps=int(event["sub_steps"]) if shares else None)
            resizing = False
        else:
            decision = Preempt(job) if kind == PREEMPT else Refuse(job)
        moves.append(Move(float(event["time_s"]), decision))
    return moves
