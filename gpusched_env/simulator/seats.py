"""Seats: a GPU that ``gpu_jobs`` gangs may share has so many; seat ``gpu + layer x GPUs``.

The lower layers of a GPU are always taken first, and a gang moves down when one below it leaves. So layer 0 tells which
GPUs are free, and all that places gangs on free GPUs looks at nothing else.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from gpusched_env.simulator.jit import helper, int64
from gpusched_env.simulator.taking import FREE, RESERVED

Array = np.ndarray[Any, Any]

MEMORY_SLACK: Final = 1e-9  # of a GPU: parts that should add up to all of it do so but for rounding


@helper
def has_seat(world: Array, holder: Array, b: int, gpu: int) -> bool:
    """Tell whether one more gang may take a GPU: lower seats are taken first, so the highest tells."""
    return holder[b, gpu + (world[b]["gpu_jobs"] - 1) * world[b]["gpus"]] == FREE


@helper
def may_share(
    world: Array, jobs: Array, replicas: Array, nodes: Array, holder: Array, gpu_node: Array, interference: Array,
    b: int, gpu: int, kind: int,
) -> bool:
    """Tell whether a job class may run beside all gangs on a GPU, as far as their models go."""
    gpu_type = nodes[b, gpu_node[b, gpu]]["gpu_type"]
    for layer in range(world[b]["gpu_jobs"]):
        number = holder[b, gpu + layer * world[b]["gpus"]]
        if number >= 0:
            other = jobs[b, replicas[b, number]["job"]]["job_class"]
            if np.isinf(interference[b, kind, other, gpu_type]) or np.isinf(interference[b, other, kind, gpu_type]):
                return False
    return True


@helper
def memory_left(
    world: Array, jobs: Array, replicas: Array, nodes: Array, holder: Array, gpu_node: Array, sub_batches: Array,
    b: int, gpu: int,
) -> float:
    """Part of a GPU's memory that the gangs on it leave."""
    gpu_type = nodes[b, gpu_node[b, gpu]]["gpu_type"]
    left = 1.0
    for layer in range(world[b]["gpu_jobs"]):
        number = holder[b, gpu + layer * world[b]["gpus"]]
        if number >= 0:
            r = replicas[b, number]
            left -= sub_batches[b, jobs[b, r["job"]]["job_class"], r["sub_batch"], gpu_type]["memory"]
    return left


@helper
def largest_sub_batch(
    world: Array, jobs: Array, replicas: Array, nodes: Array, holder: Array, gpu_node: Array, chosen: Array,
    sub_batches: Array, b: int, kind: int, taken: int, sub_steps: int,
) -> int:
    """Largest sub-batch of ``sub_steps`` sub-steps (0 = any) that fits on all chosen GPUs; -1 = none."""
    for option in range(sub_batches.shape[2]):
        steps = sub_batches[b, kind, option, 0]["sub_steps"]
        if steps == 0 or (sub_steps > 0 and steps != sub_steps):
            continue
        fits = True
        for i in range(taken):
            gpu = int64(chosen[b, i])
            left = memory_left(world, jobs, replicas, nodes, holder, gpu_node, sub_batches, b, gpu)
            gpu_type = nodes[b, gpu_node[b, gpu]]["gpu_type"]
            fits = fits and sub_batches[b, kind, option, gpu_type]["memory"] <= left + MEMORY_SLACK
        if fits:
            return int64(option)
    return int64(-1)


@helper
def has_option(sub_batches: Array, b: int, kind: int, sub_steps: int) -> bool:
    """Tell whether a job class can work its batch off in so many sub-steps; 0 = as many as its memory asks for."""
    for option in range(sub_batches.shape[2]):
        if sub_batches[b, kind, option, 0]["sub_steps"] == sub_steps and sub_steps > 0:
            return True
    return sub_steps == 0


