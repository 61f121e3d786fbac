"""Kernels of backfill: the profile of free GPUs by time limits, and one cycle through the queue."""

from __future__ import annotations

import math

import numpy as np

from gpusched_env.baselines.estimates import claim_after_s, passes_s
from gpusched_env.baselines.slurm.cells import (
    add_end,
    begin_cells,
    count_free,
    failed_gpus,
    first_room_in_cells,
    free_in_partition,
    limit_left_s,
    share_out,
    sum_cells,
    take_parts,
    time_reservations,
)
from gpusched_env.baselines.slurm.nodes import (
    add_gang_end,
    add_start,
    begin_nodes,
    book_nodes,
    first_on_nodes,
    fits_cycle,
    has_room_now,
    list_open,
    may_fit,
)
from gpusched_env.baselines.slurm.profile import add_up, first_room, has_room, slot_after, slot_of, take_room
from gpusched_env.baselines.slurm.queue import job_of, remove, remove_others
from gpusched_env.baselines.slurm.state import CONSERVATIVE, SlurmState
from gpusched_env.baselines.slurm.usage import add_held, is_over
from gpusched_env.core.handle import helper, kernel
from gpusched_env.core.state import ACTIVE, Run


@kernel
def begin_cycle(sim: Run, plan: SlurmState) -> None:
    """Write the profile of free GPUs by the limits of the running jobs, and begin at the first waiting job.

    If no tested job is small enough for the free GPUs, none can start, and there is no profile.
    """
    m = plan.memory
    w = sim.world
    m["at"] = m["begin"]
    m["tested"] = 0
    m["started"] = 0
    m["cycle"] += 1
    for p in range(len(plan.planned)):
        plan.planned[p] = 0
    m["cycle_s"] = w["clock_s"]
    m["last"] = m["end"] - 1
    if m["capped"] == 0 and m["tenant_tests"] == 0:  # otherwise some entries do not count as tests
        m["last"] = min(m["last"], m["begin"] + m["tests"] - 1)
    if m["divided"]:
        count_free(sim, plan)
    if m["by_node"]:
        list_open(sim, plan)
    drop_large(sim, plan)
    if m["last"] < m["begin"]:
        plan.planned_s[plan.order[m["begin"]]] = math.inf
        return
    base = slot_of(w["clock_s"], m["slot_s"])
    slots = len(plan.free)
    for i in range(slots):
        plan.free[i] = 0
    plan.free[0] = w["free_gpus"]
    if m["divided"]:
        time_reservations(sim, plan)
    if m["by_node"]:
        begin_nodes(plan)
    elif m["divided"]:
        begin_cells(sim, plan)
    elif w["node_sets"] > 0:
        plan.free[0] -= failed_gpus(sim)
    for i in range(w["running"]):
        r = sim.replicas[sim.running[i]]
        end_s = limit_end_s(sim, plan, sim.running[i]) if r["phase"] == ACTIVE else r["until_s"]
        if end_s < (base + slots) * m["slot_s"]:
            slot = max(slot_after(end_s, m["slot_s"]) - base, 1)
            if slot < slots:
                plan.free[slot] += r["gpus"]
                if m["by_node"]:
                    add_gang_end(sim, plan, sim.running[i], slot)
                elif m["divided"]:
                    add_end(sim, plan, sim.running[i], slot)
    add_up(plan)
    if m["divided"] and not m["by_node"]:
        sum_cells(plan)
    for t in range(len(plan.tests)):
        plan.tests[t] = 0


@helper
def limit_end_s(sim: Run, plan: SlurmState, number: int) -> float:
    """Return when a gang that runs ends by the limit of its job, which doubles when it is passed [s]."""
    since_s = sim.replicas[number]["since_s"]
    row = sim.replicas[number]["job"]
    before_s = sim.jobs[row]["service_s"]
    now_s = sim.world["clock_s"]
    had_s = before_s + max(now_s - since_s, 0.0)
    end_s: float = since_s + (claim_after_s(plan.runs_for_s[row], had_s, now_s) - before_s)
    return end_s


@kernel
def overrun_s(sim: Run, plan: SlurmState) -> float:
    """Return when the first running job passes its limit, after which the next cycle has another profile [s]."""
    first_s = math.inf
    for i in range(sim.world["running"]):
        if sim.replicas[sim.running[i]]["phase"] == ACTIVE:
            first_s = min(first_s, limit_end_s(sim, plan, sim.running[i]))
    return max(passes_s(first_s), np.nextafter(sim.world["clock_s"], math.inf))


@kernel
def drop_large(sim: Run, plan: SlurmState) -> None:
    """Move ``last`` back to the last entry whose gang fits the GPUs free for it; note how long it runs."""
    m = plan.memory
    while m["last"] >= m["at"]:
        request = plan.order[m["last"]]
        row = job_of(plan, request)
        if m["by_node"] and not may_fit(sim, plan, request):
            m["last"] -= 1
            continue
        free = free_in_partition(sim, plan, request) if m["divided"] else sim.world["free_gpus"]
        if sim.jobs[row]["gpus"] <= free:
            m["last_slots"] = slots_now(sim, plan, time_left_s(sim, plan, request, row))
            return
        m["last"] -= 1


