"""Kernels that determine the tier of a placement, its shape, and the index of its times in ``paces``."""

from __future__ import annotations

from typing import Final

import numpy as np

from gpusched_env.core.handle import helper, kernel
from gpusched_env.core.state import FIRST_SHAPE, Run
from gpusched_env.network import dimensions as _shapes
from gpusched_env.problem.cluster import MACHINE, NETWORK, RACK, SLOT

dimensions = kernel(_shapes.dimensions)
shape_key = kernel(_shapes.shape_key)
ONE: Final = np.int64(1)


@helper
def tier_of(sim: Run, at: int, gang: int) -> int:
    """Return the tier of the GPUs ``chosen[at:at+gang]``; never SLOT on a machine with one slot."""
    first = sim.nodes[sim.gpu_node[sim.chosen[at]]]
    tier = SLOT if first["slot_gpus"] < first["gpus"] else MACHINE
    slot = (sim.chosen[at] - first["first_gpu"]) // first["slot_gpus"]
    for i in range(at + 1, at + gang):
        node = sim.nodes[sim.gpu_node[sim.chosen[i]]]
        if node["rack"] != first["rack"]:
            return NETWORK
        if node["first_gpu"] != first["first_gpu"]:
            tier = RACK
        elif tier == SLOT and (sim.chosen[i] - first["first_gpu"]) // first["slot_gpus"] != slot:
            tier = MACHINE
    return tier


@kernel(lazy=True)
def used_parts(sim: Run, at: int, gang: int) -> tuple[int, int, int]:
    """Count the racks, machines and slots of the GPUs ``chosen[at:at+gang]``."""
    used_racks = 0
    machines = 0
    slots = 0
    for i in range(at, at + gang):
        node = sim.nodes[sim.gpu_node[sim.chosen[i]]]
        bit = ONE << ((sim.chosen[i] - node["first_gpu"]) // node["slot_gpus"])
        if node["slots_taken"] == 0:
            machines += 1
        if node["slots_taken"] & bit == 0:
            slots += 1
            node["slots_taken"] |= bit
        if sim.racks[node["rack"]]["taken"] == 0:
            used_racks += 1
            sim.racks[node["rack"]]["taken"] = 1
    for i in range(at, at + gang):
        node = sim.nodes[sim.gpu_node[sim.chosen[i]]]
        node["slots_taken"] = 0
        sim.racks[node["rack"]]["taken"] = 0
    return used_racks, machines, slots


@kernel
def shape_row(sim: Run, kind: int, key: int) -> int:
    """Return the index of a shape among the rows of ``paces`` of a job class; -1 = the class has no row for it.

    The search is binary, as rows ascend by shape and unused rows come last.
    """
    low = FIRST_SHAPE
    high = sim.paces.shape[1]
    while low < high:
        middle = (low + high) // 2
        found = sim.paces[kind, middle, 0]["shape"]
        if found == key:
            return middle
        if found < 0 or found > key:
            high = middle
        else:
            low = middle + 1
    return -1


@kernel
def placed(sim: Run, kind: int, at: int, gang: int) -> tuple[int, int, int]:
    """Return the tier of the GPUs ``chosen[at:at+gang]``, an index into ``paces``, and their slowest GPU type.

    The index is that of the row of job class ``kind`` for the shape of the placement, or for its tier if ``paces`` has
    no row for the shape. The slowest type is the one on which an iteration of this job class takes longest.
    """
    tier = tier_of(sim, at, gang)
    row = tier
    if sim.paces.shape[1] > FIRST_SHAPE:
        used_racks, machines, slots = used_parts(sim, at, gang)
        _, slot, machine, rack = dimensions(int(gang), used_racks, machines, slots)
        found = shape_row(sim, kind, shape_key(slot, machine, rack))
        if found >= 0:
            row = found
    slowest = sim.nodes[sim.gpu_node[sim.chosen[at]]]["gpu_type"]
    for i in range(at + 1, at + gang if sim.world["types"] > 1 else at + 1):
        gpu_type = sim.nodes[sim.gpu_node[sim.chosen[i]]]["gpu_type"]
        if sim.paces[kind, row, gpu_type]["iteration_s"] > sim.paces[kind, row, slowest]["iteration_s"]:
            slowest = gpu_type
    return tier, row, slowest


@kernel(lazy=True)
def placed_copies(sim: Run, kind: int, gang: int, taken: int) -> tuple[int, float, float]:
    """Return the tier of all chosen GPUs of several copies of a gang, and the time and compute of one iteration [s].

    The time is the reciprocal of the sum of the copies' rates, and the share of compute in it the mean over the copies.
    """
    rate = 0.0
    share = 0.0
    for at in range(0, taken, gang):
        _, row, slowest = placed(sim, kind, at, gang)
        rate += 1.0 / sim.paces[kind, row, slowest]["iteration_s"]
        share += sim.paces[kind, row, slowest]["compute_s"] / sim.paces[kind, row, slowest]["iteration_s"]
    return tier_of(sim, 0, taken), 1.0 / rate, share / (taken // gang) / rate
