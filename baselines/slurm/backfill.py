"""Kernels of backfill: the profile of free GPUs by time limits, and one cycle through the queue."""

from __future__ import annotations

import math

from gpusched_env.baselines.slurm.cells import (
    add_end,
    begin_cells,
    first_room_in_cells,
    place_parts,
    share_out,
    sum_cells,
    take_parts,
)
from gpusched_env.baselines.slurm.profile import first_room, measure, slot_after, slot_of, take_room
from gpusched_env.baselines.slurm.queue import remove
from gpusched_env.baselines.slurm.state import CONSERVATIVE, SlurmState
from gpusched_env.baselines.slurm.usage import add_held, is_over
from gpusched_env.core.handle import kernel
from gpusched_env.core.placement.placing import fits
from gpusched_env.core.state import ACTIVE, Run


@kernel
def begin_cycle(sim: Run, plan: SlurmState) -> None:
    """Write the profile of free GPUs by the limits of the running jobs, and begin at the first waiting job.

    A job that has used up its limit is assumed to end by the next slot. If no tested job is small enough for the free
    GPUs, none can start, and there is no profile.
    """
    m = plan.memory
    w = sim.world
    m["at"] = m["begin"]
    m["tested"] = 0
    m["started"] = 0
    for p in range(len(plan.planned)):
        plan.planned[p] = 0
    m["cycle_s"] = w["clock_s"]
    m["last"] = last_candidate(sim, plan)
    if m["last"] < m["begin"]:
        plan.planned_s[plan.order[m["begin"]]] = math.inf
        return
    base = slot_of(w["clock_s"], m["slot_s"])
    slots = len(plan.free)
    for i in range(slots):
        plan.free[i] = 0
    plan.free[0] = w["free_gpus"]
    if m["divided"]:
        begin_cells(sim, plan)
    for i in range(w["running"]):
        r = sim.replicas[sim.running[i]]
        if r["phase"] == ACTIVE:
            end_s = r["since_s"] + (plan.limit_s[r["job"]] - sim.jobs[r["job"]]["service_s"])
        else:
            end_s = r["until_s"]
        if end_s < (base + slots) * m["slot_s"]:
            slot = max(slot_after(end_s, m["slot_s"]) - base, 1)
            if slot < slots:
                plan.free[slot] += r["gpus"]
                if m["divided"]:
                    add_end(sim, plan, sim.running[i], slot)
    for i in range(1, slots):
        plan.free[i] += plan.free[i - 1]
    measure(plan)
    if m["divided"]:
        sum_cells(plan)
    for t in range(len(plan.tests)):
        plan.tests[t] = 0


@kernel
def last_candidate(sim: Run, plan: SlurmState) -> int:
    """Return the last entry of the queue that a cycle tests and whose gang is not larger than the free GPUs.

    Later entries cannot start, so the cycle ends there. If there is none, the result is the entry before the queue.
    """
    m = plan.memory
    at = m["end"] - 1
    if m["capped"] == 0 and m["tenant_tests"] == 0:  # otherwise some entries do not count as tests
        at = min(at, m["begin"] + m["tests"] - 1)
    while at >= m["begin"] and sim.jobs[plan.order[at]]["gpus"] > sim.world["free_gpus"]:
        at -= 1
    return at


@kernel
def fill_next(sim: Run, plan: SlurmState) -> int:
    """Continue a cycle: plan jobs up to one that starts now; return its row, -1 = the cycle is over.

    The cycle ends when no GPU is free or no later job is small enough, because plans last no longer than the cycle.
    """
    m = plan.memory
    w = sim.world
    now_s = w["clock_s"]
    slot_s = m["slot_s"]
    base = slot_of(now_s, slot_s)
    slots = len(plan.free)
    while m["at"] <= m["last"] and m["tested"] < m["tests"] and w["free_gpus"] > 0:
        if m["cycle_starts"] > 0 and m["started"] >= m["cycle_starts"]:
            return -1
        row = plan.order[m["at"]]
        gang = sim.jobs[row]["gpus"]
        tenant = plan.tenant[row]
        held = m["capped"] == 1 and is_over(plan, row, gang)
        if held or (m["tenant_tests"] > 0 and plan.tests[tenant] >= m["tenant_tests"]):
            m["at"] += 1
            continue
        m["tested"] += 1
        plan.tests[tenant] += 1
        left_s = min(max(plan.limit_s[row] - sim.jobs[row]["service_s"], 0.0), slots * slot_s)
        length_now = max(slot_after(now_s + left_s, slot_s) - base, 1)
        length = max(math.ceil(left_s / slot_s), 1)
        if m["divided"]:
            begin = first_room_in_cells(sim, plan, row, 0, length_now, length)
        else:
            begin = first_room(plan, 0, gang, length_now, length)
        if begin == 0:
            if m["divided"]:
                share_out(plan, gang)
                found = place_parts(sim, plan, row)
            else:
                found = fits(sim, sim.jobs[row]["job_class"], gang, m["rule"])
            if found:
                take_plan(plan, 0, length_now, gang)
                m["started"] += 1
                plan.planned_s[row] = now_s
                leave_queue(plan, m["at"], row, gang)
                m["at"] += 1
                return row
            # enough GPUs are free, but in the wrong places
            if m["divided"]:
                begin = first_room_in_cells(sim, plan, row, 1, length_now, length)
            else:
                begin = first_room(plan, 1, gang, length_now, length)
        plan.planned_s[row] = math.inf
        if begin > 0:
            plan.planned_s[row] = (base + begin) * slot_s
            first = plan.planned[plan.partition[row]] == 0
            if (m["backfill"] == CONSERVATIVE or first) and -plan.ranks[row] >= m["least_reserve"]:
                if m["divided"]:
                    share_out(plan, gang)
                take_plan(plan, begin, begin + length, gang)
                plan.planned[plan.partition[row]] += 1
        m["at"] += 1
    return -1


@kernel
def take_plan(plan: SlurmState, begin: int, end: int, gang: int) -> None:
    """Take the GPUs of a gang from slot ``begin`` until before slot ``end``; with partitions, those of ``parts``."""
    if plan.memory["divided"]:
        take_parts(plan, begin, end)
    else:
        take_room(plan, begin, end, gang)


@kernel
def leave_queue(plan: SlurmState, at: int, row: int, gang: int) -> None:
    """Remove the entry ``at`` from the queue, because its job starts now."""
    remove(plan, at)
    plan.memory["starts"] += 1
    if plan.memory["capped"] == 1:
        add_held(plan, row, gang)
