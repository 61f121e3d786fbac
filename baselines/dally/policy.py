"""Delay scheduling as a policy: the phases of a decision point, each of which returns its next decision.

A decision point goes through these phases in order. Two of them lead back, as the arrows say:

* TUNES: if it is time, Python sets the timers.
* OBSERVES: jobs arrive, and gangs have stopped. A lease that is over is renewed or ended. Then the jobs start for which
  GPUs are kept.
* OFFERS: the next offer that is due begins.
* ASKS: the jobs are asked, one after another, whether they accept GPUs of this offer -> OFFERS.
* EVICTS: running gangs become victims of a waiting job.
* STOPS: gangs that are marked stop at the end of their step, or now -> OBSERVES, if there are any.
* ENDS: the time of the next decision point is set.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from gpusched_env.baselines.dally.keeping import stop_next, take_kept
from gpusched_env.baselines.dally.leases import admit, may_renew, plan_lease, process_stops
from gpusched_env.baselines.dally.offers import (
    DALLY,
    GANDIVA,
    ask_jobs,
    ask_python,
    begin_offer,
    decide_start,
    evict,
    remember,
)
from gpusched_env.baselines.dally.placing import count_offer
from gpusched_env.baselines.dally.ranking import remove
from gpusched_env.baselines.dally.schedule import next_wake, take_due
from gpusched_env.baselines.dally.state import GROW, TUNE, Delay
from gpusched_env.core.driver import BEGINS, LEASE, NOTHING, PREEMPT, WAIT, Choice, policy
from gpusched_env.core.handle import helper, kernel
from gpusched_env.core.state import RUNNING, Run

TUNES, OBSERVES, OFFERS, ASKS, EVICTS, STOPS, ENDS, OVER = range(8)
NEXT_PHASE: Final = -1  # instead of a decision: ``phase`` is the phase that follows


@policy
@kernel
def next_of_delay(sim: Run, choice: Choice, delay: Delay) -> int:
    """Write the next decision of a decision point."""
    r = delay.rules
    if choice.made["first"] == BEGINS:
        r["phase"] = TUNES
        r["starts"] = 0
        r["offered"] = 0
    kind = lease_started(sim, choice, delay) if r["starts"] else NEXT_PHASE
    while kind == NEXT_PHASE:
        kind = continue_phase(sim, choice, delay)
    return kind


@helper
def continue_phase(sim: Run, choice: Choice, delay: Delay) -> int:
    """Return the next decision of the present phase; NEXT_PHASE = it has none, and the phase has changed."""
    r = delay.rules
    phase = r["phase"]
    if phase == TUNES:
        if sim.world["clock_s"] >= r["next_tune_s"]:
            return ask_python(delay, TUNE)
        r["phase"] = OBSERVES
        return NEXT_PHASE
    if phase == OBSERVES:
        return observe(sim, choice, delay)
    if phase == OFFERS:
        r["phase"] = EVICTS
        if r["due"] > 0:
            begin_offer(sim, delay)
            r["phase"] = ASKS
        return NEXT_PHASE
    if phase == ASKS:
        return ask(sim, choice, delay)
    if phase == EVICTS:
        kind = evict(sim, delay) if r["victims"] and r["offered"] else NOTHING
        if kind != NOTHING:
            return kind
        r["phase"] = STOPS
        return NEXT_PHASE
    if phase == STOPS:
        return stop_marked(sim, choice, delay)
    return end(sim, choice, delay) if phase == ENDS else NOTHING


@helper
def lease_started(sim: Run, choice: Choice, delay: Delay) -> int:
    """Record the result of the latest start; return the lease of the gang, if it gets one."""
    r = delay.rules
    row = choice.made["row"]
    r["starts"] = 0
    if sim.jobs[row]["status"] != RUNNING:
        if r["phase"] == ASKS:  # the start was refused: its GPUs are still on offer
            count_offer(sim, delay)
        return NEXT_PHASE
    if r["phase"] == ASKS and r["policy"] == DALLY:
        remember(delay, sim.world["clock_s"], row, r["tier"])
    remove(delay.queue, r["queued"], row)
    r["queued"] -= 1
    delay.held[r["held"]] = row
    r["held"] += 1
    delay.tasks[row]["last_s"] = sim.world["clock_s"]
    choice.made["until_s"] = plan_lease(sim, delay, row)
    return LEASE if choice.made["until_s"] < np.inf else NEXT_PHASE


@helper
def observe(sim: Run, choice: Choice, delay: Delay) -> int:
    """Process arrivals and stopped gangs; return the renewal or the end of a lease, or the start on kept GPUs."""
    r = delay.rules
    if r["later"] + r["held"] + 1 >= delay.offers.shape[0]:
        return ask_python(delay, GROW)
    admit(sim, delay)
    row = process_stops(sim, delay)
    if row >= 0:
        choice.made["row"] = row
        choice.made["until_s"] = sim.world["clock_s"] + r["lease_s"]
        return LEASE if may_renew(sim, delay, row) else PREEMPT
    row = -1 if r["rebid"] else take_kept(sim, delay)
    if row >= 0:
        return decide_start(choice, delay, row)
    take_due(sim, delay)
    r["phase"] = OFFERS
    return NEXT_PHASE


@helper
def ask(sim: Run, choice: Choice, delay: Delay) -> int:
    """Return the next start of an offer."""
    r = delay.rules
    kind = ask_jobs(sim, choice, delay)
    if kind != NOTHING:
        return kind
    if r["exact"] and r["retuned"]:  # a recorded wait may have lowered the timer of a job that was asked earlier
        r["due"] = 1
    r["phase"] = OFFERS
    return NEXT_PHASE


@helper
def stop_marked(sim: Run, choice: Choice, delay: Delay) -> int:
    """Return the stop of a gang that is marked: a lease to the end of its step, or a preemption."""
    r = delay.rules
    if (r["victims"] or r["policy"] == GANDIVA) and stop_next(sim, choice, delay):
        r["stopped"] = 1
        return LEASE if choice.made["until_s"] > sim.world["clock_s"] else PREEMPT
    r["phase"] = OBSERVES if r["stopped"] else ENDS
    r["stopped"] = 0
    return NEXT_PHASE


@helper
def end(sim: Run, choice: Choice, delay: Delay) -> int:
    """Return the time of the next decision point, if the scheduler asks for one."""
    r = delay.rules
    if not r["exact"]:
        count_offer(sim, delay)
        r["free_before"] = r["free"]
    r["phase"] = OVER
    choice.made["until_s"] = next_wake(sim, delay)
    return WAIT if choice.made["until_s"] < np.inf else NOTHING
