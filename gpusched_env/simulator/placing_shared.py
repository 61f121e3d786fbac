"""Placement beside other jobs: the rules share-first-fit and share-best-benefit (SJF-FFS, SJF-BSBF; sjf_bsbf.md 3)."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpusched_env.cluster import MACHINE, NETWORK, RACK
from gpusched_env.simulator.flows import micro_s
from gpusched_env.simulator.jit import helper, int64, kernel
from gpusched_env.simulator.pairs import mean_in_sequence, mean_sharing
from gpusched_env.simulator.placing import PACK, reserve
from gpusched_env.simulator.node_orders import count_gangs, first_gpus_by_gangs, next_node, node_key
from gpusched_env.simulator.seats import MEMORY_SLACK, has_seat, may_share, memory_left
from gpusched_env.simulator.sharing_choices import BENEFIT, EXACT_TIE, FEWEST_GANGS, MEASURED, ONE_NODE, SEARCH
from gpusched_env.simulator.state import ACTIVE, WAITING
from gpusched_env.simulator.taking import FREE, unable, unable_somewhere, unreserve

Array = np.ndarray[Any, Any]


@helper
def tightest_tier(world: Array, racks: Array, b: int, gang: int) -> int:
    """Tier of a gang on as few machines as the empty cluster offers."""
    if gang <= world[b]["node_gpus"]:
        return int64(MACHINE)
    for rack in range(world[b]["racks"]):
        if gang <= racks[b, rack]["gpus"]:
            return int64(RACK)
    return int64(NETWORK)


@helper
def alone_s(paces: Array, sub_batches: Array, b: int, kind: int, option: int, tier: int, gpu_type: int) -> float:
    """Seconds of one iteration of a job class at a sub-batch, alone on its GPUs [s]."""
    size = sub_batches[b, kind, option, gpu_type]
    pace = paces[b, kind, tier, gpu_type]
    if size["sub_steps"] == 1:
        return pace["iteration_s"]
    share = size["compute_share"]
    return (size["sub_steps"] - 1) * share * pace["compute_s"] + micro_s(pace, share)


@helper
def has_room(
    world: Array, jobs: Array, replicas: Array, nodes: Array, holder: Array, gpu_node: Array, paces: Array,
    sub_batches: Array, interference: Array, b: int, kind: int, option: int, gpu: int,
) -> bool:
    """Tell whether a gang of a class may take a seat on a GPU, free or not, at a sub-batch."""
    if not has_seat(world, holder, b, gpu):
        return False
    gpu_type = int64(nodes[b, gpu_node[b, gpu]]["gpu_type"])
    left = memory_left(world, jobs, replicas, nodes, holder, gpu_node, sub_batches, b, gpu)
    if sub_batches[b, kind, option, gpu_type]["memory"] > left + MEMORY_SLACK:
        return False
    if unable(paces, b, kind, gpu_type):
        return False
    return may_share(world, jobs, replicas, nodes, holder, gpu_node, interference, b, gpu, kind)


@helper
def last_option(sub_batches: Array, b: int, kind: int, choices: int) -> int:
    """Find the smallest sub-batch of a class that is looked at."""
    last = sub_batches.shape[2] - 1 if choices & SEARCH else 0
    while sub_batches[b, kind, last, 0]["sub_steps"] == 0:
        last -= 1
    return int64(last)


@helper
def judge_pair(
    world: Array, jobs: Array, replicas: Array, nodes: Array, holder: Array, gpu_next: Array, gpu_node: Array,
    paces: Array, sub_batches: Array, interference: Array, b: int, row: int, number: int, tier: int, work_left: float,
    choices: int,
) -> None:
    """Find the sub-batch at which a waiting job would best join a running gang, and the pair's mean JCT then.

    Fills the gang's ``benefit_s`` (inf = it should not join), ``option`` and ``offers``. A smaller sub-batch never
    makes an iteration shorter, so on one GPU type the largest that fits is the best, and a pair that loses with the
    whole batch loses with every other.
    """
    w = world[b]
    r = replicas[b, number]
    kind = int64(jobs[b, row]["job_class"])
    beside = int64(jobs[b, r["job"]]["job_class"])
    r["benefit_s"] = np.inf
    r["option"] = -1
    r["offers"] = -1
    left_s = work_left * (r["iteration_s"] if choices & MEASURED else r["solo_s"])
    remaining = jobs[b, row]["remaining"]
    one_type = paces.shape[3] == 1
    if one_type:
        whole_s = remaining * alone_s(paces, sub_batches, b, kind, int64(0), tier, int64(0))
        sequence_s = mean_in_sequence(left_s, whole_s)
        sharing_s = mean_sharing(left_s, whole_s, interference[b, beside, kind, 0], interference[b, kind, beside, 0])
        if not sequence_s - sharing_s > EXACT_TIE * sequence_s:
            return
    for option in range(last_option(sub_batches, b, kind, choices) + 1):
        offers = int64(-1)
        seat = int64(r["first_gpu"])
        while seat >= 0:
            gpu = seat % w["gpus"]
            if (offers < 0 or gpu < offers) and has_room(
                world, jobs, replicas, nodes, holder, gpu_node, paces, sub_batches, interference, b, kind,
                int64(option), gpu,
            ):
                offers = gpu
            seat = int64(gpu_next[b, seat])
        if offers < 0:
            continue
        gpu_type = int64(nodes[b, gpu_node[b, offers]]["gpu_type"])
        whole_s = remaining * alone_s(paces, sub_batches, b, kind, int64(0), tier, gpu_type)
        new_s = remaining * alone_s(paces, sub_batches, b, kind, int64(option), tier, gpu_type)
        sequence_s = mean_in_sequence(left_s, whole_s)
        sharing_s = mean_sharing(
            left_s, new_s, interference[b, beside, kind, gpu_type], interference[b, kind, beside, gpu_type]
        )
        if sequence_s - sharing_s > EXACT_TIE * sequence_s and sharing_s < r["benefit_s"]:
            r["benefit_s"] = sharing_s
            r["option"] = option
            r["offers"] = offers
        if one_type:
            break


@helper
def judge_pairs(
    world: Array, jobs: Array, replicas: Array, nodes: Array, racks: Array, holder: Array, gpu_next: Array,
    gpu_node: Array, running: Array, paces: Array, sub_batches: Array, interference: Array, b: int, row: int,
    choices: int,
) -> None:
    """Judge a waiting job beside each running gang."""
    w = world[b]
    tier = tightest_tier(world, racks, b, int64(jobs[b, row]["gpus"]))
    for i in range(w["running"]):
        number = int64(running[b, i])
        r = replicas[b, number]
        r["offers"] = -1
        if r["phase"] == ACTIVE:
            elapsed = max(w["clock_s"] - r["since_s"], 0.0)
            left = max(jobs[b, r["job"]]["remaining"] - elapsed / r["iteration_s"], 0.0)
            judge_pair(
                world, jobs, replicas, nodes, holder, gpu_next, gpu_node, paces, sub_batches, interference, b, row,
                number, tier, left, choices,
            )


@helper
def better_pair(replicas: Array, b: int, one: int, other: int) -> bool:
    """Tell whether a waiting job should rather join gang ``one``: least mean JCT, then the lowest GPU."""
    first, second = replicas[b, one], replicas[b, other]
    if first["benefit_s"] != second["benefit_s"]:
        return first["benefit_s"] < second["benefit_s"]
    if first["offers"] != second["offers"]:
        return first["offers"] < second["offers"]
    return one < other


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
        last = low - 1
        while at < gang:  # its GPUs in ascending order
            following = int64(-1)
            seat = int64(replicas[b, best]["first_gpu"])
            while seat >= 0:
                gpu = seat % w["gpus"]
                if (
                    last < gpu < high
                    and (following < 0 or gpu < following)
                    and has_room(
                        world, jobs, replicas, nodes, holder, gpu_node, paces, sub_batches, interference, b, kind,
                        size, gpu,
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
                option = max(option, size)
    return at, option


@helper
def in_order(
    world: Array, jobs: Array, replicas: Array, nodes: Array, holder: Array, gpu_node: Array, paces: Array,
    chosen: Array, sub_batches: Array, interference: Array, b: int, kind: int, at: int, gang: int, option: int,
    low: int, high: int, free_ones: bool,
) -> int:
    """Append the GPUs in ``[low, high)`` with room at a sub-batch to ``chosen``: free ones, or those of others."""
    for gpu in range(low, high):
        if at == gang:
            break
        if (holder[b, gpu] == FREE) == free_ones and has_room(
            world, jobs, replicas, nodes, holder, gpu_node, paces, sub_batches, interference, b, kind, option,
            int64(gpu),
        ):
            chosen[b, at] = gpu
            at += 1
    return at


@kernel
def share_within(
    world: Array, jobs: Array, replicas: Array, nodes: Array, holder: Array, gpu_next: Array, gpu_node: Array,
    running: Array, paces: Array, chosen: Array, sub_batches: Array, interference: Array, b: int, kind: int, gang: int,
    choices: int, low: int, high: int,
) -> tuple[int, int]:
    """Choose all free GPUs in ``[low, high)``, and for the rest of a gang shared ones; see :func:`find_shared`."""
    last = last_option(sub_batches, b, kind, choices)
    if choices & BENEFIT:
        at = in_order(
            world, jobs, replicas, nodes, holder, gpu_node, paces, chosen, sub_batches, interference, b, kind,
            int64(0), gang, last, low, high, True,
        )
        at, option = by_benefit(
            world, jobs, replicas, nodes, holder, gpu_next, gpu_node, running, paces, chosen, sub_batches, interference,
            b, kind, at, gang, low, high,
        )
        if at < gang:
            return int64(0), int64(0)
        for size in range(option, last + 1):  # one that also the free GPUs have room for: types differ in memory
            room = True
            for i in range(gang):
                room = room and has_room(
                    world, jobs, replicas, nodes, holder, gpu_node, paces, sub_batches, interference, b, kind,
                    int64(size), int64(chosen[b, i]),
                )
            if room:
                return gang, int64(size)
        return int64(0), int64(0)
    for option in range(last + 1):
        at = int64(0)
        for free_ones in (True, False):
            at = in_order(
                world, jobs, replicas, nodes, holder, gpu_node, paces, chosen, sub_batches, interference, b, kind, at,
                gang, int64(option), low, high, free_ones,
            )
        if at == gang:
            return gang, int64(option)
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
                world, jobs, replicas, nodes, holder, gpu_next, gpu_node, running, paces, chosen, sub_batches,
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
        world, jobs, replicas, nodes, holder, gpu_next, gpu_node, running, paces, chosen, sub_batches, interference, b,
        kind, gang, choices, int64(0), int64(w["gpus"]),
    )
