"""The kernel of the observation where jobs may share GPUs."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpusched_env.envs.sharing_actions import open_gpus, place_beside
from gpusched_env.envs.squashing import squash
from gpusched_env.core.events import work_left
from gpusched_env.simulator.jit import helper, int64, kernel
from gpusched_env.core.pairs import mean_in_sequence, mean_sharing
from gpusched_env.core.partners import alone_s, tightest_tier
from gpusched_env.core.placement.beside import room_beside
from gpusched_env.core.seats import slowdown_by_company
from gpusched_env.core.placement.taking import FREE

Array = np.ndarray[Any, Any]


@helper
def several_on(world: Array, holder: Array, b: int, gpu: int) -> bool:
    """Tell whether several gangs hold a GPU: lower seats are taken first, so the second tells."""
    return world[b]["gpu_jobs"] > 1 and holder[b, gpu + world[b]["gpus"]] != FREE


@helper
def type_of(world: Array, replicas: Array, nodes: Array, gpu_node: Array, b: int, number: int) -> int:
    """GPU type of the first GPU of a running gang."""
    return int64(nodes[b, gpu_node[b, replicas[b, number]["first_gpu"] % world[b]["gpus"]]]["gpu_type"])


@helper
def alone_left_s(world: Array, jobs: Array, replicas: Array, b: int, row: int) -> float:
    """Seconds that a running job has left, were its GPUs its own: L of Theorem 1 [s]."""
    return work_left(world, jobs, replicas, b, row) * replicas[b, jobs[b, row]["replica"]]["solo_s"]


@helper
def show_sub_batches(
    world: Array, jobs: Array, racks: Array, paces: Array, sub_batches: Array, b: int, queue: Array, sizes: int,
    out: Array,
) -> None:
    """Write the rows of columns.SUB_BATCHES; of several GPU types the one that takes the least memory counts."""
    for k in range(len(queue)):
        row = queue[k]
        for size in range(sizes):
            at = k * sizes + size
            out[at, 0] = 0.0
            out[at, 1] = 0.0
            if row < 0 or size >= sub_batches.shape[2]:
                continue
            kind = int64(jobs[b, row]["job_class"])
            if sub_batches[b, kind, size, 0]["sub_steps"] == 0:
                continue
            tier = tightest_tier(world, racks, b, int64(jobs[b, row]["gpus"]))
            best = int64(-1)
            for gpu_type in range(sub_batches.shape[3]):
                if np.isfinite(paces[b, kind, tier, gpu_type]["iteration_s"]) and (
                    best < 0
                    or sub_batches[b, kind, size, gpu_type]["memory"] < sub_batches[b, kind, size, best]["memory"]
                ):
                    best = int64(gpu_type)
            if best >= 0:
                out[at, 0] = min(sub_batches[b, kind, size, best]["memory"], 1.0)
                whole_s = alone_s(paces, sub_batches, b, kind, int64(0), tier, best)
                out[at, 1] = min(whole_s / alone_s(paces, sub_batches, b, kind, int64(size), tier, best), 1.0)


@helper
def show_company(
    world: Array, jobs: Array, replicas: Array, nodes: Array, holder: Array, gpu_next: Array, gpu_node: Array,
    sub_batches: Array, interference: Array, b: int, clairvoyant: int, slots: Array, out: Array,
) -> None:
    """Write the rows of columns.COMPANY for the running jobs in ``slots``."""
    w = world[b]
    for i in range(len(slots)):
        row = int64(slots[i])
        for c in range(out.shape[1]):
            out[i, c] = 0.0
        if row < 0:
            continue
        job = jobs[b, row]
        number = int64(job["replica"])
        r = replicas[b, number]
        size = sub_batches[b, job["job_class"], r["sub_batch"], type_of(world, replicas, nodes, gpu_node, b, number)]
        shared = 0
        seat = int64(r["first_gpu"])
        while seat >= 0:
            if several_on(world, holder, b, seat % w["gpus"]):
                shared += 1
            seat = int64(gpu_next[b, seat])
        xi = slowdown_by_company(world, jobs, replicas, nodes, holder, gpu_next, gpu_node, interference, b, number)
        out[i, 0] = 1.0
        out[i, 1] = job["gpus"] / w["gpus"]
        out[i, 2] = squash(w["clock_s"] - r["start_s"])
        if clairvoyant:
            out[i, 3] = squash(alone_left_s(world, jobs, replicas, b, row))
        out[i, 4] = min(size["memory"], 1.0)
        out[i, 5] = 1.0 - 1.0 / size["sub_steps"]
        out[i, 6] = open_gpus(world, replicas, holder, gpu_next, b, number) / r["gpus"]
        out[i, 7] = shared / r["gpus"]
        out[i, 8] = 1.0 - 1.0 / xi


@helper
def show_pair(
    world: Array, jobs: Array, replicas: Array, nodes: Array, racks: Array, free: Array, holder: Array, gpu_next: Array,
    gpu_node: Array, paces: Array, sub_batches: Array, interference: Array, b: int, benefit: bool, row: int,
    partner: int, joins: bool, option: int, out: Array, at: int,
) -> None:
    """Write a row of columns.PAIRS; the pair ``joins`` at ``option``, -1 = at the largest sub-batch with a place."""
    number = int64(jobs[b, partner]["replica"])
    kind = int64(jobs[b, row]["job_class"])
    beside = int64(jobs[b, partner]["job_class"])
    gpu_type = type_of(world, replicas, nodes, gpu_node, b, number)
    xi_running = interference[b, beside, kind, gpu_type]
    xi_waiting = interference[b, kind, beside, gpu_type]
    out[at, 0] = 1.0 if joins else 0.0
    out[at, 2] = 1.0 - 1.0 / xi_running  # of infinity 1
    out[at, 3] = 1.0 - 1.0 / xi_waiting
    if not joins:
        return
    if option < 0:
        option = int64(0)
        while sub_batches[b, kind, option, 0]["sub_steps"] == 0 or not place_beside(
            world, jobs, replicas, nodes, free, holder, gpu_next, gpu_node, paces, sub_batches, interference, b, row,
            number, option,
        ):
            option += 1
    room = room_beside(
        world, jobs, replicas, nodes, holder, gpu_next, gpu_node, paces, sub_batches, interference, b, kind, option,
        number,
    )
    out[at, 1] = min(room / jobs[b, row]["gpus"], 1.0)
    if benefit:
        tier = tightest_tier(world, racks, b, int64(jobs[b, row]["gpus"]))
        remaining = jobs[b, row]["remaining"]
        left_s = alone_left_s(world, jobs, replicas, b, partner)
        whole_s = remaining * alone_s(paces, sub_batches, b, kind, int64(0), tier, gpu_type)
        new_s = remaining * alone_s(paces, sub_batches, b, kind, option, tier, gpu_type)
        sequence_s = mean_in_sequence(left_s, whole_s)
        out[at, 4] = sequence_s / (sequence_s + mean_sharing(left_s, new_s, xi_running, xi_waiting))


@helper
def show_seats(
    world: Array, jobs: Array, replicas: Array, nodes: Array, holder: Array, gpu_next: Array, gpu_node: Array,
    running: Array, interference: Array, b: int, out: Array,
) -> None:
    """Write columns.SEATS."""
    w = world[b]
    single = 0
    several = 0
    for gpu in range(w["gpus"]):
        if several_on(world, holder, b, int64(gpu)):
            several += 1
        elif holder[b, gpu] != FREE:
            single += 1
    loss = 0.0
    for i in range(w["running"]):
        loss += 1.0 - 1.0 / slowdown_by_company(
            world, jobs, replicas, nodes, holder, gpu_next, gpu_node, interference, b, int64(running[b, i])
        )
    out[0] = single / w["gpus"]
    out[1] = several / w["gpus"]
    out[2] = loss / w["running"] if w["running"] > 0 else 0.0


@kernel
def show_sharing(
    world: Array, jobs: Array, replicas: Array, nodes: Array, racks: Array, free: Array, holder: Array, gpu_next: Array,
    gpu_node: Array, waiting: Array, running: Array, paces: Array, events: Array, event_gpus: Array, chosen: Array,
    links: Array, uses: Array, routes: Array, pairs: Array, ratios: Array, busy: Array, sub_batches: Array,
    interference: Array, due: Array, b: int, config: Array, rules: Array, queue: Array, victims: Array, partners: Array,
    mask: Array, out_sub_batches: Array, out_company: Array, out_partners: Array, out_pairs: Array, out_seats: Array,
) -> int:
    """Write the arrays of columns.SHARING_TABLES."""
    clairvoyant = int64(config[0]["clairvoyant"])
    benefit = config[0]["pair_benefit"] > 0 and clairvoyant > 0
    sizes = max(int64(config[0]["sub_batches"]), 1)
    show_sub_batches(world, jobs, racks, paces, sub_batches, b, queue, sizes, out_sub_batches)
    show_company(
        world, jobs, replicas, nodes, holder, gpu_next, gpu_node, sub_batches, interference, b, clairvoyant, victims,
        out_company,
    )
    show_company(
        world, jobs, replicas, nodes, holder, gpu_next, gpu_node, sub_batches, interference, b, clairvoyant, partners,
        out_partners,
    )
    show_seats(world, jobs, replicas, nodes, holder, gpu_next, gpu_node, running, interference, b, out_seats)
    starts = (len(rules) + len(partners)) * sizes  # of a queue slot
    for k in range(len(queue)):
        for i in range(len(partners)):
            at = k * len(partners) + i
            for c in range(out_pairs.shape[1]):
                out_pairs[at, c] = 0.0
            if queue[k] >= 0 and partners[i] >= 0:
                first = k * starts + (len(rules) + i) * sizes
                size = int64(0)
                while size < sizes and mask[first + size] == 0:
                    size += 1
                joins = size < sizes
                option = size if config[0]["sub_batches"] > 0 else int64(-1)
                show_pair(
                    world, jobs, replicas, nodes, racks, free, holder, gpu_next, gpu_node, paces, sub_batches,
                    interference, b, benefit, int64(queue[k]), int64(partners[i]), joins, option, out_pairs, at,
                )
    return int64(0)
