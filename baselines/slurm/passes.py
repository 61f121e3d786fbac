"""The kernel of Slurm: the main pass, preemption, and a backfill cycle, one start or preemption at a time."""

from __future__ import annotations

import math

from gpusched_env.baselines.slurm.backfill import begin_cycle, fill_next, leave_queue, overrun_s
from gpusched_env.baselines.slurm.cells import all_withheld, keep_cells
from gpusched_env.baselines.slurm.nodes import fits_main
from gpusched_env.baselines.slurm.preemption import choose_victims, grace_end_s, keeps_places, waits_for_victims
from gpusched_env.baselines.slurm.queue import job_of, sort_queue, update_queue
from gpusched_env.baselines.slurm.state import (
    BEGUN,
    COMPUTED,
    CYCLE,
    ENDS,
    FILL,
    FIRST,
    FRESH,
    KEPT,
    MAIN,
    NONE,
    OPEN,
    OVER,
    VICTIMS,
    WITHHELD,
    SlurmState,
)
from gpusched_env.baselines.slurm.usage import count_held, count_rates, count_usage, is_over
from gpusched_env.core.driver import ASSIST, BEGINS, LEASE, NOTHING, PREEMPT, START, WAIT, Choice, policy
from gpusched_env.core.events import expired
from gpusched_env.core.handle import helper, kernel
from gpusched_env.core.state import Run
from gpusched_env.support.units import LATEST_S


@policy
@kernel
def next_slurm(sim: Run, choice: Choice, plan: SlurmState) -> int:
    """Write the next decision of the decision point, and return its kind; ASSIST: compute the fair-share factors."""
    m = plan.memory
    if choice.made["first"] == BEGINS:
        m["phase"] = FIRST
    kind = NOTHING
    if m["phase"] == FIRST:
        kind = begin_point(sim, choice, plan)
    if kind == NOTHING and (m["phase"] == MAIN or m["phase"] == VICTIMS):
        kind = next_of_pass(sim, choice, plan)
    if kind == NOTHING and (m["phase"] == CYCLE or m["phase"] == FILL):
        kind = next_of_cycle(sim, choice, plan)
    if kind == NOTHING and m["phase"] == ENDS:
        kind = end_point(sim, choice, plan)
    return kind


@helper
def begin_point(sim: Run, choice: Choice, plan: SlurmState) -> int:
    """Begin a decision point; jobs whose grace times are over are preempted before others may take their GPUs."""
    m = plan.memory
    if sim.world["leases_over"] > 0:
        choice.made["row"] = sim.replicas[expired(sim)]["job"]
        return PREEMPT
    if count_usage(sim, plan):
        m["stale"] = BEGUN
    m["blocked"] = -1
    m["wake_s"] = math.inf
    m["phase"] = ENDS
    if sim.world["waiting"] > 0:
        if m["stale"] == BEGUN and m["share_weight"] > 0.0:
            m["phase"] = FIRST
            m["stale"] = COMPUTED
            return ASSIST
        line_up(sim, plan)
    return NOTHING


@helper
def write_start(sim: Run, choice: Choice, plan: SlurmState, row: int) -> int:
    """Write the start of a job; with partitions, its GPUs are in ``chosen``."""
    c = choice.made
    c["row"] = row
    c["rule"] = plan.memory["rule"]
    m = plan.memory
    c["gpus"] = sim.jobs[row]["gpus"] if m["divided"] or (m["by_node"] and m["phase"] == FILL) else 0
    return START


@kernel
def next_of_pass(sim: Run, choice: Choice, plan: SlurmState) -> int:
    """Continue the main pass, which preempts jobs for those that do not fit."""
    m = plan.memory
    while m["phase"] == MAIN or m["phase"] == VICTIMS:
        if m["phase"] == VICTIMS:
            if m["victims"] > 0:
                m["victims"] -= 1
                victim = plan.victims[m["victims"]]
                choice.made["row"] = plan.row_of[victim]
                if plan.grace_s[victim] > 0.0:
                    choice.made["until_s"] = grace_end_s(sim, plan, victim)
                    return LEASE
                return PREEMPT
            line_up(sim, plan)
        row = first_start(sim, plan)
        if row >= 0:
            return write_start(sim, choice, plan, row)
    return NOTHING


@kernel
def next_of_cycle(sim: Run, choice: Choice, plan: SlurmState) -> int:
    """Continue the backfill cycle; begin it if one is due."""
    m = plan.memory
    w = sim.world
    if m["phase"] == CYCLE and m["backfill"] != NONE and m["begin"] < m["end"] and w["free_gpus"] > 0:
        if w["clock_s"] >= m["cycle_s"] + m["interval_s"]:
            begin_cycle(sim, plan)
            m["phase"] = FILL
        else:
            m["wake_s"] = min(m["wake_s"], m["cycle_s"] + m["interval_s"])
    if m["phase"] == FILL:
        row = fill_next(sim, plan)
        if row >= 0:
            return write_start(sim, choice, plan, row)
    m["phase"] = ENDS
    return NOTHING


@helper
def end_point(sim: Run, choice: Choice, plan: SlurmState) -> int:
    """End the decision point: wait for the next cycle, the next period, or the next job that passes its limit."""
    m = plan.memory
    w = sim.world
    if w["waiting"] > 0 and (m["age_weight"] > 0.0 or m["share_weight"] > 0.0):
        m["wake_s"] = min(m["wake_s"], (m["period"] + 1) * m["period_s"])
    next_cycle_s = m["cycle_s"] + m["interval_s"]
    wakes_before = m["by_node"] and w["clock_s"] < next_cycle_s and m["wake_s"] <= next_cycle_s
    if m["backfill"] != NONE and w["waiting"] > 0 and w["free_gpus"] > 0 and not wakes_before:
        m["wake_s"] = min(m["wake_s"], overrun_s(sim, plan))
    if m["share_weight"] > 0.0:
        count_rates(sim, plan)
    m["phase"] = OVER
    choice.made["until_s"] = m["wake_s"]
    return WAIT if m["wake_s"] <= LATEST_S else NOTHING


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
        plan.kept[cell] = OPEN
    m["phase"] = MAIN


@kernel
def first_start(sim: Run, plan: SlurmState) -> int:
    """Continue the main pass, up to the first job that cannot start; return the job that starts, -1 = none.

    With partitions, it goes on with requests of other partitions, on other nodes. Jobs over a limit of their tenant
    block no others.
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
        if fits_main(sim, plan, request):
            leave_queue(plan, request, gang)
            m["at"] += 1
            return row
        if m["preempts"] == 1 and m["blocked"] != request:
            m["blocked"] = request
            m["victims"] = choose_victims(sim, plan, request)
            if m["victims"] > 0:
                m["phase"] = VICTIMS
                return -1
        how = KEPT
        if m["preempts"] == 1 and not keeps_places(sim, plan, request) and waits_for_victims(sim, plan, request):
            how = WITHHELD  # a cycle could give away the places that are to become free
        if m["divided"] == 0:
            m["phase"] = ENDS if how == WITHHELD else CYCLE
            return -1
        plan.stopped[plan.partition[request]] = 1
        keep_cells(sim, plan, request, how)
        m["at"] += 1
    m["phase"] = ENDS if m["divided"] == 1 and all_withheld(plan) else CYCLE
    return -1
