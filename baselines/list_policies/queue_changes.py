"""Queues of Tiresias: when jobs change them, and a binary heap of gangs, keyed by the time of the change.

The times in the heap have rounding errors: a time that is recomputed later may differ in its last bits. The caller
needs the value computed at the present time, so the times of all gangs that might come first are recomputed. When a job
changes its queue, it is removed from the sorted list of running jobs that it was in, and is added to ``walk``
(runners.py).
"""

from __future__ import annotations

import numpy as np

from gpusched_env.baselines.estimates import USER, passes_s
from gpusched_env.baselines.list_policies.keys import (
    NEAR,
    NEAR_S,
    demoting_service,
    gang_of,
    queue_key,
    queue_of,
    revised_in_s,
    service_of,
)
from gpusched_env.baselines.list_policies.lines import append_marked, mark_jobs, sort_rows
from gpusched_env.baselines.list_policies.runners import IN_LIST, leave_runners
from gpusched_env.baselines.list_policies.state import ListState
from gpusched_env.core.handle import helper, kernel
from gpusched_env.core.state import ACTIVE, Run


@helper
def change_of_queue_s(sim: Run, plan: ListState, number: int) -> float:
    """Return the time at which the job of a gang may change its queue if the gang continues [s]; inf = never."""
    replica = sim.replicas[number]
    begin_s = sim.world["clock_s"]
    if not plan.memory["by_held"]:
        if replica["phase"] != ACTIVE:
            return np.inf
        begin_s = max(replica["since_s"], begin_s)
    row = replica["job"]
    attained = demoting_service(sim, plan, row)
    queue = queue_of(sim, plan, row, attained)
    if queue == len(plan.thresholds):
        return np.inf
    change_s = begin_s + (plan.thresholds[queue] - attained) / gang_of(sim, row)
    if plan.source["estimator"] >= USER and replica["phase"] == ACTIVE:
        begin_s = max(replica["since_s"], sim.world["clock_s"])
        change_s = min(change_s, passes_s(begin_s + revised_in_s(sim, plan, row)))
    return change_s


@kernel
def promotion_s(sim: Run, plan: ListState, row: int) -> float:
    """Return the time at which a waiting job is promoted [s]; inf = it is in the first queue."""
    if queue_of(sim, plan, row, demoting_service(sim, plan, row)) == 0:
        return np.inf
    past = plan.queued[row]
    since_s = max(sim.jobs[row]["last_stop_s"], past["waits_since_s"])
    return since_s + plan.memory["knob"] * (service_of(sim, plan, row) - past["forgiven_s"])


@kernel
def next_change_of_queue(sim: Run, plan: ListState) -> float:
    """Return when the next job changes its queue, by a visit to all that may [s]."""
    w = sim.world
    first_s = np.inf
    last = 2.0 * len(plan.thresholds)  # key of the last queue, which a job leaves only by a promotion
    if plan.memory["whole"]:
        for i in range(plan.memory["listed"]):
            row = plan.order[i]
            if plan.keys[row] >= last:
                break
            if sim.jobs[row]["replica"] >= 0:
                first_s = min(first_s, change_of_queue_s(sim, plan, sim.jobs[row]["replica"]))
    else:
        for i in range(w["running"]):
            first_s = min(first_s, change_of_queue_s(sim, plan, sim.running[i]))
    if plan.memory["knob"] < np.inf:
        for i in range(w["first_waiting"], w["first_waiting"] + w["waiting"]):
            first_s = min(first_s, promotion_s(sim, plan, sim.waiting[i]))
    return first_s


@kernel(lazy=True)
def count_held(sim: Run, plan: ListState) -> None:
    """Add the time since the last decision point to that for which the running gangs have held their GPUs."""
    seconds = sim.world["clock_s"] - plan.memory["counted_s"]
    plan.memory["counted_s"] = sim.world["clock_s"]
    for i in range(sim.world["running"]):  # gangs start and stop only at decision points
        plan.queued[sim.replicas[sim.running[i]]["job"]]["held_s"] += seconds


@kernel(lazy=True)
def promote_starved(sim: Run, plan: ListState) -> None:
    """Return the jobs that have waited for long to the first queue."""
    w = sim.world
    for i in range(w["first_waiting"], w["first_waiting"] + w["waiting"]):
        row = sim.waiting[i]
        if promotion_s(sim, plan, row) <= w["clock_s"]:
            plan.queued[row]["forgiven_s"] = service_of(sim, plan, row)
            plan.queued[row]["waits_since_s"] = w["clock_s"]


