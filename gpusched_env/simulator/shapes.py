"""Kernels that see where the chosen GPUs are: tier and shape of a placement, and the row of ``paces`` for it."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from gpusched_env.cluster import MACHINE, NETWORK, RACK, SLOT
from gpusched_env.network import dimensions as _shapes
from gpusched_env.simulator.jit import helper, int64
from gpusched_env.simulator.state import FIRST_SHAPE

Array = np.ndarray[Any, Any]

dimensions = helper(_shapes.dimensions)
shape_key = helper(_shapes.shape_key)
ONE: Final = int64(1)


@helper
def tier_of(nodes: Array, gpu_node: Array, chosen: Array, b: int, gang: int) -> int:
    """Tier of the chosen GPUs; never SLOT where a machine has one slot."""
    first = nodes[b, gpu_node[b, chosen[b, 0]]]
    tier = int64(SLOT if first["slot_gpus"] < first["gpus"] else MACHINE)
    slot = (chosen[b, 0] - first["first_gpu"]) // first["slot_gpus"]
    for i in range(1, gang):
        node = nodes[b, gpu_node[b, chosen[b, i]]]
        if node["rack"] != first["rack"]:
            return int64(NETWORK)
        if node["first_gpu"] != first["first_gpu"]:
            tier = int64(RACK)
        elif tier == SLOT and (chosen[b, i] - first["first_gpu"]) // first["slot_gpus"] != slot:
            tier = int64(MACHINE)
    return tier


@helper
def used_parts(nodes: Array, racks: Array, gpu_node: Array, chosen: Array, b: int, gang: int) -> tuple[int, int, int]:
    """Racks, machines and slots on which the chosen GPUs are."""
    used_racks = int64(0)
    machines = int64(0)
    slots = int64(0)
    for i in range(gang):
        node = nodes[b, gpu_node[b, chosen[b, i]]]
        bit = ONE << ((chosen[b, i] - node["first_gpu"]) // node["slot_gpus"])
        if node["slots_taken"] == 0:
            machines += 1
        if node["slots_taken"] & bit == 0:
            slots += 1
            node["slots_taken"] |= bit
        if racks[b, node["rack"]]["taken"] == 0:
            used_racks += 1
            racks[b, node["rack"]]["taken"] = 1
    for i in range(gang):
        node = nodes[b, gpu_node[b, chosen[b, i]]]
        node["slots_taken"] = 0
        racks[b, node["rack"]]["taken"] = 0
    return used_racks, machines, slots


@helper
def shape_row(paces: Array, b: int, kind: int, key: int) -> int:
    """Row of ``paces`` of a shape, by halving; -1 where the job class has no such row. Unused rows stand at the end."""
    low = int64(FIRST_SHAPE)
    high = int64(paces.shape[2])
    while low < high:
        middle = (low + high) // 2
        found = paces[b, kind, middle, 0]["shape"]
        if found == key:
            return middle
        if found < 0 or found > key:
            high = middle
        else:
            low = middle + 1
    return int64(-1)


@helper
def placed(
    nodes: Array, racks: Array, gpu_node: Array, paces: Array, chosen: Array, b: int, kind: int, gang: int
) -> tuple[int, int, int]:
    """Tier of the chosen GPUs, row of ``paces`` for them, and the GPU type among them that sets the pace of the class.

    The row is that of the placement's shape where shapes have prices, else that of the tier.
    """
    tier = tier_of(nodes, gpu_node, chosen, b, gang)
    row = tier
    if paces.shape[2] > FIRST_SHAPE:
        used_racks, machines, slots = used_parts(nodes, racks, gpu_node, chosen, b, gang)
        _, slot, machine, rack = dimensions(gang, used_racks, machines, slots)
        found = shape_row(paces, b, kind, shape_key(slot, machine, rack))
        if found >= 0:
            row = found
    slowest = int64(nodes[b, gpu_node[b, chosen[b, 0]]]["gpu_type"])
    for i in range(1, gang if paces.shape[3] > 1 else 1):
        gpu_type = int64(nodes[b, gpu_node[b, chosen[b, i]]]["gpu_type"])
        if paces[b, kind, row, gpu_type]["iteration_s"] > paces[b, kind, row, slowest]["iteration_s"]:
            slowest = gpu_type
    return tier, row, slowest