@kernel
def drop_blocked(sim: Run, plan: SlurmState, begin: int, end: int) -> None:
    """After a plan of the slots [begin, end), move ``last`` back to the last entry that may still start now.

    Plans only take GPUs, so later entries cannot start in this cycle. In a long queue, nine of ten tests are left out.
    """
    m = plan.memory
    while m["last"] > m["at"]:
        request = plan.order[m["last"]]
        gang = sim.jobs[job_of(plan, request)]["gpus"]
        if begin >= m["last_slots"]:
            return
        if m["by_node"]:
            if has_room_now(sim, plan, request, m["last_slots"]):
                return
        elif has_room(plan, begin, min(end, m["last_slots"]), gang):
            return
        begin = 0  # the entries before this one have not been looked at
        m["last"] -= 1
        drop_large(sim, plan)
        end = len(plan.free)


@helper
def time_left_s(sim: Run, plan: SlurmState, request: int, row: int) -> float:
    """Return the time that a job may still run by the limit of its request, at most that of the window [s]."""
    return min(limit_left_s(sim, plan, request, row), len(plan.free) * plan.memory["slot_s"])


@helper
def slots_now(sim: Run, plan: SlurmState, left_s: float) -> int:
    """Return the number of slots that a job takes if it starts now and runs for so long."""
    now_s = sim.world["clock_s"]
    slot_s = plan.memory["slot_s"]
    return max(slot_after(now_s + left_s, slot_s) - slot_of(now_s, slot_s), 1)


@kernel
def first_begin(sim: Run, plan: SlurmState, request: int, begin: int, length_now: int, length: int) -> int:
    """Return the first slot, from ``begin`` on, at which a job fits for long enough; -1 = none."""
    if plan.memory["by_node"]:
        if begin == 0 and has_room_now(sim, plan, request, length_now):
            return 0
        return first_on_nodes(sim, plan, request, length)
    if plan.memory["divided"]:
        return first_room_in_cells(sim, plan, request, begin, length_now, length)
    return first_room(plan, begin, sim.jobs[job_of(plan, request)]["gpus"], length_now, length)


@kernel
def fill_next(sim: Run, plan: SlurmState) -> int:
    """Continue a cycle: plan jobs up to one that starts now; return its row, -1 = no later job can start."""
    m = plan.memory
    w = sim.world
    now_s = w["clock_s"]
    slot_s = m["slot_s"]
    base = slot_of(now_s, slot_s)
    while m["at"] <= m["last"] and m["tested"] < m["tests"] and w["free_gpus"] > 0:
        if m["cycle_starts"] > 0 and m["started"] >= m["cycle_starts"]:
            return -1
        request = plan.order[m["at"]]
        row = job_of(plan, request)
        gang = sim.jobs[row]["gpus"]
        tenant = plan.tenant[row]
        held = m["capped"] == 1 and is_over(plan, row, gang)
        if held or (m["tenant_tests"] > 0 and plan.tests[tenant] >= m["tenant_tests"]):
            m["at"] += 1
            continue
        m["tested"] += 1
        plan.tests[tenant] += 1
        left_s = time_left_s(sim, plan, request, row)
        length_now = slots_now(sim, plan, left_s)
        length = max(math.ceil(left_s / slot_s), 1)
        begin = first_begin(sim, plan, request, 0, length_now, length)
        if begin == 0:
            if fits_cycle(sim, plan, request, length_now):
                take_plan(sim, plan, 0, length_now, gang)
                m["started"] += 1
                plan.planned_s[request] = now_s
                leave_queue(plan, request, gang)
                m["at"] += 1
                return row
            # enough GPUs are free, but in the wrong places
            begin = first_begin(sim, plan, request, 1, length_now, length)
        plan.planned_s[request] = math.inf
        if m["one_plan"] == 1 and plan.booked[row] == m["cycle"]:
            begin = -1
        if begin > 0:
            plan.planned_s[request] = (base + begin) * slot_s
            first = plan.planned[plan.partition[request]] == 0
            if (m["backfill"] == CONSERVATIVE or first) and -plan.ranks[request] >= m["least_reserve"]:
                plan.booked[row] = m["cycle"]
                take_plan(sim, plan, begin, begin + length, gang)
                plan.planned[plan.partition[request]] += 1
        m["at"] += 1
    return -1


@kernel
def take_plan(sim: Run, plan: SlurmState, begin: int, end: int, gang: int) -> None:
    """Take the GPUs of a gang from slot ``begin`` until before slot ``end``; with partitions, those of ``parts``."""
    if plan.memory["by_node"]:
        if begin == 0:
            add_start(sim, plan, end, gang)
        else:
            book_nodes(plan, begin, end, gang)
        drop_blocked(sim, plan, begin, end)
    elif plan.memory["divided"]:
        if begin > 0:
            share_out(plan, gang)
        take_parts(plan, begin, end)
    else:
        take_room(plan, begin, end, gang)
        drop_blocked(sim, plan, begin, end)


@kernel
def leave_queue(plan: SlurmState, request: int, gang: int) -> None:
    """Remove all requests of a job that starts now with this one, which is the entry ``at`` of the queue."""
    row = job_of(plan, request)
    if plan.memory["preempts"] == 1:
        plan.runs_for_s[row] = plan.limit_s[request]
    if plan.memory["divided"] and plan.request[row + 1] - plan.request[row] > 1:
        remove_others(plan, request)
        plan.runs_as[row] = request
        plan.runs_for_s[row] = plan.limit_s[request]
    remove(plan, plan.memory["at"])
    plan.memory["starts"] += 1
    if plan.memory["capped"] == 1:
        add_held(plan, row, gang)
