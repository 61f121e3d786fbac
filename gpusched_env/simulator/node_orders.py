"""Orders of machines in the authors' code of SJF-BSBF, by free GPUs and gangs (sjf_bsbf.md 3.2, end)."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpusched_env.simulator.jit import helper, int64
from gpusched_env.simulator.taking import FREE, unable

Array = np.ndarray[Any, Any]


@helper
def count_gangs(world: Array, nodes: Array, holder: Array, b: int) -> None:
    """Note in ``nodes.gangs`` how many gangs hold GPUs of each machine."""
    gpus = world[b]["gpus"]
    for node in range(world[b]["nodes"]):
        first = nodes[b, node]["first_gpu"]
        end = first + nodes[b, node]["gpus"]
        gangs = 0
        for layer in range(world[b]["gpu_jobs"]):
            for gpu in range(first, end):
                number = holder[b, gpu + layer * gpus]
                new = number >= 0
                for below in range(layer + 1):
                    for other in range(first, gpu if below == layer else end):
                        new = new and holder[b, other + below * gpus] != number
                gangs += new
        nodes[b, node]["gangs"] = gangs


@helper
def node_key(world: Array, nodes: Array, free: Array, b: int, gang: int, one_node: bool, node: int) -> int:
    """Rank a machine, the smallest first; equal ones by index.

    ``one_node``: the fewest free GPUs that hold the gang, then most free GPUs, then fewest gangs; else fewest gangs.
    """
    gangs = int64(nodes[b, node]["gangs"])
    if not one_node:
        return gangs
    most = world[b]["node_gpus"]
    left_over = free[b, node] - gang if free[b, node] >= gang else most
    return (left_over * (most + 1) + most - free[b, node]) * (most * world[b]["gpu_jobs"] + 1) + gangs


@helper
def next_node(world: Array, nodes: Array, free: Array, b: int, gang: int, one_node: bool, key: int, node: int) -> int:
    """Find the machine that follows ``node`` of rank ``key``; -1 = none. Begin with key -1."""
    following, least = int64(-1), int64(0)
    for other in range(world[b]["nodes"]):
        rank = node_key(world, nodes, free, b, gang, one_node, int64(other))
        if (rank > key or (rank == key and other > node)) and (following < 0 or rank < least):
            following, least = int64(other), int64(rank)
    return following


@helper
def first_gpus_by_gangs(
    world: Array, nodes: Array, free: Array, holder: Array, paces: Array, chosen: Array, b: int, kind: int, gang: int
) -> int:
    """Write the first free GPUs of the machines with the fewest gangs to ``chosen``; return their number, 0 or all."""
    at, key, node = int64(0), int64(-1), int64(-1)
    while at < gang:
        node = next_node(world, nodes, free, b, gang, False, key, node)
        if node < 0:
            return int64(0)
        key = node_key(world, nodes, free, b, gang, False, node)
        if not unable(paces, b, kind, int64(nodes[b, node]["gpu_type"])):
            first = int64(nodes[b, node]["first_gpu"])
            for gpu in range(first, first + nodes[b, node]["gpus"]):
                if at < gang and holder[b, gpu] == FREE:
                    chosen[b, at] = gpu
                    at += 1
    return at
