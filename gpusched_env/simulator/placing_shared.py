"""Placement beside other jobs: the rules share-first-fit and share-best-benefit (SJF-FFS, SJF-BSBF; sjf_bsbf.md 3)."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpusched_env.simulator.jit import helper, int64, kernel
from gpusched_env.simulator.node_orders import count_gangs, first_gpus_by_gangs, next_node, node_key
from gpusched_env.simulator.partners import better_pair, has_room, judge_pairs, last_option
from gpusched_env.simulator.placing import PACK, reserve
from gpusched_env.simulator.seats import MEMORY_SLACK
from gpusched_env.simulator.sharing_choices import BENEFIT, FEWEST_GANGS, ONE_NODE
from gpusched_env.simulator.state import WAITING
from gpusched_env.simulator.taking import FREE, unable_somewhere, unreserve

Array = np.ndarray[Any, Any]


@helper
def append_gpus_of(
    world: Array, jobs: Array, replicas: Array, nodes: Array, holder: Array, gpu_next: Array, gpu_node: Array,
    paces: Array, chosen: Array, sub_batches: Array, interference: Array, b: int, kind: int, at: int, gang: int,
    option: int, number: int, low: int, high: int,
) -> int:
    """Append the GPUs of a running gang in ``[low, high)`` that have room at a sub-batch, ascending; return the end."""
    last = int64(low - 1)
    while at < gang:
        following = int64(-1)
        seat = int64(replicas[b, number]["first_gpu"])
        while seat >= 0:
            gpu = seat % world[b]["gpus"]
            if (
                last < gpu < high
                and (following < 0 or gpu < following)
                and has_room(
                    world, jobs, replicas, nodes, holder, gpu_node, paces, sub_batches, interference, b, kind, option,
                    gpu,
                )
            ):
                following = gpu
            seat = int64(gpu_next[b, seat])
        if following < 0:
            break
        last = following
        taken = False
        for i in range(at):  # beside two gangs that it should join: once
            taken = taken or chosen[b, i] == following
        if not taken:
            chosen[b, at] = following
            at += 1
    return at


@helper
def by_benefit(
    world: Array, jobs: Array, replicas: Array, nodes: Array, holder: Array, gpu_next: Array, gpu_node: Array,
    running: Array, paces: Array, chosen: Array, sub_batches: Array, interference: Array, b: int, kind: int, at: int,
    gang: int, low: int, high: int,
) -> tuple[int, int]:
    """Append GPUs in ``[low, high)`` of the gangs that the job should join, the best pair first, to ``chosen``.

    Returns the end of what it appended from ``at``, and the smallest of the sub-batches at which it joins them.
    """
    w = world[b]
    option = int64(0)
    joined = int64(-1)
    while at < gang:
        best = int64(-1)
        for i in range(w["running"]):
            number = int64(running[b, i])
            if (
                replicas[b, number]["offers"] >= 0
                and (joined < 0 or better_pair(replicas, b, joined, number))
                and (best < 0 or better_pair(replicas, b, number, best))
            ):
                best = number
        if best < 0:
            break
        joined = best
        size = int64(replicas[b, best]["option"])
        end = append_gpus_of(
            world, jobs, replicas, nodes, holder, gpu_next, gpu_node, paces, chosen, sub_batches, interference, b, kind,
            at, gang, size, best, low, high,
        )
        if end > at:
            option = max(option, size)
        at = end
    return at, option


@helper
def append_by_id(
    world: Array, jobs: Array, replicas: Array, nodes: Array, holder: Array, gpu_node: Array, paces: Array,
    chosen: Array, sub_batches: Array, interference: Array, b: int, kind: int, at: int, gang: int, option: int,
    held: bool, low: int, high: int,
) -> int:
    """Append the first GPUs in ``[low, high)`` that have room at a sub-batch to ``chosen``; return the end.

    ``held``: those that others hold, else the free ones.
    """
    for gpu in range(low, high):
        if (
            at < gang
            and (holder[b, gpu] != FREE) == held
            and has_room(
                world, jobs, replicas, nodes, holder, gpu_node, paces, sub_batches, interference, b, kind, option,
                int64(gpu),
            )
        ):
            chosen[b, at] = gpu
            at += 1
    return at


@helper
def append_shared_by_gangs(
    world: Array, jobs: Array, replicas: Array, nodes: Array, free: Array, holder: Array, gpu_node: Array, paces: Array,
    chosen: Array, sub_batches: Array, interference: Array, b: int, kind: int, at: int, gang: int, option: int,
) -> int:
    """Append held GPUs that have room, of the machines with the fewest gangs first, to ``chosen``; return the end."""
    key, node = int64(-1), int64(-1)
    while at < gang:
        node = next_node(world, nodes, free, b, gang, False, key, node)
        if node < 0:
            break
        key = node_key(world, nodes, free, b, gang, False, node)
        low = int64(nodes[b, node]["first_gpu"])
        at = append_by_id(
            world, jobs, replicas, nodes, holder, gpu_node, paces, chosen, sub_batches, interference, b, kind, at, gang,
            option, True, low, low + int64(nodes[b, node]["gpus"]),
        )
    return at


@helper
def fits_all(
    world: Array, jobs: Array, replicas: Array, nodes: Array, holder: Array, gpu_node: Array, paces: Array,
    chosen: Array, sub_batches: Array, interference: Array, b: int, kind: int, gang: int, option: int,
) -> bool:
    """Tell whether all chosen GPUs have room for a class at a sub-batch."""
    for i in range(gang):
        if not has_room(
            world, jobs, replicas, nodes, holder, gpu_node, paces, sub_batches, interference, b, kind, option,
            int64(chosen[b, i]),
        ):
            return False
    return True


@kernel
def share_within(
    world: Array, jobs: Array, replicas: Array, nodes: Array, free: Array, holder: Array, gpu_next: Array,
    gpu_node: Array, running: Array, paces: Array, chosen: Array, sub_batches: Array, interference: Array, b: int,
    kind: int, gang: int, choices: int, low: int, high: int,
) -> tuple[int, int]:
    """Choose all free GPUs in ``[low, high)``, and for the rest of a gang shared ones; see :func:`find_shared`."""
    by_gangs = choices & (FEWEST_GANGS | ONE_NODE) > 0 and high - low == world[b]["gpus"]
    last = last_option(sub_batches, b, kind, choices)
    if choices & BENEFIT:
        at = append_by_id(
            world, jobs, replicas, nodes, holder, gpu_node, paces, chosen, sub_batches, interference, b, kind,
            int64(0), gang, last, False, low, high,
        )
        at, option = by_benefit(
            world, jobs, replicas, nodes, holder, gpu_next, gpu_node, running, paces, chosen, sub_batches, interference,
            b, kind, at, gang, low, high,
        )
        while at == gang and option <= last:  # the best for its company may be too large for the other GPUs
            if fits_all(
                world, jobs, replicas, nodes, holder, gpu_node, paces, chosen, sub_batches, interference, b, kind, gang,
                option,
            ):
                return gang, option
            option += 1
        return int64(0), int64(0)
    for size in range(last + 1):
        at = append_by_id(
            world, jobs, replicas, nodes, holder, gpu_node, paces, chosen, sub_batches, interference, b, kind, int64(0),
            gang, int64(size), False, low, high,
        )
        if by_gangs:
            at = append_shared_by_gangs(
                world, jobs, replicas, nodes, free, holder, gpu_node, paces, chosen, sub_batches, interference, b, kind,
                at, gang, int64(size),
            )
        else:
            at = append_by_id(
                world, jobs, replicas, nodes, holder, gpu_node, paces, chosen, sub_batches, interference, b, kind, at,
                gang, int64(size), True, low, high,
            )
        if at == gang:
            return gang, int64(size)
    return int64(0), int64(0)


@helper
def on_one_node(
    world: Array, jobs: Array, replicas: Array, nodes: Array, free: Array, holder: Array, gpu_next: Array,
    gpu_node: Array, running: Array, paces: Array, chosen: Array, sub_batches: Array, interference: Array, b: int,
    kind: int, gang: int, choices: int,
) -> tuple[int, int]:
    """Choose a gang's GPUs on one machine, free or shared: the tightest on which free ones suffice, else any."""
    key, node = int64(-1), int64(-1)
    while True:
        node = next_node(world, nodes, free, b, gang, True, key, node)
        if node < 0:
            return int64(0), int64(0)
        key = node_key(world, nodes, free, b, gang, True, node)
        low = int64(nodes[b, node]["first_gpu"])
        high = low + int64(nodes[b, node]["gpus"])
        if gang <= high - low:
            count, option = share_within(
                world, jobs, replicas, nodes, free, holder, gpu_next, gpu_node, running, paces, chosen, sub_batches,
                interference, b, kind, gang, choices, low, high,
            )
            if count > 0:
                return count, option


