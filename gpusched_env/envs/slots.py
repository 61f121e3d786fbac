"""Choose the jobs of the queue, running and partner slots.

All running gangs are ranked only after time has passed. Most decisions are starts and preemptions, which take no
simulated time. Between them the best-ranked gangs are kept, twice as many as are shown: a start inserts a gang into
this list, a preemption removes one. An entry of the list is 2 x job row, plus 1 if the gang may be preempted now.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from gpusched_env.core.events import attained_service, seconds_left
from gpusched_env.core.handle import helper, kernel
from gpusched_env.core.state import CHECKPOINTING, Run
from gpusched_env.envs.env_arrays import EnvArrays
from gpusched_env.envs.observation.jobs import attained_by
from gpusched_env.envs.sharing_actions import open_gpus
from gpusched_env.envs.windows import WINDOW_ORDERS

Array = np.ndarray

ARRIVAL_ORDER, START_ORDER, SHORTEST, LONGEST, LEAST_ATTAINED, MOST_ATTAINED = range(len(WINDOW_ORDERS))
KEPT: Final = 2  # gangs kept / gangs shown
ANY_JOB: Final = -1


@helper
def waiting_key(sim: Run, row: int, order: int) -> float:
    """Sort key of a waiting job; smaller comes first."""
    if order in (SHORTEST, LONGEST):
        seconds = seconds_left(sim, row)
        return seconds if order == SHORTEST else -seconds
    if order == LEAST_ATTAINED:
        return attained_service(sim, row)
    if order == MOST_ATTAINED:
        return -attained_service(sim, row)
    return 0.0


@kernel
def running_key(sim: Run, number: int, order: int) -> float:
    """Sort key of a running gang; smaller comes first."""
    if order == MOST_ATTAINED:
        return -attained_by(sim, number)
    if order == LEAST_ATTAINED:
        return attained_by(sim, number)
    if order == START_ORDER:
        return 0.0
    row = sim.replicas[number]["job"]
    if order == ARRIVAL_ORDER:
        return float(row)
    seconds = seconds_left(sim, row)
    return seconds if order == SHORTEST else -seconds


@helper
def insert(slots: Array, keys: Array, filled: int, row: int, key: float) -> int:
    """Insert a row into slots with the smallest keys, ascending; return the number of filled slots.

    Ties: the row inserted first. There must be at least one slot.
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
    """Empty the slots from ``filled`` on; those from ``before`` on are empty already."""
    for i in range(filled, before):
        slots[i] = -1


@helper
def entry_of(sim: Run, env: EnvArrays, number: int) -> int:
    """Return the list entry of a running gang; the first two conditions are those of ``preempt_refusal``."""
    r = sim.replicas[number]
    clock_s = sim.world["clock_s"]
    # The sum is the time of a timer set at the start, so a delay of least_run_s suffices to the last bit.
    old = (r["start_s"] + env.episode["least_run_s"] <= clock_s) | (r["lease_over"] > 0)
    # "&" and "|" need no branches, which the processor would often predict wrongly
    can_go = (r["phase"] != CHECKPOINTING) & (r["start_s"] != clock_s) & old
    return r["job"] * 2 + can_go


@kernel
def fill_queue(sim: Run, env: EnvArrays, order: int) -> None:
    """Write the rows of waiting jobs into the queue slots; -1 = empty slot."""
    filled = 0
    first = sim.world["first_waiting"]
    if order == ARRIVAL_ORDER:
        filled = min(len(env.queue), sim.world["waiting"])
        for i in range(filled):
            env.queue[i] = sim.waiting[first + i]
    else:
        for i in range(sim.world["waiting"]):
            row = sim.waiting[first + i]
            key = waiting_key(sim, row, order)
            filled = insert(env.queue, env.keys, filled, row, key)
    empty_slots_from(env.queue, filled, env.ranked["queue_slots"])
    env.ranked["queue_slots"] = filled


@kernel
def update_first_gangs(sim: Run, env: EnvArrays, order: int, changed: int) -> bool:
    """Update the kept gangs after job ``changed`` started or was preempted; False = rank all gangs again.

    Keys do not change meanwhile: attained service and remaining time change only with simulated time.
    """
    w = sim.world
    kept = env.ranked
    gangs = kept["gangs"]
    if changed == ANY_JOB or gangs < 0 or kept["clock_s"] != w["clock_s"]:
        return False
    came, left = w["starts"] - kept["starts"], w["returns"] - kept["returns"]
    if came + left > 1 or w["running"] != kept["running"] + came - left:
        return False
    if came == 1:
        number = sim.running[w["running"] - 1]
        key = running_key(sim, number, order)
        if (
            gangs == kept["running"] or key < env.first_keys[gangs - 1]
        ):  # beyond the last kept gang, the order is known only if all gangs are kept
            gangs = insert(env.first_gangs, env.first_keys, gangs, entry_of(sim, env, number), key)
    else:
        at = 0
        while at < gangs and env.first_gangs[at] >> 1 != changed:
            at += 1
        if at == gangs:
            return False
        if left == 1:
            gangs -= 1
            for i in range(at, gangs):
                env.first_gangs[i] = env.first_gangs[i + 1]
                env.first_keys[i] = env.first_keys[i + 1]
        else:  # the gang is being checkpointed and cannot be preempted
            env.first_gangs[at] = changed * 2
    kept["gangs"] = gangs
    return gangs >= min(len(env.first_gangs) // KEPT, w["running"])


@kernel
def fill_running(sim: Run, env: EnvArrays, order: int, changed: int) -> None:
    """Write the rows of running gangs into the running slots; -1 = empty slot.

    ``changed`` is the job that a decision has started or preempted since the last call; ANY_JOB = more may differ.
    """
    if len(env.victims) == 0:
        return
    w, kept = sim.world, env.ranked
    if not update_first_gangs(sim, env, order, changed):
        gangs = 0
        for i in range(w["running"]):
            if order == START_ORDER and gangs == len(env.first_gangs):
                break
            number = sim.running[i]
            key = running_key(sim, number, order)
            gangs = insert(env.first_gangs, env.first_keys, gangs, entry_of(sim, env, number), key)
        kept["gangs"] = gangs
    kept["clock_s"] = w["clock_s"]
    kept["starts"] = w["starts"]
    kept["returns"] = w["returns"]
    kept["running"] = w["running"]
    filled = min(kept["gangs"], len(env.victims))
    for i in range(filled):
        env.victims[i] = env.first_gangs[i] >> 1
    empty_slots_from(env.victims, filled, kept["running_slots"])
    kept["running_slots"] = filled


@kernel
def fill_partners(sim: Run, env: EnvArrays, order: int) -> None:
    """Write the rows of running gangs that a job may join into the partner slots; -1 = empty slot."""
    filled = 0
    for i in range(sim.world["running"]):
        if len(env.partners) == 0 or (order == START_ORDER and filled == len(env.partners)):
            break
        number = sim.running[i]
        if open_gpus(sim, number) > 0:
            key = running_key(sim, number, order)
            filled = insert(env.partners, env.keys, filled, sim.replicas[number]["job"], key)
    empty_slots_from(env.partners, filled, len(env.partners))
