"""Placement rules about GPU types: all GPUs of the type that suits a gang, and copies of a gang on several machines."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpusched_env.cluster import MACHINE, NETWORK
from gpusched_env.simulator.jit import helper, int64
from gpusched_env.simulator.placing_by_load import packs_better
from gpusched_env.simulator.taking import take

Array = np.ndarray[Any, Any]


@helper
def _fastest_type(world: Array, nodes: Array, free: Array, paces: Array, b: int, kind: int, gang: int) -> int:
    """Find the GPU type on which a gang would run fastest now, alone on that type; -1 = none has enough free GPUs.

    A gang that no machine of a type has room for is taken to span racks there.
    """
    best = int64(-1)
    least = np.inf
    for gpu_type in range(paces.shape[3]):
        room = 0
        largest = 0
        for node in range(world[b]["nodes"]):
            if nodes[b, node]["gpu_type"] == gpu_type:
                room += free[b, node]
                largest = max(largest, free[b, node])
        if room >= gang:
            tier = MACHINE if largest >= gang else NETWORK
            seconds = paces[b, kind, tier, gpu_type]["iteration_s"]
            if seconds < least:
                least = seconds
                best = int64(gpu_type)
    return best


@helper
def place_on_fastest_type(
    world: Array,
    nodes: Array,
    free: Array,
    holder: Array,
    chosen: Array,
    paces: Array,
    b: int,
    kind: int,
    gang: int,
    at: int,
) -> int:
    """Best fit on one machine of the type on which the gang runs fastest now, else on few machines of it."""
    gpu_type = _fastest_type(world, nodes, free, paces, b, kind, gang)
    left = gang if gpu_type >= 0 else 0
    while left > 0:
        best = -1
        for node in range(world[b]["nodes"]):
            room = free[b, node]
            if (
                nodes[b, node]["gpu_type"] == gpu_type
                and room > 0
                and (best < 0 or packs_better(room, free[b, best], left))
            ):
                best = node
        count = min(left, free[b, best])
        at = take(nodes, free, holder, chosen, b, best, count, at)
        left -= count
    return at


@helper
def place_copies(
    world: Array, nodes: Array, free: Array, holder: Array, chosen: Array, b: int, gang: int, at: int
) -> int:
    """Place one copy of the gang on each machine that has room, in machine order, at most ``max_copies`` of them."""
    left = world[b]["max_copies"]
    for node in range(world[b]["nodes"]):
        if left > 0 and free[b, node] >= gang:
            at = take(nodes, free, holder, chosen, b, node, gang, at)
            left -= 1
    return at
