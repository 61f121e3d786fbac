"""Placement beside one running gang, which the caller names (the environment's action "join")."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpusched_env.simulator.jit import helper, int64, kernel
from gpusched_env.simulator.partners import has_room
from gpusched_env.simulator.placing_shared import append_by_id, append_gpus_of
from gpusched_env.simulator.state import ACTIVE, WAITING

Array = np.ndarray[Any, Any]


@helper
def room_beside(
    world: Array, jobs: Array, replicas: Array, nodes: Array, holder: Array, gpu_next: Array, gpu_node: Array,
    paces: Array, sub_batches: Array, interference: Array, b: int, kind: int, option: int, number: int,
) -> int:
    """Count the GPUs of a running gang that have room for a job class at a sub-batch; none while it checkpoints."""
    count = int64(0)
    if replicas[b, number]["phase"] != ACTIVE:
        return count
    seat = int64(replicas[b, number]["first_gpu"])
    while seat >= 0:
        gpu = seat % world[b]["gpus"]
        if has_room(
            world, jobs, replicas, nodes, holder, gpu_node, paces, sub_batches, interference, b, kind, option, gpu
        ):
            count += 1
        seat = int64(gpu_next[b, seat])
    return count


@kernel
def find_beside(
    world: Array, jobs: Array, replicas: Array, nodes: Array, racks: Array, free: Array, holder: Array,
    gpu_next: Array, gpu_node: Array, waiting: Array, running: Array, paces: Array, events: Array,
    event_gpus: Array, chosen: Array, links: Array, uses: Array, routes: Array, pairs: Array, ratios: Array,
    busy: Array, sub_batches: Array, interference: Array, due: Array, b: int, row: int, partner: int, option: int,
) -> tuple[int, int]:
    """Write the GPUs on which a waiting job would join the running job ``partner`` to ``chosen``.

    The partner's GPUs that have room, ascending, then free ones. ``option`` of ``sub_batches``, -1 = the largest for
    which there is a place. Nothing is reserved. Returns the number of GPUs, 0 = no place, and the option.
    """
    most = world[b]["jobs"]
    if row < 0 or row >= most or jobs[b, row]["status"] != WAITING or world[b]["gpu_jobs"] == 1:
        return int64(0), int64(0)
    if partner < 0 or partner >= most or jobs[b, partner]["replica"] < 0:
        return int64(0), int64(0)
    number = int64(jobs[b, partner]["replica"])
    if replicas[b, number]["phase"] != ACTIVE:
        return int64(0), int64(0)
    gang = int64(jobs[b, row]["gpus"])
    kind = int64(jobs[b, row]["job_class"])
    gpus = int64(world[b]["gpus"])
    for size in range(sub_batches.shape[2]):
        if sub_batches[b, kind, size, 0]["sub_steps"] == 0 or (option >= 0 and size != option):
            continue
        at = append_gpus_of(
            world, jobs, replicas, nodes, holder, gpu_next, gpu_node, paces, chosen, sub_batches, interference, b, kind,
            int64(0), gang, int64(size), number, int64(0), gpus,
        )
        if at > 0:
            at = append_by_id(
                world, jobs, replicas, nodes, holder, gpu_node, paces, chosen, sub_batches, interference, b, kind, at,
                gang, int64(size), False, int64(0), gpus,
            )
        if at == gang:
            return gang, int64(size)
    return int64(0), int64(0)
