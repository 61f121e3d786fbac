"""The steps of a decision point: the main pass, preemption, and a backfill cycle, one start or preemption at a time."""

from __future__ import annotations

import math

from gpusched_env.baselines.loop_kernels import ASLEEP, DECIDES, sleep, waits_until
from gpusched_env.baselines.slurm.backfill import begin_cycle, fill_next, leave_queue, overrun_s
from gpusched_env.baselines.slurm.cells import fits_now, keep_cells
from gpusched_env.baselines.slurm.preemption import choose_victims, grant_grace
from gpusched_env.baselines.slurm.queue import job_of, sort_queue, update_queue
from gpusched_env.baselines.slurm.state import (
    BEGUN,
    COMPUTED,
    CYCLE,
    ENDS,
    FILL,
    FRESH,
    GRACE,
    MAIN,
    NONE,
    PREEMPT,
    REST,
    SHARES,
    START,
    UNKNOWN,
    VICTIMS,
    SlurmState,
)
from gpusched_env.baselines.slurm.usage import count_held, count_rates, count_usage, is_over
from gpusched_env.core.events import BAD_WAIT, DECIDE, EXPLICIT, LOG_FULL, expired, lease, preempt, start
from gpusched_env.core.handle import kernel
from gpusched_env.core.placement.placing import fits
from gpusched_env.core.refusals import BUFFER_FULL
from gpusched_env.core.state import Run

COMPUTE = 8  # an outcome in addition to PAUSED: Python computes the fair-share factors


@kernel
def next_step(sim: Run, plan: SlurmState) -> int:
    """Return the next step of a decision point, which begins in phase DECIDES; the field ``row`` names its job."""
    m = plan.memory
    w = sim.world
    if m["phase"] == DECIDES:
        if w["leases_over"] > 0:  # grace times are over: all of them stop before others may take their GPUs
            m["row"] = sim.replicas[expired(sim)]["job"]
            return PREEMPT
        if count_usage(sim, plan):
            m["stale"] = BEGUN
        m["blocked"] = -1
        m["wake_s"] = math.inf
        m["phase"] = ENDS
        if w["waiting"] > 0:
            if m["stale"] == BEGUN and m["share_weight"] > 0.0:
                m["phase"] = DECIDES
                m["stale"] = COMPUTED
                return SHARES
            line_up(sim, plan)
    while m["phase"] == MAIN or m["phase"] == VICTIMS:
        if m["phase"] == VICTIMS:
            if m["victims"] > 0:
                m["victims"] -= 1
                victim = plan.victims[m["victims"]]
                m["row"] = plan.row_of[victim]
                if plan.grace_s[victim] > 0.0:
                    grant_grace(sim, plan, victim)
                    return GRACE
                return PREEMPT
            line_up(sim, plan)
        m["row"] = first_start(sim, plan)
        if m["row"] >= 0:
            return START
    if m["phase"] == CYCLE:
        m["phase"] = ENDS
        if m["backfill"] != NONE and m["begin"] < m["end"] and w["free_gpus"] > 0:
            if w["clock_s"] >= m["cycle_s"] + m["interval_s"]:
                begin_cycle(sim, plan)
                m["phase"] = FILL
            else:
                m["wake_s"] = m["cycle_s"] + m["interval_s"]
    if m["phase"] == FILL:
        m["row"] = fill_next(sim, plan)
        if m["row"] >= 0:
            return START
    if w["waiting"] > 0 and (m["age_weight"] > 0.0 or m["share_weight"] > 0.0):
        m["wake_s"] = min(m["wake_s"], (m["period"] + 1) * m["period_s"])
    if m["backfill"] != NONE and w["waiting"] > 0 and w["free_gpus"] > 0:
        m["wake_s"] = min(m["wake_s"], overrun_s(sim, plan))
    if m["share_weight"] > 0.0:
        count_rates(sim, plan)
    m["phase"] = ASLEEP
    return REST


@kernel
def line_up(sim: Run, plan: SlurmState) -> None:
    """Sort the queue, count the GPUs of tenants, and begin the main pass."""
    m = plan.memory
    update_queue(sim, plan)
    if m["stale"] != FRESH:
        if m["age_weight"] > 0.0 or m["share_weight"] > 0.0:
            sort_queue(sim, plan)
        m["stale"] = FRESH
    if m["capped"] == 1:
        count_held(sim, plan)
    m["at"] = m["begin"]
    m["tested"] = 0
    for p in range(len(plan.stopped)):
        plan.stopped[p] = 0
    for cell in range(len(plan.kept)):
        plan.kept[cell] = 0
    m["phase"] = MAIN


@kernel
def first_start(sim: Run, plan: SlurmState) -> int:
    """Continue the main pass; return the job that starts, -1 = none.

    The pass ends at the first job that cannot start; with partitions, it goes on with the requests of other partitions.
    Jobs that a limit of their tenant holds back block no others.
    """
    m = plan.memory
    while m["at"] < m["end"] and m["tested"] < m["depth"]:
        request = plan.order[m["at"]]
        row = job_of(plan, request)
        gang = sim.jobs[row]["gpus"]
        if m["capped"] == 1 and is_over(plan, row, gang):
            m["at"] += 1
            continue
        m["tested"] += 1
        if plan.stopped[plan.partition[request]]:
            m["at"] += 1
            continue
        if fits_now(sim, plan, request) if m["divided"] else fits(sim, plan.kind[request], gang, m["rule"]):
            leave_queue(plan, request, gang)
            m["at"] += 1
            return row
        if m["preempts"] == 1 and m["blocked"] != request:
            m["blocked"] = request
            m["victims"] = choose_victims(sim, plan, request)
            if m["victims"] > 0:
                m["phase"] = VICTIMS
                return -1
        if m["divided"] == 0:
            break
        plan.stopped[plan.partition[request]] = 1
        if m["preempts"] == 1:
            keep_cells(sim, plan, request)
        m["at"] += 1
    m["phase"] = CYCLE
    return -1


@kernel
def play_slurm(sim: Run, plan: SlurmState) -> int:
    """Simulate until ``until_s`` (PAUSED), COMPUTE, until the log is full, or until ``advance`` ends the run."""
    m = plan.memory
    while True:
        if m["phase"] == ASLEEP:
            outcome = sleep(sim, plan.memory)
            if outcome != DECIDE:
                return outcome
        if m["kind"] == UNKNOWN:
            m["kind"] = next_step(sim, plan)
        if m["kind"] == START:
            rule = EXPLICIT if m["divided"] else m["rule"]  # the GPUs are in ``chosen``
            explicit = sim.jobs[m["row"]]["gpus"] if m["divided"] else 0
            if start(sim, m["row"], rule, explicit, False, 0) == BUFFER_FULL:
                return LOG_FULL
        elif m["kind"] == PREEMPT:
            if preempt(sim, m["row"]) == BUFFER_FULL:
                return LOG_FULL
        elif m["kind"] == GRACE:
            lease(sim, m["row"], m["grace_end_s"])
        elif m["kind"] == REST and not waits_until(sim, m["wake_s"]):
            return BAD_WAIT
        shares = m["kind"] == SHARES
        m["kind"] = UNKNOWN
        if shares:
            return COMPUTE


@kernel
def begin_decision(plan: SlurmState) -> None:
    """Let the next step be the first of a decision point."""
    plan.memory["phase"] = DECIDES