@helper
def take_seat(
    world: Array, nodes: Array, free: Array, holder: Array, gpu_node: Array, b: int, gpu: int, share: bool
) -> bool:
    """Reserve the lowest seat of a GPU, if ``share`` one beside others; False = no such GPU, no seat, or twice."""
    if gpu < 0 or gpu >= world[b]["gpus"]:
        return False
    if holder[b, gpu] == FREE:
        node = gpu_node[b, gpu]
        holder[b, gpu] = RESERVED
        free[b, node] -= 1
        free[b, nodes.shape[1] + nodes[b, node]["rack"]] -= 1
        return True
    if share:
        for layer in range(world[b]["gpu_jobs"]):
            seat = gpu + layer * world[b]["gpus"]
            if holder[b, seat] == RESERVED:
                return False
            if holder[b, seat] == FREE:
                holder[b, seat] = RESERVED
                return True
    return False


@helper
def leave_seats(
    world: Array, nodes: Array, free: Array, holder: Array, gpu_node: Array, chosen: Array, b: int, begin: int, end: int
) -> None:
    """Give back the reserved seats on the GPUs ``chosen[begin:end]``."""
    for i in range(begin, end):
        gpu = chosen[b, i]
        if holder[b, gpu] == RESERVED:
            node = gpu_node[b, gpu]
            free[b, node] += 1
            free[b, nodes.shape[1] + nodes[b, node]["rack"]] += 1
        for layer in range(world[b]["gpu_jobs"]):
            if holder[b, gpu + layer * world[b]["gpus"]] == RESERVED:
                holder[b, gpu + layer * world[b]["gpus"]] = FREE


@helper
def reserved_seat(world: Array, holder: Array, b: int, gpu: int) -> int:
    """Find the reserved seat of a GPU."""
    seat = int64(gpu)
    while holder[b, seat] != RESERVED:
        seat += world[b]["gpus"]
    return seat


@helper
def move_down(world: Array, replicas: Array, holder: Array, gpu_next: Array, b: int, seat: int) -> None:
    """Let the gangs above a seat that has become free move down by one."""
    w = world[b]
    above = seat + w["gpus"]
    while above < w["gpu_jobs"] * w["gpus"] and holder[b, above] >= 0:
        number = holder[b, above]
        holder[b, seat] = number
        gpu_next[b, seat] = gpu_next[b, above]
        if replicas[b, number]["first_gpu"] == above:
            replicas[b, number]["first_gpu"] = seat
        else:
            before = replicas[b, number]["first_gpu"]
            while gpu_next[b, before] != above:
                before = gpu_next[b, before]
            gpu_next[b, before] = seat
        holder[b, above] = FREE
        seat = above
        above = seat + w["gpus"]


@helper
def tell_neighbours(world: Array, replicas: Array, holder: Array, b: int, gpu: int) -> None:
    """Note that the company of all gangs on a GPU has changed."""
    for layer in range(world[b]["gpu_jobs"]):
        number = holder[b, gpu + layer * world[b]["gpus"]]
        if number >= 0:
            replicas[b, number]["company_changed"] = 1
    world[b]["uncommitted"] = 1


@helper
def slowdown_by_company(
    world: Array, jobs: Array, replicas: Array, nodes: Array, holder: Array, gpu_next: Array, gpu_node: Array,
    interference: Array, b: int, number: int,
) -> float:
    """How many times longer a gang's iteration takes beside its company: its slowest GPU holds it (sjf_bsbf.md 2)."""
    w = world[b]
    kind = jobs[b, replicas[b, number]["job"]]["job_class"]
    worst = 1.0
    seat = replicas[b, number]["first_gpu"]
    while seat >= 0:
        gpu = seat % w["gpus"]
        gpu_type = nodes[b, gpu_node[b, gpu]]["gpu_type"]
        for layer in range(w["gpu_jobs"]):
            other = holder[b, gpu + layer * w["gpus"]]
            if other >= 0 and other != number:
                beside = jobs[b, replicas[b, other]["job"]]["job_class"]
                worst = max(worst, interference[b, kind, beside, gpu_type])
        seat = gpu_next[b, seat]
    return worst
