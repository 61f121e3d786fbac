"""Which jobs the queue, running and partner slots show.

All gangs are ranked only when time has passed. Most decisions are starts and preemptions, which take none, so the first
gangs are kept, twice as many as are shown: a start adds one, a preemption takes one away. With each stands whether it
may be preempted now, so that nobody looks at it again: 2 x job row + 1 if so.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from gpusched_env.envs.encoder import WINDOW_ORDERS
from gpusched_env.envs.sharing_actions import open_gpus
from gpusched_env.envs.showing import attained_by
from gpusched_env.core.events import attained_service, seconds_left
from gpusched_env.simulator.jit import helper, int64
from gpusched_env.core.state import CHECKPOINTING

Array = np.ndarray[Any, Any]

ARRIVAL_ORDER, START_ORDER, SHORTEST, LONGEST, LEAST_ATTAINED, MOST_ATTAINED = range(len(WINDOW_ORDERS))
# What was ranked last: the first gangs of an environment, and how it stood then.
RANKED_DTYPE: Final = np.dtype(
    [
        ("clock_s", "<f8"),
        ("starts", "<i8"),  # as WORLD.starts
        ("returns", "<i8"),
        ("running", "<i8"),
        ("gangs", "<i8"),  # that are kept; -1 = none has been ranked
        ("queue_slots", "<i8"),  # that are filled
        ("running_slots", "<i8"),
    ]
)
KEPT: Final = 2  # times as many as are shown
ANY_JOB: Final = -1


@helper
def waiting_key(world: Array, jobs: Array, replicas: Array, b: int, row: int, order: int) -> float:
    """Sort key of a waiting job; smaller comes first."""
    if order in (SHORTEST, LONGEST):
        seconds = seconds_left(world, jobs, replicas, b, row)
        return seconds if order == SHORTEST else -seconds
    if order == LEAST_ATTAINED:
        return attained_service(world, jobs, replicas, b, row)
    if order == MOST_ATTAINED:
        return -attained_service(world, jobs, replicas, b, row)
    return 0.0


@helper
def running_key(world: Array, jobs: Array, replicas: Array, b: int, number: int, order: int) -> float:
    """Sort key of a running gang; smaller comes first."""
    if order == MOST_ATTAINED:
        return -attained_by(world, replicas, b, number)
    if order == LEAST_ATTAINED:
        return attained_by(world, replicas, b, number)
    if order == START_ORDER:
        return 0.0
    row = replicas[b, number]["job"]
    if order == ARRIVAL_ORDER:
        return float(row)
    seconds = seconds_left(world, jobs, replicas, b, row)
    return seconds if order == SHORTEST else -seconds


@helper
def insert(slots: Array, keys: Array, filled: int, row: int, key: float) -> int:
    """Keep the smallest keys in ascending order, of equal ones the first come; return how many are filled.

    There is at least one slot.
    """
    at = filled
    if filled == len(slots):
        if key >= keys[filled - 1]:
            return filled
        at = filled - 1
    while at > 0 and keys[at - 1] > key:
        slots[at] = slots[at - 1]
        keys[at] = keys[at - 1]
        at -= 1
    slots[at] = row
    keys[at] = key
    return min(filled + 1, len(slots))


@helper
def empty_slots_from(slots: Array, filled: int, before: int) -> None:
    """Let the slots from ``filled`` on be empty; of those from ``before`` on they are."""
    for i in range(filled, before):
        slots[i] = -1


@helper
def entry_of(world: Array, replicas: Array, b: int, number: int) -> int:
    """Entry of a running gang among the first; of a running job ``preempt_refusal`` looks only at these."""
    r = replicas[b, number]
    can_go = r["phase"] != CHECKPOINTING and r["start_s"] != world[b]["clock_s"]
    return int64(r["job"]) * 2 + int64(can_go)


@helper
def fill_queue(
    world: Array, jobs: Array, replicas: Array, waiting: Array, order: int, b: int, ranked: Array, queue: Array,
    keys: Array,
) -> None:
    """Choose the waiting jobs that the queue slots show; -1 = empty slot."""
    filled = 0
    first = int64(world[b]["first_waiting"])
    if order == ARRIVAL_ORDER:
        filled = min(len(queue), world[b]["waiting"])
        for i in range(filled):
            queue[i] = waiting[b, first + i]
    else:
        for i in range(world[b]["waiting"]):
            row = waiting[b, first + i]
            key = waiting_key(world, jobs, replicas, b, row, order)
            filled = insert(queue, keys, filled, row, key)
    empty_slots_from(queue, filled, int64(ranked[b]["queue_slots"]))
    ranked[b]["queue_slots"] = filled


@helper
def follow(
    world: Array, jobs: Array, replicas: Array, running: Array, order: int, b: int, changed: int, ranked: Array,
    first: Array, keys: Array,
) -> bool:
    """Bring the first gangs up to date after job ``changed`` started or was preempted; return whether that will do.

    No key changes meanwhile: what a gang has attained, or has left, changes with time alone.
    """
    w = world[b]
    kept = ranked[b]
    gangs = int64(kept["gangs"])
    if changed == ANY_JOB or gangs < 0 or kept["clock_s"] != w["clock_s"]:
        return False
    came, left = w["starts"] - kept["starts"], w["returns"] - kept["returns"]
    if came + left > 1 or w["running"] != kept["running"] + came - left:
        return False
    if came == 1:
        number = int64(running[b, w["running"] - 1])
        key = running_key(world, jobs, replicas, b, number, order)
        if gangs == kept["running"] or key < keys[gangs - 1]:  # who else may come next is known only if all are kept
            gangs = insert(first, keys, gangs, entry_of(world, replicas, b, number), key)
    else:
        at = int64(0)
        while at < gangs and first[at] >> 1 != changed:
            at += 1
        if at == gangs:
            return False
        if left == 1:
            gangs -= 1
            for i in range(at, gangs):
                first[i] = first[i + 1]
                keys[i] = keys[i + 1]
        else:  # its checkpoint is being written
            first[at] = changed * 2
    kept["gangs"] = gangs
    return gangs >= min(len(first) // KEPT, w["running"])


@helper
def fill_running(
    world: Array, jobs: Array, replicas: Array, running: Array, order: int, b: int, changed: int, ranked: Array,
    first: Array, keys: Array, victims: Array,
) -> None:
    """Choose the running gangs that the running slots show; -1 = empty slot.

    ``changed`` is the job that a decision has started or preempted since the last call, ANY_JOB if more may differ.
    """
    if len(victims) == 0:
        return
    w, kept = world[b], ranked[b]
    if not follow(world, jobs, replicas, running, order, b, changed, ranked, first, keys):
        gangs = 0
        for i in range(w["running"]):
            if order == START_ORDER and gangs == len(first):
                break
            number = int64(running[b, i])
            key = running_key(world, jobs, replicas, b, number, order)
            gangs = insert(first, keys, gangs, entry_of(world, replicas, b, number), key)
        kept["gangs"] = gangs
    kept["clock_s"] = w["clock_s"]
    kept["starts"] = w["starts"]
    kept["returns"] = w["returns"]
    kept["running"] = w["running"]
    filled = min(kept["gangs"], len(victims))
    for i in range(filled):
        victims[i] = first[i] >> 1
    empty_slots_from(victims, filled, int64(kept["running_slots"]))
    kept["running_slots"] = filled


@helper
def fill_partners(
    world: Array, jobs: Array, replicas: Array, holder: Array, gpu_next: Array, running: Array, order: int, b: int,
    partners: Array, keys: Array,
) -> None:
    """Choose the running gangs that the partner slots show; -1 = empty slot."""
    filled = 0
    for i in range(world[b]["running"]):
        if len(partners) == 0 or (order == START_ORDER and filled == len(partners)):
            break
        number = int64(running[b, i])
        if open_gpus(world, replicas, holder, gpu_next, b, number) > 0:
            key = running_key(world, jobs, replicas, b, number, order)
            filled = insert(partners, keys, filled, replicas[b, number]["job"], key)
    empty_slots_from(partners, filled, int64(len(partners)))