@kernel
def note_queue(sim: Run, plan: ListState, row: int) -> None:
    """Write down when a job has entered its queue; with ``tail``, it has no place there yet."""
    queue = queue_of(sim, plan, row, demoting_service(sim, plan, row))
    if plan.queued[row]["queue"] != queue:
        plan.queued[row]["queue"] = queue
        plan.queued[row]["entered_s"] = sim.world["clock_s"]
        if plan.memory["tail"]:
            plan.queued[row]["entered_s"] = 0.0
            sim.world["calm"] = -1  # all gangs restart, if they ever do


@kernel(lazy=True)
def note_queues(sim: Run, plan: ListState) -> None:
    """Write down when the jobs that have changed their queue have done so."""
    w = sim.world
    for i in range(w["running"]):
        note_queue(sim, plan, sim.replicas[sim.running[i]]["job"])
    for i in range(w["first_waiting"], w["first_waiting"] + w["waiting"]):
        note_queue(sim, plan, sim.waiting[i])
    if plan.memory["tail"]:
        number_places(sim, plan)


@kernel(lazy=True)
def number_places(sim: Run, plan: ListState) -> None:
    """Number all jobs in the order of their queues: running jobs, waiting ones, then those that have come by row."""
    mark_jobs(sim, plan.member, True)
    count = append_marked(sim, plan.walk, plan.member, 0, True)
    for i in range(count):
        row = plan.walk[i]
        place = plan.queued[row]["entered_s"]
        behind = place == 0.0 or sim.jobs[row]["replica"] < 0
        plan.keys[row] = 2.0 * plan.queued[row]["queue"] + (1.0 if behind else 0.0)
        plan.ranks[row] = place if place > 0.0 else np.inf
    sort_rows(plan.walk, plan.scratch, plan.keys, plan.ranks, count)
    for i in range(count):
        plan.queued[plan.walk[i]]["entered_s"] = i + 1.0


@helper
def sink(plan: ListState, at: int, number: int) -> None:
    """Put a gang at a place of the heap or below it, where it is in order; under this place the heap is in order."""
    time_s = plan.changes_s[number]
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
def expect_change(plan: ListState, number: int, time_s: float) -> None:
    """Insert a gang into the heap or move it; an infinite time stands for no change."""
    at = plan.places[number]
    if at < 0:
        at = plan.memory["changing"]
        plan.memory["changing"] += 1
    plan.changes_s[number] = time_s
    while at > 0 and plan.changes_s[plan.heap[(at - 1) // 2]] > time_s:
        plan.heap[at] = plan.heap[(at - 1) // 2]
        plan.places[plan.heap[at]] = at
        at = (at - 1) // 2
    sink(plan, at, number)


@kernel
def follow_changes_of_queue(sim: Run, plan: ListState) -> float:
    """Remove jobs that have changed queue from their lists; return when the next running job changes queue [s]."""
    first_s = np.inf
    slack_s = NEAR_S + NEAR * sim.world["clock_s"]
    found = min(plan.memory["changing"], 1)
    plan.near[0] = 0  # places of the gangs that might come first: the top of the heap, and places below such a place
    for i in range(plan.memory["changing"]):
        if i == found:
            break
        at = plan.near[i]
        number = plan.heap[at]
        plan.changes_s[number] = change_of_queue_s(sim, plan, number)
        first_s = min(first_s, plan.changes_s[number])
        for child in range(2 * at + 1, min(2 * at + 3, plan.memory["changing"])):
            if plan.changes_s[plan.heap[child]] < first_s + slack_s:
                plan.near[found] = child
                found += 1
        row = sim.replicas[number]["job"]
        if sim.replicas[number]["phase"] != ACTIVE or plan.member[row] != IN_LIST:
            continue
        if plan.levels[row] != queue_key(sim, plan, row):
            line = plan.line_of[sim.jobs[row]["gpus"]]
            leave_runners(plan, line, row, True)
    for i in range(found - 1, -1, -1):  # the lowest first, so that the heap below each one is in order
        sink(plan, plan.near[i], plan.heap[plan.near[i]])
    return first_s
