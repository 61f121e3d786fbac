"""Orders of machines in the authors' code of SJF-BSBF, by free GPUs and gangs (docs/sjf_bsbf.md)."""

from __future__ import annotations

from gpusched_env.core.handle import kernel
from gpusched_env.core.placement.taking import FREE, unable
from gpusched_env.core.state import Run


@kernel
def count_gangs(sim: Run) -> None:
    """Note in ``nodes.gangs`` how many gangs hold GPUs of each machine."""
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
    """Rank a machine, the smallest first; equal ones by index.

    ``one_node``: the fewest free GPUs that hold the gang, then most free GPUs, then fewest gangs; else fewest gangs.
    """
    gangs = sim.nodes[node]["gangs"]
    if not one_node:
        return gangs
    most = sim.world["node_gpus"]
    left_over = sim.free[node] - gang if sim.free[node] >= gang else most
    return (left_over * (most + 1) + most - sim.free[node]) * (most * sim.world["gpu_jobs"] + 1) + gangs


@kernel
def next_node(sim: Run, gang: int, one_node: bool, key: int, node: int) -> int:
    """Find the machine that follows ``node`` of rank ``key``; -1 = none. Begin with key -1."""
    following, least = -1, 0
    for other in range(sim.world["nodes"]):
        rank = node_key(sim, gang, one_node, other)
        if (rank > key or (rank == key and other > node)) and (following < 0 or rank < least):
            following, least = other, rank
    return following


@kernel
def first_gpus_by_gangs(sim: Run, kind: int, gang: int) -> int:
    """Write the first free GPUs of the machines with the fewest gangs to ``chosen``; return their number, 0 or all."""
    at, key, node = 0, -1, -1
    while at < gang:
        node = next_node(sim, gang, False, key, node)
        if node < 0:
            return 0
        key = node_key(sim, gang, False, node)
        if not unable(sim, kind, sim.nodes[node]["gpu_type"]):
            first = sim.nodes[node]["first_gpu"]
            for gpu in range(first, first + sim.nodes[node]["gpus"]):
                if at < gang and sim.holder[gpu] == FREE:
                    sim.chosen[at] = gpu
                    at += 1
    return at
