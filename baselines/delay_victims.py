"""Whom a waiting job may have checkpointed: the fewest gangs that suffer less from the network than it does."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpusched_env.baselines.delay_keeping import keep, may_stop
from gpusched_env.baselines.delay_placing import ANYWHERE, IN_RACK, ON_MACHINE, ON_SLOT, REFUSED
from gpusched_env.portable.keys import rounded_key
from gpusched_env.core.events import work_left
from gpusched_env.simulator.jit import helper, int64
from gpusched_env.core.placement.taking import FREE, NO_LIMIT

Array = np.ndarray[Any, Any]


@helper
def nw_of(world: Array, jobs: Array, replicas: Array, tasks: Array, b: int, row: int) -> float:
    """Nw as of the clock: work done in seconds without communication / productive seconds."""
    done = jobs[b, row]["iterations"] - work_left(world, jobs, replicas, b, row)
    seconds = jobs[b, row]["service_s"]
    if jobs[b, row]["replica"] >= 0:
        seconds += max(world[b]["clock_s"] - replicas[b, jobs[b, row]["replica"]]["since_s"], 0.0)
    return rounded_key(done * tasks[b, row]["compute_s"] / seconds) if seconds > 0.0 else 0.0


@helper
def rate_victims(world: Array, jobs: Array, replicas: Array, rules: Array, tasks: Array, held: Array, b: int) -> float:
    """Set the Nw of all gangs that may be checkpointed, -1 of the others; return the largest."""
    r = rules[b]
    largest = -1.0
    for i in range(r["held"]):
        row = int64(held[b, i])
        task = tasks[b, row]
        task["victim_nw"] = -1.0
        if (
            world[b]["clock_s"] - task["last_s"] >= r["victim_held_s"]
            and task["evicted"] < r["victim_limit"]
            and may_stop(world, jobs, replicas, tasks, b, row)
        ):
            task["victim_nw"] = nw_of(world, jobs, replicas, tasks, b, row)
            largest = max(largest, task["victim_nw"])
    return largest


@helper
def range_of(
    world: Array, nodes: Array, racks: Array, slot_gpu: Array, slot_order: Array, node_order: Array, b: int, tier: int,
    i: int,
) -> tuple[int, int]:
    """Find the GPUs of the ``i``-th place of a tier in visiting order, as ``begin, end``."""
    if tier == ON_SLOT:
        slot = slot_order[b, i]
        return int64(slot_gpu[b, slot]), int64(slot_gpu[b, slot + 1])
    if tier == ANYWHERE:
        return int64(0), int64(world[b]["gpus"])
    first = int64(node_order[b, i]) if tier == ON_MACHINE else int64(racks[b, i]["first_node"])
    last = first if tier == ON_MACHINE else first + racks[b, i]["nodes"] - 1
    return int64(nodes[b, first]["first_gpu"]), int64(nodes[b, last]["first_gpu"] + nodes[b, last]["gpus"])


@helper
def count_victims(
    replicas: Array, holder: Array, tasks: Array, leaker: Array, b: int, row: int, least_nw: float, begin: int,
    end: int, most: int, mark: bool,
) -> int:
    """Count the fewest gangs to stop so that a job finds room in ``begin:end``; NO_LIMIT if that takes over ``most``.

    Those that hold most of the place go first, which makes them fewest; of equal ones those with the lowest GPUs.

    Parameters
    ----------
    mark : let them stop, and keep the place for the job: GPUs on offer first, the lowest of each gang then
    """
    left = int64(tasks[b, row]["gpus"])
    for gpu in range(begin, end):
        if holder[b, gpu] >= 0:
            tasks[b, replicas[b, holder[b, gpu]]["job"]]["inside"] = 0
    for gpu in range(begin, end):
        if leaker[b, gpu] >= 0:
            continue
        if holder[b, gpu] >= 0:
            tasks[b, replicas[b, holder[b, gpu]]["job"]]["inside"] += 1
        elif holder[b, gpu] == FREE and left > 0:
            left -= 1
            if mark:
                keep(tasks, leaker, b, row, gpu)
    count = 0
    while left > 0:
        victim = -1
        for gpu in range(begin, end):
            if holder[b, gpu] >= 0:
                of = int64(replicas[b, holder[b, gpu]]["job"])
                if tasks[b, of]["victim_nw"] >= least_nw and tasks[b, of]["inside"] > (
                    0 if victim < 0 else tasks[b, victim]["inside"]
                ):
                    victim = of
        if victim < 0 or count == most:
            return int64(NO_LIMIT)
        count += 1
        left -= tasks[b, victim]["inside"]
        tasks[b, victim]["inside"] = 0
        if mark:
            tasks[b, victim]["stops"] = 1
            tasks[b, victim]["evicted"] += 1
    if mark:
        for gpu in range(begin, end):
            if (
                holder[b, gpu] >= 0
                and leaker[b, gpu] < 0
                and tasks[b, replicas[b, holder[b, gpu]]["job"]]["stops"]
                and tasks[b, row]["leaked"] < tasks[b, row]["gpus"]
            ):
                keep(tasks, leaker, b, row, gpu)
    return int64(count)


@helper
def evict_for(
    world: Array, replicas: Array, nodes: Array, racks: Array, holder: Array, rules: Array, tasks: Array,
    leaker: Array, slot_gpu: Array, slot_order: Array, node_order: Array, b: int, row: int, rack_too: bool,
    network_too: bool,
) -> int:
    """Let the fewest gangs stop for a job, and keep their place for it; give its tier, REFUSED where none will do.

    Of equally few gangs those of the tightest tier, then of the first place.
    """
    r = rules[b]
    gang = int64(tasks[b, row]["gpus"])
    least_nw = tasks[b, row]["nw"] + r["victim_margin"]
    slots = slot_order.shape[1]
    machines = node_order.shape[1]
    fewest = int64(NO_LIMIT)
    best_tier = int64(REFUSED)
    best_place = 0
    for tier in range(ON_SLOT, ANYWHERE + 1):
        if (tier == IN_RACK and not rack_too) or (tier == ANYWHERE and not network_too):
            continue
        places = 1
        if tier == ON_SLOT:
            places = slots
        elif tier == ON_MACHINE:
            places = machines
        elif tier == IN_RACK:
            places = world[b]["racks"]
        for i in range(places):
            begin, end = range_of(world, nodes, racks, slot_gpu, slot_order, node_order, b, tier, i)
            if end - begin < gang:
                continue
            count = count_victims(
                replicas, holder, tasks, leaker, b, row, least_nw, begin, end, fewest - 1, False
            )
            if count < fewest:
                fewest = count
                best_tier = int64(tier)
                best_place = i
    if best_tier != REFUSED:
        begin, end = range_of(world, nodes, racks, slot_gpu, slot_order, node_order, b, best_tier, best_place)
        count_victims(replicas, holder, tasks, leaker, b, row, least_nw, begin, end, fewest, True)
    return best_tier
