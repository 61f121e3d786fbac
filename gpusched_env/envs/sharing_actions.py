"""Kernels for the actions of the environment where jobs may share GPUs: whom a job may join, and which starts fit.

Queue slot k has ``(P + C) x S`` starts for P placement rules, C partner slots and S sub-batches: by each rule, then
beside each partner, at each sub-batch.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gpusched_env.simulator.events import find_place
from gpusched_env.simulator.jit import helper, int64, kernel
from gpusched_env.simulator.placing import SHARE_FIRST_FIT, SHARED_BY
from gpusched_env.simulator.placing_shared import find_shared, room_beside
from gpusched_env.simulator.seats import MEMORY_SLACK, largest_sub_batch, seated
from gpusched_env.simulator.state import ACTIVE
from gpusched_env.simulator.taking import unable

Array = np.ndarray[Any, Any]


@helper
def open_gpus(world: Array, replicas: Array, holder: Array, gpu_next: Array, b: int, number: int) -> int:
    """Count the GPUs of a running gang that take one more job, as far as seats go; none while it checkpoints."""
    count = int64(0)
    if replicas[b, number]["phase"] == ACTIVE:
        seat = int64(replicas[b, number]["first_gpu"])
        while seat >= 0:
            gpu = seat % world[b]["gpus"]
            if seated(world, holder, b, gpu) < world[b]["gpu_jobs"]:
                count += 1
            seat = int64(gpu_next[b, seat])
    return count


@helper
def room_alone(
    world: Array, nodes: Array, free: Array, paces: Array, sub_batches: Array, b: int, kind: int, option: int
) -> int:
    """Count the free GPUs on which a job class can run at a sub-batch."""
    count = int64(0)
    for n in range(world[b]["nodes"]):
        gpu_type = int64(nodes[b, n]["gpu_type"])
        if sub_batches[b, kind, option, gpu_type]["memory"] <= 1.0 + MEMORY_SLACK and not unable(
            paces, b, kind, gpu_type
        ):
            count += free[b, n]
    return count


@helper
def chosen_steps(sub_batches: Array, b: int, kind: int, sizes: int, size: int) -> int:
    """Sub-steps of the sub-batch that an action names; 0 = it names none (``sizes`` 0), -1 = the job has no such one."""
    if sizes == 0:
        return int64(0)
    if size >= sub_batches.shape[2] or sub_batches[b, kind, size, 0]["sub_steps"] == 0:
        return int64(-1)
    return int64(sub_batches[b, kind, size, 0]["sub_steps"])


@helper
def place_beside(
    world: Array,
    jobs: Array,
    replicas: Array,
    nodes: Array,
    free: Array,
    holder: Array,
    gpu_next: Array,
    gpu_node: Array,
    paces: Array,
    sub_batches: Array,
    interference: Array,
    b: int,
    row: int,
    number: int,
    option: int,
) -> bool:
    """Tell whether :func:`find_beside` would find a place at a sub-batch; only counts."""
    kind = int64(jobs[b, row]["job_class"])
    room = room_beside(
        world,
        jobs,
        replicas,
        nodes,
        holder,
        gpu_next,
        gpu_node,
        paces,
        sub_batches,
        interference,
        b,
        kind,
        option,
        number,
    )
    if room == 0:
        return False
    gang = jobs[b, row]["gpus"]
    return room >= gang or room + room_alone(world, nodes, free, paces, sub_batches, b, kind, option) >= gang


@kernel
def mark_starts(
    world: Array,
    jobs: Array,
    replicas: Array,
    nodes: Array,
    racks: Array,
    free: Array,
    holder: Array,
    gpu_next: Array,
    gpu_node: Array,
    waiting: Array,
    running: Array,
    paces: Array,
    events: Array,
    event_gpus: Array,
    chosen: Array,
    links: Array,
    uses: Array,
    routes: Array,
    pairs: Array,
    ratios: Array,
    busy: Array,
    sub_batches: Array,
    interference: Array,
    b: int,
    sizes: int,
    rules: Array,
    queue: Array,
    partners: Array,
    mask: Array,
) -> int:
    """Mark the starts that the simulator would accept; return their number. ``sizes`` 0 = actions name no sub-batch."""
    columns = max(sizes, 1)
    choices = 0
    at = 0
    for k in range(len(queue)):
        row = int64(queue[k])
        for i in range((len(rules) + len(partners)) * columns):
            mask[at + i] = 0
        kind = int64(jobs[b, row]["job_class"]) if row >= 0 else int64(0)
        for p in range(len(rules)):
            option = int64(-1)
            if row < 0:
                found = int64(0)
            elif rules[p] >= SHARE_FIRST_FIT and world[b]["gpu_jobs"] > 1:
                found, option = find_shared(
                    world,
                    jobs,
                    replicas,
                    nodes,
                    racks,
                    free,
                    holder,
                    gpu_next,
                    gpu_node,
                    running,
                    paces,
                    chosen,
                    links,
                    busy,
                    sub_batches,
                    interference,
                    b,
                    row,
                    SHARED_BY[rules[p] - SHARE_FIRST_FIT],
                )
            else:
                found = find_place(
                    world,
                    jobs,
                    replicas,
                    nodes,
                    racks,
                    free,
                    holder,
                    gpu_next,
                    gpu_node,
                    waiting,
                    running,
                    paces,
                    events,
                    event_gpus,
                    chosen,
                    links,
                    uses,
                    routes,
                    pairs,
                    ratios,
                    busy,
                    sub_batches,
                    interference,
                    b,
                    row,
                    int64(rules[p]),
                )
            for size in range(columns):
                steps = chosen_steps(sub_batches, b, kind, sizes, size)
                if sizes == 0 and option >= 0:
                    steps = int64(sub_batches[b, kind, option, 0]["sub_steps"])
                if found > 0 and steps >= 0:
                    fits = largest_sub_batch(
                        world, jobs, replicas, nodes, holder, gpu_node, chosen, sub_batches, b, kind, found, steps
                    )
                    mask[at] = 1 if fits >= 0 else 0
                    choices += mask[at]
                at += 1
        for i in range(len(partners)):
            for size in range(columns):
                partner = partners[i]
                if row >= 0 and partner >= 0:
                    number = int64(jobs[b, partner]["replica"])
                    first = size if sizes > 0 else 0
                    end = size + 1 if sizes > 0 else sub_batches.shape[2]
                    for option in range(first, min(end, sub_batches.shape[2])):
                        if (
                            mask[at] == 0
                            and sub_batches[b, kind, option, 0]["sub_steps"] > 0
                            and place_beside(
                                world,
                                jobs,
                                replicas,
                                nodes,
                                free,
                                holder,
                                gpu_next,
                                gpu_node,
                                paces,
                                sub_batches,
                                interference,
                                b,
                                row,
                                number,
                                int64(option),
                            )
                        ):
                            mask[at] = 1
                            choices += 1
                at += 1
    return choices
