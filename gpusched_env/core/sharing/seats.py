"""Seats: the places of gangs on GPUs.

Each GPU has ``gpu_jobs`` seats, one per layer, and each seat holds one gang. The seat of a GPU in a layer has the
number ``gpu + layer x GPUs``. A gang takes the lowest free layer of a GPU, and moves down when a gang below it leaves.
So a GPU is free if and only if its seat in layer 0 is free. Code that places gangs on free GPUs reads layer 0 only.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from gpusched_env.core.handle import helper, kernel
from gpusched_env.core.placement.taking import FREE, RESERVED, rack_place
from gpusched_env.core.state import Run

MEMORY_SLACK: Final = 1e-9  # tolerance for rounding errors of sums, as a fraction of a GPU's memory


@helper
def has_seat(sim: Run, gpu: int) -> bool:
    """Return whether one more gang may take a GPU: the highest seat is the last to be taken."""
    return sim.holder[gpu + (sim.world["gpu_jobs"] - 1) * sim.world["gpus"]] == FREE


@kernel(lazy=True)
def may_share(sim: Run, gpu: int, kind: int) -> bool:
    """Return whether the model of a job class may share a GPU with the models of all gangs there."""
    gpu_type = sim.nodes[sim.gpu_node[gpu]]["gpu_type"]
    for layer in range(sim.world["gpu_jobs"]):
        number = sim.holder[gpu + layer * sim.world["gpus"]]
        if number >= 0:
            other = sim.jobs[sim.replicas[number]["job"]]["job_class"]
            if np.isinf(sim.interference[kind, other, gpu_type]) or np.isinf(sim.interference[other, kind, gpu_type]):
                return False
    return True


@kernel
def memory_left(sim: Run, gpu: int) -> float:
    """Free part of a GPU's memory."""
    gpu_type = sim.nodes[sim.gpu_node[gpu]]["gpu_type"]
    left = 1.0
    for layer in range(sim.world["gpu_jobs"]):
        number = sim.holder[gpu + layer * sim.world["gpus"]]
        if number >= 0:
            r = sim.replicas[number]
            left -= sim.sub_batches[sim.jobs[r["job"]]["job_class"], r["sub_batch"], gpu_type]["memory"]
    return left


@kernel(lazy=True)
def largest_sub_batch(sim: Run, kind: int, taken: int, sub_steps: int) -> int:
    """Return the index of the largest sub-batch that fits on all chosen GPUs; -1 = none.

    Only sub-batches with ``sub_steps`` sub-steps are considered; 0 = any number of sub-steps.
    """
    for option in range(sim.sub_batches.shape[1]):
        steps = sim.sub_batches[kind, option, 0]["sub_steps"]
        if steps == 0 or (sub_steps > 0 and steps != sub_steps):
            continue
        fits = True
        for i in range(taken):
            gpu = sim.chosen[i]
            left = memory_left(sim, gpu)
            gpu_type = sim.nodes[sim.gpu_node[gpu]]["gpu_type"]
            fits = fits and sim.sub_batches[kind, option, gpu_type]["memory"] <= left + MEMORY_SLACK
        if fits:
            return option
    return -1


@helper
def has_option(sim: Run, kind: int, sub_steps: int) -> bool:
    """Return whether a job class can split its batch into ``sub_steps`` sub-steps; 0 means any, and is always true."""
    for option in range(sim.sub_batches.shape[1]):
        if sim.sub_batches[kind, option, 0]["sub_steps"] == sub_steps and sub_steps > 0:
            return True
    return sub_steps == 0


@kernel(lazy=True)
def take_seat(sim: Run, gpu: int, share: bool) -> bool:
    """Reserve the lowest free seat of a GPU; return whether this was possible.

    It is impossible if the GPU does not exist, if it has no free seat or already has a reserved seat, or if another
    gang holds the GPU and ``share`` is False.
    """
    if gpu < 0 or gpu >= sim.world["gpus"]:
        return False
    if sim.holder[gpu] == FREE:
        node = sim.gpu_node[gpu]
        sim.holder[gpu] = RESERVED
        sim.free[node] -= 1
        sim.free[rack_place(sim, node)] -= 1
        return True
    if share:
        for layer in range(sim.world["gpu_jobs"]):
            seat = gpu + layer * sim.world["gpus"]
            if sim.holder[seat] == RESERVED:
                return False
            if sim.holder[seat] == FREE:
                sim.holder[seat] = RESERVED
                return True
    return False


@kernel(lazy=True)
def leave_seats(sim: Run, begin: int, end: int) -> None:
    """Give back the reserved seats on the GPUs ``chosen[begin:end]``."""
    for i in range(begin, end):
        gpu = sim.chosen[i]
        if sim.holder[gpu] == RESERVED:
            node = sim.gpu_node[gpu]
            sim.free[node] += 1
            sim.free[rack_place(sim, node)] += 1
        for layer in range(sim.world["gpu_jobs"]):
            if sim.holder[gpu + layer * sim.world["gpus"]] == RESERVED:
                sim.holder[gpu + layer * sim.world["gpus"]] = FREE


@kernel
def reserved_seat(sim: Run, gpu: int) -> int:
    """Find the reserved seat of a GPU."""
    seat = gpu
    while sim.holder[seat] != RESERVED:
        seat += sim.world["gpus"]
    return seat


@kernel(lazy=True)
def move_down(sim: Run, seat: int) -> None:
    """Move all gangs above a seat that has become free down by one layer."""
    w = sim.world
    above = seat + w["gpus"]
    while above < w["gpu_jobs"] * w["gpus"] and sim.holder[above] >= 0:
        number = sim.holder[above]
        sim.holder[seat] = number
        sim.gpu_next[seat] = sim.gpu_next[above]
        if sim.replicas[number]["first_gpu"] == above:
            sim.replicas[number]["first_gpu"] = seat
        else:
            before = sim.replicas[number]["first_gpu"]
            while sim.gpu_next[before] != above:
                before = sim.gpu_next[before]
            sim.gpu_next[before] = seat
        sim.holder[above] = FREE
        seat = above
        above = seat + w["gpus"]


@kernel(lazy=True)
def tell_neighbours(sim: Run, gpu: int) -> None:
    """Mark all gangs on a GPU: their co-located gangs have changed."""
    for layer in range(sim.world["gpu_jobs"]):
        number = sim.holder[gpu + layer * sim.world["gpus"]]
        if number >= 0:
            sim.replicas[number]["company_changed"] = 1
    sim.world["uncommitted"] = 1


@kernel(lazy=True)
def slowdown_by_company(sim: Run, number: int) -> float:
    """Return the slowdown of a gang by the other gangs on its GPUs; 1 = no slowdown (docs/sjf_bsbf.md).

    It is the largest of the slowdowns on the GPUs of the gang.
    """
    w = sim.world
    kind = sim.jobs[sim.replicas[number]["job"]]["job_class"]
    worst = 1.0
    seat = sim.replicas[number]["first_gpu"]
    while seat >= 0:
        gpu = seat % w["gpus"]
        gpu_type = sim.nodes[sim.gpu_node[gpu]]["gpu_type"]
        for layer in range(w["gpu_jobs"]):
            other = sim.holder[gpu + layer * w["gpus"]]
            if other >= 0 and other != number:
                beside = sim.jobs[sim.replicas[other]["job"]]["job_class"]
                worst = max(worst, sim.interference[kind, beside, gpu_type])
        seat = sim.gpu_next[seat]
    return worst
