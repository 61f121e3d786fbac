"""When running jobs of Tiresias change their queues: the gangs in a heap, by the time at which each will.

The times in the heap were right when they were computed, but for rounding; whoever asks now gets what the clock of now
makes of them, so all that might be the first are computed anew. Jobs whose queue has changed leave their sorted lists
then (runner_kernels.py).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gpusched_env.baselines.key_kernels import NEAR, NEAR_S, queue_key, queue_of
from gpusched_env.baselines.runner_kernels import IN_LIST, leave_runners
from gpusched_env.core.events import attained_service
from gpusched_env.simulator.jit import helper, int64
from gpusched_env.core.state import ACTIVE

Array = np.ndarray[Any, Any]


@helper
def change_of_queue_s(world: Array, jobs: Array, replicas: Array, thresholds: Array, b: int, number: int) -> float:
    """When the job of a gang changes its queue, if the gang goes on; inf = never [s]."""
    replica = replicas[b, number]
    if replica["phase"] != ACTIVE:
        return np.inf
    row = int64(replica["job"])
    attained = attained_service(world, jobs, replicas, b, row)
    queue = queue_of(thresholds, attained)
    if queue == len(thresholds):
        return np.inf
    begin = max(replica["since_s"], world[b]["clock_s"])
    return begin + (thresholds[queue] - attained) / jobs[b, row]["gpus"]


@helper
def expect_change(list_: Array, changes_s: Array, heap: Array, places: Array, number: int, time_s: float) -> None:
    """Put a gang into the heap, or move it there; an infinite time takes it out."""
    at = int64(places[number])
    if at < 0:
        if time_s == np.inf:
            return
        at = int64(list_[0]["changing"])
        list_[0]["changing"] += 1
    elif time_s == np.inf:  # the last one takes its place
        places[number] = -1
        list_[0]["changing"] -= 1
        if at == list_[0]["changing"]:
            return
        number = int64(heap[list_[0]["changing"]])
        time_s = changes_s[number]
    changes_s[number] = time_s
    while at > 0 and changes_s[heap[(at - 1) // 2]] > time_s:
        heap[at] = heap[(at - 1) // 2]
        places[heap[at]] = at
        at = (at - 1) // 2
    while 2 * at + 1 < list_[0]["changing"]:
        child = 2 * at + 1
        if child + 1 < list_[0]["changing"] and changes_s[heap[child + 1]] < changes_s[heap[child]]:
            child += 1
        if changes_s[heap[child]] >= time_s:
            break
        heap[at] = heap[child]
        places[heap[at]] = at
        at = child
    heap[at] = number
    places[number] = at


@helper
def follow_changes_of_queue(
    world: Array, jobs: Array, replicas: Array, list_: Array, thresholds: Array, line_of: Array, runners: Array,
    runner_rows: Array, levels: Array, walk: Array, ranks: Array, member: Array, changes_s: Array, heap: Array,
    places: Array, near: Array, b: int,
) -> float:
    """Take jobs whose queue has changed out of their lists; return when the next running job changes its own [s]."""
    first_s = np.inf
    slack_s = NEAR_S + NEAR * world[b]["clock_s"]
    count = 0
    while list_[0]["changing"] > 0:
        number = int64(heap[0])
        if changes_s[number] > first_s + slack_s:
            break
        expect_change(list_, changes_s, heap, places, number, np.inf)
        changes_s[number] = change_of_queue_s(world, jobs, replicas, thresholds, b, number)
        first_s = min(first_s, changes_s[number])
        near[count] = number
        count += 1
    for i in range(count):
        number = int64(near[i])
        expect_change(list_, changes_s, heap, places, number, changes_s[number])
        row = int64(replicas[b, number]["job"])
        if replicas[b, number]["phase"] != ACTIVE or member[row] != IN_LIST:
            continue
        if levels[row] != queue_key(world, jobs, replicas, list_, thresholds, b, row):
            line = int64(line_of[jobs[b, row]["gpus"]])
            leave_runners(list_, runners, runner_rows, levels, ranks, walk, member, line, row, True)
    return first_s
