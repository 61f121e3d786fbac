"""The driver of compiled policies: it processes events up to a decision point, then carries out what a policy decides.

A policy is a kernel that writes the next decision of a decision point to a :class:`Choice` and returns its kind. The
driver calls it until it returns NOTHING. It makes room in the log before each call, so no policy sees a full log.
``simulator/compiled.py`` calls the same kernel to yield the same decisions one by one.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from gpusched_env.core.events import (
    BAD_WAIT,
    DECIDE,
    EXPLICIT,
    IDLE_LIMIT,
    LOG_FULL,
    STALLED,
    advance,
    has_room,
    lease,
    preempt,
    start,
    stuck,
)
from gpusched_env.core.handle import Handle, Numbered, array, helper, kernel
from gpusched_env.core.refusals import APPLIED
from gpusched_env.core.state import Run
from gpusched_env.errors import GpuschedError
from gpusched_env.support.units import LATEST_S

# What a policy returns. ASSIST: Python must act first (``CompiledScheduler.assist``); then the policy is called again.
NOTHING, START, PREEMPT, LEASE, WAIT, ASSIST = range(6)

# Outcomes of :func:`drive` in addition to those of ``advance``.
PAUSED: Final = 100  # the run has reached the first decision point at or after ``stop_s``
ASSISTED: Final = 101  # the policy asks for ``assist``
UNKNOWN: Final = 102  # the policy has returned a number that stands for nothing
IN_VAIN: Final = 103  # it goes on for ever with decisions that start and preempt nothing
NO_RULE: Final = 104  # it starts a job by a placement rule that does not exist
MOST_POLICIES: Final = 4096

# Values of ``first``.
GOES_ON, BEGINS, READS_LOG = range(3)

CHOICE_DTYPE: Final = np.dtype(
    [
        # what a policy writes
        ("row", "<i8"),  # row of the job
        ("rule", "<i8"),  # START: number of the placement rule, if ``gpus`` is 0
        ("gpus", "<i8"),  # START: number of GPUs in ``chosen``, which the gang takes; 0 = the rule chooses them
        ("share", "<i8"),  # START: 1 = other gangs may hold some of these GPUs
        ("sub_steps", "<i8"),  # START: gradient-accumulation sub-steps; 0 = the smallest number that fits
        ("until_s", "<f8"),  # [s] LEASE: its end; WAIT: time of the next decision point at the latest
        ("at", "<i8"),  # 0 at the first call of a decision point, else as the policy has left it: a place in its plan
        # what a policy reads
        ("first", "<i8"),  # BEGINS = first call of this decision point; GOES_ON; READS_LOG, see ``reads_log``
        ("refusal", "<i8"),  # index into REFUSALS of the latest decision; APPLIED = it was carried out
        ("reads_log", "<i8"),  # 1 = it is also called with READS_LOG before the log is emptied; the result is ignored
        # state of the driver
        ("open", "<i8"),  # 1 = within a decision point
        ("idle", "<i8"),  # consecutive decision points at which nothing makes progress
        ("vain", "<i8"),  # consecutive calls of a decision point that have started and preempted nothing
        ("stop_s", "<f8"),  # [s] when to stop
        ("rules", "<i8"),  # number of placement rules
    ]
)


class Choice(Handle):
    """The next decision of a policy."""

    made = array(CHOICE_DTYPE)


def new_choice() -> Choice:
    """Return the choice of a new run."""
    made = np.zeros((), CHOICE_DTYPE)
    made["stop_s"] = np.inf
    return Choice(made=made)


def _signature(sim: Run, choice: Choice, own: Handle) -> int:
    raise NotImplementedError


_policies: Final = Numbered("policies", _signature, most=MOST_POLICIES)
_numbers: dict[Any, int] = {}


def policy(function: Any) -> Any:
    """Register a kernel as a policy; it takes a Run, a Choice and its own handle, and returns a kind of decision."""
    number = len(_numbers)
    try:
        _policies.put(number, function)
    except TypeError as error:
        raise GpuschedError(f"policy {function.__name__}: {error}") from None
    _numbers[function] = number
    return function


def number_of(function: Any) -> int:
    """Return the number of a registered policy, which is compiled here if it is not."""
    if function not in _numbers:
        raise GpuschedError(f"{getattr(function, '__name__', function)!r} is not registered; write @policy above it")
    number = _numbers[function]
    _policies.prepare(number)
    return number


@helper
def waits_until(sim: Run, time_s: float) -> bool:
    """Decide ``Wait(time_s)`` [s]; return False if this time is not allowed, and leave it in the timer."""
    allowed = sim.world["clock_s"] < time_s <= LATEST_S or time_s == np.inf
    if time_s < sim.world["timer_s"] or not allowed:
        sim.world["timer_s"] = time_s
    return allowed


@helper
def carry_out(sim: Run, choice: Choice, kind: int) -> int:
    """Carry out a decision; return an index into REFUSALS, APPLIED = it was not refused. Of waits, BAD_WAIT is one."""
    c = choice.made
    if kind == START:
        rule = EXPLICIT if c["gpus"] > 0 else c["rule"]
        return start(sim, c["row"], rule, c["gpus"], c["share"] > 0, c["sub_steps"])
    if kind == PREEMPT:
        return preempt(sim, c["row"])
    if kind == LEASE:
        return lease(sim, c["row"], c["until_s"])
    return APPLIED if waits_until(sim, c["until_s"]) else BAD_WAIT


@helper
def reach_decision(sim: Run, choice: Choice) -> int:
    """Process events up to the next decision point; return DECIDE, PAUSED, or the reason why the run ended."""
    c = choice.made
    if sim.world["clock_s"] < c["stop_s"] < sim.world["timer_s"]:
        sim.world["timer_s"] = c["stop_s"]
    outcome = advance(sim)
    if outcome != DECIDE:
        return outcome
    c["idle"] = c["idle"] + 1 if stuck(sim) else 0
    if c["idle"] > IDLE_LIMIT:
        return STALLED
    c["open"] = 1
    c["first"] = BEGINS
    c["at"] = 0
    c["vain"] = 0
    return PAUSED if sim.world["clock_s"] >= c["stop_s"] else DECIDE


@kernel
def drive(sim: Run, choice: Choice, number: int, own: Handle) -> int:
    """Play a policy until ``stop_s`` (PAUSED), until ASSISTED, until the log is full, or until the run ends."""
    c = choice.made
    most_vain = IDLE_LIMIT + sim.world["jobs"]  # as many leases may be renewed
    outcome = DECIDE
    while outcome == DECIDE:
        if c["open"] == 0:
            outcome = reach_decision(sim, choice)
        elif not has_room(sim):
            outcome = LOG_FULL
        else:
            kind = _policies(number, sim, choice, own)
            c["first"] = GOES_ON
            if kind == NOTHING:
                c["open"] = 0
            elif kind == ASSIST:
                c["vain"] += 1
                outcome = ASSISTED if c["vain"] <= most_vain else IN_VAIN
            elif kind < NOTHING or kind > ASSIST:
                outcome = UNKNOWN
            elif kind == START and c["gpus"] <= 0 and not 0 <= c["rule"] < c["rules"]:
                outcome = NO_RULE
            else:
                c["refusal"] = carry_out(sim, choice, kind)
                c["vain"] = 0 if kind <= PREEMPT and c["refusal"] == APPLIED else c["vain"] + 1
                if kind == WAIT and c["refusal"] != APPLIED:
                    outcome = BAD_WAIT
                elif c["vain"] > most_vain:
                    outcome = IN_VAIN
    if outcome != ASSISTED and c["reads_log"] > 0:  # the caller may empty the log
        first = c["first"]
        c["first"] = READS_LOG
        _policies(number, sim, choice, own)
        c["first"] = first
    return outcome