@kernel
def find_shared(
    world: Array, jobs: Array, replicas: Array, nodes: Array, racks: Array, free: Array, holder: Array, gpu_next: Array,
    gpu_node: Array, running: Array, paces: Array, chosen: Array, links: Array, busy: Array, sub_batches: Array,
    interference: Array, b: int, row: int, choices: int,
) -> tuple[int, int]:
    """Write the GPUs that a waiting job would get now to ``chosen``: free ones, and shared ones if they are too few.

    Nothing is reserved. Returns their number, 0 = no place, and the option of ``sub_batches`` at which the job fits.
    ``choices`` are flags of sharing_choices.py.
    """
    w = world[b]
    if row < 0 or row >= w["jobs"] or jobs[b, row]["status"] != WAITING:
        return int64(0), int64(0)
    gang = int64(jobs[b, row]["gpus"])
    kind = int64(jobs[b, row]["job_class"])
    supply = int64(w["free_gpus"])
    top = (w["gpu_jobs"] - 1) * w["gpus"]
    seats = int64(0)
    for gpu in range(w["gpus"]):
        seats += holder[b, gpu + top] == FREE
    if gang > seats:
        return int64(0), int64(0)
    in_sight = choices & (FEWEST_GANGS | ONE_NODE) > 0
    if in_sight:
        count_gangs(world, nodes, holder, b)
    judged = choices & BENEFIT > 0 and w["gpu_jobs"] > 1
    if judged and (gang > supply or choices & ONE_NODE or unable_somewhere(paces, b, kind)):
        judge_pairs(
            world, jobs, replicas, nodes, racks, holder, gpu_next, gpu_node, running, paces, sub_batches, interference,
            b, row, choices,
        )
    if choices & ONE_NODE:
        count, option = on_one_node(
            world, jobs, replicas, nodes, free, holder, gpu_next, gpu_node, running, paces, chosen, sub_batches,
            interference, b, kind, gang, choices,
        )
        if count > 0:
            return count, option
    if in_sight:
        end = first_gpus_by_gangs(world, nodes, free, holder, paces, chosen, b, kind, gang)
    else:
        end = int64(
            reserve(
                world, nodes, racks, free, holder, gpu_node, chosen, links, busy, paces, b, 0, kind, gang, PACK, supply
            )
        )
        unreserve(nodes, free, holder, gpu_node, chosen, b, 0, end)
    if end > 0:
        for option in range(sub_batches.shape[2]):  # alone, at the largest sub-batch that its GPUs have room for
            room = sub_batches[b, kind, option, 0]["sub_steps"] > 0
            for i in range(end):
                gpu_type = nodes[b, gpu_node[b, chosen[b, i]]]["gpu_type"]
                room = room and sub_batches[b, kind, option, gpu_type]["memory"] <= 1.0 + MEMORY_SLACK
            if room:
                return end, int64(option)
        return int64(0), int64(0)
    if w["gpu_jobs"] == 1:
        return int64(0), int64(0)
    return share_within(
        world, jobs, replicas, nodes, free, holder, gpu_next, gpu_node, running, paces, chosen, sub_batches,
        interference, b, kind, gang, choices, int64(0), int64(w["gpus"]),
    )
