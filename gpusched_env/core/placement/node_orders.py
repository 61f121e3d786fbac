"""Orders of machines by their free GPUs and gangs, as in the code of SJF-BSBF's authors (docs/sjf_bsbf.md)."""

from __future__ import annotations

from gpusched_env.core.handle import kernel
from gpusched_env.core.placement.taking import FREE, unable
from gpusched_env.core.state import Run


@kernel
def count_gangs(sim: Run) -> None:
    """Set ``nodes.gangs`` to the number of gangs that hold GPUs of each machine."""
    gpus = sim.world["gpus"]
    for node in range(sim.world["nodes"]):
        first = sim.nodes[node]["first_gpu"]
        end = first + sim.nodes[node]["gpus"]
        gangs = 0
        for layer in range(sim.world["gpu_jobs"]):
            for gpu in range(first, end):
                number = sim.holder[gpu + layer * gpus]
                new = number >= 0
                for below in range(layer + 1):
                    for other in range(first, gpu if below == layer else end):
                        new = new and sim.holder[other + below * gpus] != number
                gangs += new
        sim.nodes[node]["gangs"] = gangs


@kernel
def node_key(sim: Run, gang: int, one_node: bool, node: int) -> int:
    """Return the sort key of a machine; the smallest key comes first, and ties go to the lowest index.

    Without ``one_node``, machines with the fewest gangs come first. With ``one_node``, the first machines are those
    with room for the whole gang, by ascending free GPUs. The others follow, by descending free GPUs. Ties: the fewest
    gangs.
    """
    gangs = sim.nodes[node]["gangs"]
    if not one_node:
        return gangs
    most = sim.world["node_gpus"]
    left_over = sim.free[node] - gang if sim.free[node] >= gang else most
    return (left_over * (most + 1) + most - sim.free[node]) * (most * sim.world["gpu_jobs"] + 1) + gangs


@kernel
def next_node(sim: Run, gang: int, one_node: bool, key: int, node: int) -> int:
    """Find the machine that follows ``node``, whose key is ``key``; -1 = none. To begin, pass -1 as both."""
    following, least = -1, 0
    for other in range(sim.world["nodes"]):
        rank = node_key(sim, gang, one_node, other)
        if (rank > key or (rank == key and other > node)) and (following < 0 or rank < least):
            following, least = other, rank
    return following


@kernel
def first_gpus_by_gangs(sim: Run, kind: int, gang: int) -> int:
    """Write free GPUs of the machines with the fewest gangs to ``chosen``; return ``gang``, or 0 = too few are free."""
    at, key, node = 0, -1, -1
    while at < gang:
        node = next_node(sim, gang, False, key, node)
        if node < 0:
            return 0
        key = node_key(sim, gang, False, node)
        if not unable(sim, kind, node):
            first = sim.nodes[node]["first_gpu"]
            for gpu in range(first, first + sim.nodes[node]["gpus"]):
                if at < gang and sim.holder[gpu] == FREE:
                    sim.chosen[at] = gpu
                    at += 1
    return at
