"""Kernels that keep the requests of waiting jobs sorted: by class if jobs preempt, by priority, by arrival, by id."""

from __future__ import annotations

import math

from gpusched_env.baselines.list_policies.lines import before, sort_rows
from gpusched_env.baselines.slurm.state import SlurmState
from gpusched_env.core.handle import helper, kernel
from gpusched_env.core.holding import entry
from gpusched_env.core.state import WAITING, Run


@helper
def job_of(plan: SlurmState, request: int) -> int:
    """Return the job of a request; without partitions both have the same number, which saves a look-up."""
    return plan.row_of[request] if plan.memory["divided"] else request


@kernel
def set_priority(sim: Run, plan: SlurmState, request: int) -> None:
    """Compute the priority of a request; a job that was preempted is as old as its last stop."""
    m = plan.memory
    row = job_of(plan, request)
    points = plan.fixed[request] + m["share_weight"] * plan.factor[plan.tenant[row]]
    if m["age_weight"] > 0.0:
        waited_s = sim.world["clock_s"] - sim.jobs[row]["last_stop_s"]
        points += m["age_weight"] * min(1.0, waited_s / m["max_age_s"])
    plan.ranks[request] = -min(max(math.floor(points), 1.0), 4294967295.0)


@kernel
def insert(plan: SlurmState, request: int) -> None:
    """Insert a request into the queue; requests of lower priority shift by one entry."""
    m = plan.memory
    if m["end"] == len(plan.order):  # the unused entries are before the queue
        for i in range(m["begin"], m["end"]):
            plan.order[i - m["begin"]] = plan.order[i]
        m["end"] -= m["begin"]
        m["begin"] = 0
    at = m["end"]
    while at > m["begin"] and before(plan.keys, plan.ranks, request, plan.order[at - 1]):
        plan.order[at] = plan.order[at - 1]
        at -= 1
    plan.order[at] = request
    m["end"] += 1


@kernel
def remove(plan: SlurmState, at: int) -> None:
    """Remove the entry ``at`` of the queue; the entries before it shift by one."""
    m = plan.memory
    for i in range(at, m["begin"], -1):
        plan.order[i] = plan.order[i - 1]
    m["begin"] += 1


@kernel(lazy=True)
def remove_others(plan: SlurmState, request: int) -> None:
    """Remove the other requests of a job that starts; ``at`` and ``last`` follow the entries that shift."""
    m = plan.memory
    i = m["end"] - 1
    while i >= m["begin"]:
        if plan.order[i] != request and plan.row_of[plan.order[i]] == plan.row_of[request]:
            remove(plan, i)
            m["further"] -= 1
            if m["at"] < i:
                m["at"] += 1
            if m["last"] < i:
                m["last"] += 1
        else:
            i -= 1


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
    """Insert the jobs that have arrived; if other jobs have come or gone, list all requests again."""
    m = plan.memory
    w = sim.world
    while m["seen"] < w["entered"]:
        row = entry(sim, m["seen"])
        m["seen"] += 1
        if sim.jobs[row]["status"] == WAITING:
            for request in range(plan.request[row], plan.request[row + 1]):
                set_priority(sim, plan, request)
                insert(plan, request)
            m["further"] += plan.request[row + 1] - plan.request[row] - 1
    if m["end"] - m["begin"] - m["further"] == w["waiting"] and m["starts"] == w["starts"]:
        return
    m["begin"] = 0
    m["end"] = 0
    for i in range(w["waiting"]):
        row = sim.waiting[w["first_waiting"] + i]
        for request in range(plan.request[row], plan.request[row + 1]):
            plan.order[m["end"]] = request
            m["end"] += 1
    m["further"] = m["end"] - w["waiting"]
    m["starts"] = w["starts"]
    sort_queue(sim, plan)
