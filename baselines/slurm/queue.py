"""Kernels that keep the waiting jobs sorted: by class if jobs preempt, by priority, by arrival, by id."""

from __future__ import annotations

import math

from gpusched_env.baselines.listed.lines import before, sort_rows
from gpusched_env.baselines.slurm.state import SlurmState
from gpusched_env.core.handle import kernel
from gpusched_env.core.holding import entry
from gpusched_env.core.state import WAITING, Run


@kernel
def set_priority(sim: Run, plan: SlurmState, row: int) -> None:
    """Compute the priority of a waiting job; a job that was preempted is as old as its last stop."""
    m = plan.memory
    points = plan.fixed[row] + m["share_weight"] * plan.factor[plan.tenant[row]]
    if m["age_weight"] > 0.0:
        waited_s = sim.world["clock_s"] - sim.jobs[row]["last_stop_s"]
        points += m["age_weight"] * min(1.0, waited_s / m["max_age_s"])
    plan.ranks[row] = -min(max(math.floor(points), 1.0), 4294967295.0)


@kernel
def insert(plan: SlurmState, row: int) -> None:
    """Insert a job into the queue; jobs of lower priority shift by one entry."""
    m = plan.memory
    if m["end"] == len(plan.order):  # the unused entries are before the queue
        for i in range(m["begin"], m["end"]):
            plan.order[i - m["begin"]] = plan.order[i]
        m["end"] -= m["begin"]
        m["begin"] = 0
    at = m["end"]
    while at > m["begin"] and before(plan.keys, plan.ranks, row, plan.order[at - 1]):
        plan.order[at] = plan.order[at - 1]
        at -= 1
    plan.order[at] = row
    m["end"] += 1


@kernel
def remove(plan: SlurmState, at: int) -> None:
    """Remove the entry ``at`` of the queue; the entries before it shift by one."""
    m = plan.memory
    for i in range(at, m["begin"], -1):
        plan.order[i] = plan.order[i - 1]
    m["begin"] += 1


@kernel
def sort_queue(sim: Run, plan: SlurmState) -> None:
    """Compute all priorities again, and sort the queue."""
    m = plan.memory
    count = m["end"] - m["begin"]
    for i in range(count):
        plan.order[i] = plan.order[m["begin"] + i]
        set_priority(sim, plan, plan.order[i])
    m["begin"] = 0
    m["end"] = count
    sort_rows(plan.order, plan.scratch, plan.keys, plan.ranks, count)


@kernel
def update_queue(sim: Run, plan: SlurmState) -> None:
    """Insert the jobs that have arrived; if other jobs have come or gone, list all waiting jobs again."""
    m = plan.memory
    w = sim.world
    while m["seen"] < w["entered"]:
        row = entry(sim, m["seen"])
        m["seen"] += 1
        if sim.jobs[row]["status"] == WAITING:
            set_priority(sim, plan, row)
            insert(plan, row)
    if m["end"] - m["begin"] == w["waiting"] and m["starts"] == w["starts"]:
        return
    for i in range(w["waiting"]):
        plan.order[i] = sim.waiting[w["first_waiting"] + i]
    m["begin"] = 0
    m["end"] = w["waiting"]
    m["starts"] = w["starts"]
    sort_queue(sim, plan)
