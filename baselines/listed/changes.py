"""Changes of queue of running jobs under Tiresias: a binary heap of gangs, keyed by the time of the change.

The times in the heap have rounding errors: a time that is recomputed later may differ in its last bits. The caller
needs the value computed at the present time, so the times of all gangs that might come first are recomputed. When a job
changes its queue, it is removed from the sorted list of running jobs that it was in, and is added to ``walk``
(runners.py).
"""

from __future__ import annotations

import numpy as np

from gpusched_env.baselines.listed.keys import NEAR, NEAR_S, queue_key, queue_of
from gpusched_env.baselines.listed.runners import IN_LIST, leave_runners
from gpusched_env.baselines.listed.state import ListState
from gpusched_env.core.events import attained_service
from gpusched_env.core.handle import kernel
from gpusched_env.core.state import ACTIVE, Run


@kernel
def change_of_queue_s(sim: Run, plan: ListState, number: int) -> float:
    """Return the time at which the job of a gang changes its queue if the gang continues [s]; inf = never."""
    replica = sim.replicas[number]
    if replica["phase"] != ACTIVE:
        return np.inf
    row = replica["job"]
    attained = attained_service(sim, row)
    queue = queue_of(plan, attained)
    if queue == len(plan.thresholds):
        return np.inf
    begin = max(replica["since_s"], sim.world["clock_s"])
    return begin + (plan.thresholds[queue] - attained) / sim.jobs[row]["gpus"]


@kernel
def expect_change(plan: ListState, number: int, time_s: float) -> None:
    """Insert a gang into the heap or move it; an infinite time removes it."""
    at = plan.places[number]
    if at < 0:
        if time_s == np.inf:
            return
        at = plan.memory["changing"]
        plan.memory["changing"] += 1
    elif time_s == np.inf:  # the last entry fills the gap
        plan.places[number] = -1
        plan.memory["changing"] -= 1
        if at == plan.memory["changing"]:
            return
        number = plan.heap[plan.memory["changing"]]
        time_s = plan.changes_s[number]
    plan.changes_s[number] = time_s
    while at > 0 and plan.changes_s[plan.heap[(at - 1) // 2]] > time_s:
        plan.heap[at] = plan.heap[(at - 1) // 2]
        plan.places[plan.heap[at]] = at
        at = (at - 1) // 2
    while 2 * at + 1 < plan.memory["changing"]:
        child = 2 * at + 1
        if (
            child + 1 < plan.memory["changing"]
            and plan.changes_s[plan.heap[child + 1]] < plan.changes_s[plan.heap[child]]
        ):
            child += 1
        if plan.changes_s[plan.heap[child]] >= time_s:
            break
        plan.heap[at] = plan.heap[child]
        plan.places[plan.heap[at]] = at
        at = child
    plan.heap[at] = number
    plan.places[number] = at


@kernel
def follow_changes_of_queue(sim: Run, plan: ListState) -> float:
    """Remove jobs that have changed queue from their lists; return when the next running job changes queue [s]."""
    first_s = np.inf
    slack_s = NEAR_S + NEAR * sim.world["clock_s"]
    count = 0
    while plan.memory["changing"] > 0:
        number = plan.heap[0]
        if plan.changes_s[number] > first_s + slack_s:
            break
        expect_change(plan, number, np.inf)
        plan.changes_s[number] = change_of_queue_s(sim, plan, number)
        first_s = min(first_s, plan.changes_s[number])
        plan.near[count] = number
        count += 1
    for i in range(count):
        number = plan.near[i]
        expect_change(plan, number, plan.changes_s[number])
        row = sim.replicas[number]["job"]
        if sim.replicas[number]["phase"] != ACTIVE or plan.member[row] != IN_LIST:
            continue
        if plan.levels[row] != queue_key(sim, plan, row):
            line = plan.line_of[sim.jobs[row]["gpus"]]
            leave_runners(plan, line, row, True)
    return first_s
