"""Kernels for the actions of the environment where jobs may share GPUs: whom a job may join, and which starts fit.

Queue slot k has ``(P + C) x S`` starts for P placement rules, C partner slots and S sub-batches: by each rule, then
beside each partner, at each sub-batch.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gpusched_env.simulator.jit import helper, int64, kernel
from gpusched_env.core.placement.beside import room_beside
from gpusched_env.core.seats import MEMORY_SLACK, has_seat, largest_sub_batch
from gpusched_env.core.state import ACTIVE
from gpusched_env.core.placement.taking import unable

Array = np.ndarray[Any, Any]


@helper
def open_gpus(world: Array, replicas: Array, holder: Array, gpu_next: Array, b: int, number: int) -> int:
    """Count the GPUs of a running gang that take one more job, as far as seats go; none while it checkpoints."""
    count = int64(0)
    if replicas[b, number]["phase"] == ACTIVE:
        seat = int64(replicas[b, number]["first_gpu"])
        while seat >= 0:
            gpu = seat % world[b]["gpus"]
            if has_seat(world, holder, b, gpu):
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
    """Sub-steps of the sub-batch that an action names; 0 = it names none (``sizes`` 0), -1 = the job has none such."""
    if sizes == 0:
        return int64(0)
    if size >= sub_batches.shape[2] or sub_batches[b, kind, size, 0]["sub_steps"] == 0:
        return int64(-1)
    return int64(sub_batches[b, kind, size, 0]["sub_steps"])


@helper
def place_beside(
    world: Array, jobs: Array, replicas: Array, nodes: Array, free: Array, holder: Array, gpu_next: Array,
    gpu_node: Array, paces: Array, sub_batches: Array, interference: Array, b: int, row: int, number: int, option: int,
) -> bool:
    """Tell whether :func:`find_beside` would find a place at a sub-batch; only counts."""
    kind = int64(jobs[b, row]["job_class"])
    room = room_beside(
        world, jobs, replicas, nodes, holder, gpu_next, gpu_node, paces, sub_batches, interference, b, kind, option,
        number,
    )
    if room == 0:
        return False
    gang = jobs[b, row]["gpus"]
    return room >= gang or room + room_alone(world, nodes, free, paces, sub_batches, b, kind, option) >= gang


@kernel
def mark_sizes(
    world: Array, jobs: Array, replicas: Array, nodes: Array, holder: Array, gpu_node: Array, chosen: Array,
    sub_batches: Array, b: int, row: int, found: int, option: int, sizes: int, at: int, mask: Array,
) -> int:
    """Mark from ``at`` on at which sub-batches a job can start on ``found`` GPUs in ``chosen``; return their number.

    ``option`` is the sub-batch that its rule chose, -1 = none, which counts where actions name none (``sizes`` 0).
    """
    choices = 0
    kind = int64(jobs[b, row]["job_class"]) if row >= 0 else int64(0)
    for size in range(max(sizes, 1)):
        steps = chosen_steps(sub_batches, b, kind, sizes, size)
        if sizes == 0 and option >= 0:
            steps = int64(sub_batches[b, kind, option, 0]["sub_steps"])
        mask[at + size] = 0
        if (
            found > 0
            and steps >= 0
            and largest_sub_batch(
                world, jobs, replicas, nodes, holder, gpu_node, chosen, sub_batches, b, kind, found, steps
            )
            >= 0
        ):
            mask[at + size] = 1
            choices += 1
    return choices


@kernel
def mark_partners(
    world: Array, jobs: Array, replicas: Array, nodes: Array, free: Array, holder: Array, gpu_next: Array,
    gpu_node: Array, paces: Array, sub_batches: Array, interference: Array, b: int, queue: Array, slot: int,
    partners: Array, sizes: int, at: int, slot_starts: int, mask: Array,
) -> int:
    """Mark from ``at`` on beside which partners the job in a queue slot can start, at which sub-batches; count them.

    Jobs of one class can join the same partners: what an earlier slot found is copied.
    """
    choices = 0
    row = int64(queue[slot])
    kind = int64(jobs[b, row]["job_class"]) if row >= 0 else int64(0)
    for earlier in range(slot):
        if row >= 0 and queue[earlier] >= 0 and jobs[b, queue[earlier]]["job_class"] == kind:
            back = (slot - earlier) * slot_starts
            for i in range(at, at + len(partners) * max(sizes, 1)):
                mask[i] = mask[i - back]
                choices += mask[i]
            return choices
    for i in range(len(partners)):
        number = int64(jobs[b, partners[i]]["replica"]) if partners[i] >= 0 else int64(-1)
        for size in range(max(sizes, 1)):
            mask[at] = 0
            first = size if sizes > 0 else 0
            end = size + 1 if sizes > 0 else sub_batches.shape[2]
            for option in range(first, min(end, sub_batches.shape[2])):
                if row < 0 or number < 0 or mask[at] == 1 or sub_batches[b, kind, option, 0]["sub_steps"] == 0:
                    continue
                if place_beside(
                    world, jobs, replicas, nodes, free, holder, gpu_next, gpu_node, paces, sub_batches, interference, b,
                    row, number, int64(option),
                ):
                    mask[at] = 1
                    choices += 1
            at += 1
    return choices
