"""Placement beside other jobs: the rules share-first-fit and share-best-benefit (SJF-FFS, SJF-BSBF; sjf_bsbf.md 3)."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpusched_env.cluster import MACHINE, NETWORK, RACK
from gpusched_env.simulator.flows import micro_s
from gpusched_env.simulator.jit import helper, int64, kernel
from gpusched_env.simulator.pairs import mean_in_sequence, mean_sharing
from gpusched_env.simulator.placing import PACK, reserve
from gpusched_env.simulator.seats import MEMORY_SLACK, may_share, memory_left, seated
from gpusched_env.simulator.sharing_choices import BENEFIT, EXACT_TIE, MEASURED, SEARCH
from gpusched_env.simulator.state import ACTIVE, WAITING
from gpusched_env.simulator.taking import FREE, unable, unreserve

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
    if seated(world, holder, b, gpu) >= world[b]["gpu_jobs"]:
        return False
    gpu_type = int64(nodes[b, gpu_node[b, gpu]]["gpu_type"])
    left = memory_left(world, jobs, replicas, nodes, holder, gpu_node, sub_batches, b, gpu)
    if sub_batches[b, kind, option, gpu_type]["memory"] > left + MEMORY_SLACK:
        return False
    if unable(paces, b, kind, gpu_type):
        return False
    return may_share(world, jobs, replicas, nodes, holder, gpu_node, interference, b, gpu, kind)


@helper
def options(sub_batches: Array, choices: int) -> int:
    """Count the sub-batches that are looked at, the whole batch first."""
    return sub_batches.shape[2] if choices & SEARCH else 1


@helper
def judge_pair(
    world: Array, jobs: Array, replicas: Array, nodes: Array, holder: Array, gpu_next: Array, gpu_node: Array,
    paces: Array, sub_batches: Array, interference: Array, b: int, row: int, number: int, tier: int, work_left: float,
    choices: int,
) -> None:
    """Find the sub-batch at which a waiting job would best join a running gang, and the pair's mean JCT then.

    Fills the gang's ``benefit_s`` (inf = it should not join), ``option`` and ``offers``.
    """
    r = replicas[b, number]
    kind = int64(jobs[b, row]["job_class"])
    beside = int64(jobs[b, r["job"]]["job_class"])
    r["benefit_s"] = np.inf
    r["option"] = -1
    r["offers"] = -1
    left_s = work_left * (r["iteration_s"] if choices & MEASURED else r["solo_s"])
    remaining = jobs[b, row]["remaining"]
    for option in range(options(sub_batches, choices)):
        if sub_batches[b, kind, option, 0]["sub_steps"] == 0:
            break
        offers = int64(-1)
        seat = int64(r["first_gpu"])
        while seat >= 0:
            gpu = seat % world[b]["gpus"]
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


@helper
def by_benefit(
    world: Array, jobs: Array, replicas: Array, nodes: Array, racks: Array, holder: Array, gpu_next: Array,
    gpu_node: Array, running: Array, paces: Array, chosen: Array, sub_batches: Array, interference: Array, b: int,
    row: int, at: int, gang: int, option: int, choices: int,
) -> tuple[int, int]:
    """Append GPUs of the gangs that the job should join, the pair of least mean JCT first, to ``chosen`` from ``at``.

    Returns the end of what it appended, and the smallest of ``option`` and the sub-batches at which it joins them.
    """
    w = world[b]
    kind = int64(jobs[b, row]["job_class"])
    tier = tightest_tier(world, racks, b, gang)
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
    while at < gang:
        best = int64(-1)
        for i in range(w["running"]):
            number = int64(running[b, i])
            r = replicas[b, number]
            if r["offers"] >= 0 and (
                best < 0
                or r["benefit_s"] < replicas[b, best]["benefit_s"]
                or (r["benefit_s"] == replicas[b, best]["benefit_s"] and r["offers"] < replicas[b, best]["offers"])
            ):
                best = number
        if best < 0:
            break
        joined = int64(replicas[b, best]["option"])
        last = int64(-1)
        while at < gang:  # its GPUs in ascending order
            following = int64(-1)
            seat = int64(replicas[b, best]["first_gpu"])
            while seat >= 0:
                gpu = seat % w["gpus"]
                if (
                    gpu > last
                    and (following < 0 or gpu < following)
                    and has_room(
                        world, jobs, replicas, nodes, holder, gpu_node, paces, sub_batches, interference, b, kind,
                        joined, gpu,
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
        option = max(option, joined)
        replicas[b, best]["offers"] = -1
    return at, option


@helper
def by_first_fit(
    world: Array, jobs: Array, replicas: Array, nodes: Array, holder: Array, gpu_node: Array, paces: Array,
    chosen: Array, sub_batches: Array, interference: Array, b: int, kind: int, at: int, gang: int, option: int,
) -> int:
    """Append the first GPUs that others hold and that have room at a sub-batch to ``chosen``; return the end."""
    for gpu in range(world[b]["gpus"]):
        if at == gang:
            break
        if holder[b, gpu] != FREE and has_room(
            world, jobs, replicas, nodes, holder, gpu_node, paces, sub_batches, interference, b, kind, option,
            int64(gpu),
        ):
            chosen[b, at] = gpu
            at += 1
    return at


@helper
def free_ones(
    world: Array, jobs: Array, replicas: Array, nodes: Array, holder: Array, gpu_node: Array, paces: Array,
    chosen: Array, sub_batches: Array, interference: Array, b: int, kind: int, gang: int, option: int,
) -> int:
    """Write all free GPUs on which a class can run at a sub-batch to ``chosen``; return their number."""
    at = int64(0)
    for gpu in range(world[b]["gpus"]):
        if (
            at < gang
            and holder[b, gpu] == FREE
            and has_room(
                world, jobs, replicas, nodes, holder, gpu_node, paces, sub_batches, interference, b, kind, option,
                int64(gpu),
            )
        ):
            chosen[b, at] = gpu
            at += 1
    return at


@kernel
def find_shared(
    world: Array, jobs: Array, replicas: Array, nodes: Array, racks: Array, free: Array, holder: Array, gpu_next: Array,
    gpu_node: Array, running: Array, paces: Array, chosen: Array, links: Array, busy: Array, sub_batches: Array,
    interference: Array, b: int, row: int, choices: int,
) -> tuple[int, int]:
    """Write the GPUs that a waiting job would get now to ``chosen``: free ones, and shared ones if they are too few.

    Nothing is reserved. Returns their number, 0 = no place, and the option of ``sub_batches`` at which the job fits.
    """
    if row < 0 or row >= world[b]["jobs"] or jobs[b, row]["status"] != WAITING:
        return 0, 0
    gang = int64(jobs[b, row]["gpus"])
    kind = int64(jobs[b, row]["job_class"])
    supply = int64(world[b]["free_gpus"])
    end = int64(
        reserve(world, nodes, racks, free, holder, gpu_node, chosen, links, busy, paces, b, 0, kind, gang, PACK, supply)
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
        return 0, 0
    if choices & BENEFIT:
        last = options(sub_batches, choices) - 1
        while sub_batches[b, kind, last, 0]["sub_steps"] == 0:
            last -= 1
        at = free_ones(
            world, jobs, replicas, nodes, holder, gpu_node, paces, chosen, sub_batches, interference, b, kind, gang,
            int64(last),
        )
        at, option = by_benefit(
            world, jobs, replicas, nodes, racks, holder, gpu_next, gpu_node, running, paces, chosen, sub_batches,
            interference, b, row, at, gang, int64(0), choices,
        )
        return (at, option) if at == gang else (0, 0)
    for option in range(options(sub_batches, choices)):
        if sub_batches[b, kind, option, 0]["sub_steps"] == 0:
            break
        at = free_ones(
            world, jobs, replicas, nodes, holder, gpu_node, paces, chosen, sub_batches, interference, b, kind, gang,
            int64(option),
        )
        at = by_first_fit(
            world, jobs, replicas, nodes, holder, gpu_node, paces, chosen, sub_batches, interference, b, kind, at, gang,
            int64(option),
        )
        if at == gang:
            return gang, int64(option)
    return 0, 0
