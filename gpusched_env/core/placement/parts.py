"""Gangs in parts that must not be split over machines (gpusched_env.problem.node_counts)."""

from __future__ import annotations

from typing import Final

from gpusched_env.core.handle import kernel
from gpusched_env.core.placement.taking import take, unreserve
from gpusched_env.core.state import Run

NONE: Final = -1  # after the last machine of a list
UNLISTED: Final = -2


@kernel(lazy=True)
def in_whole_parts(sim: Run, kind: int, begin: int, end: int) -> bool:
    """Return whether each machine of the gang ``chosen[begin:end]`` has whole parts of it, and not too many."""
    for i in range(begin, end):
        sim.nodes[sim.gpu_node[sim.chosen[i]]]["gangs"] = 0
    for i in range(begin, end):
        sim.nodes[sim.gpu_node[sim.chosen[i]]]["gangs"] += 1
    for i in range(begin, end):
        count = sim.nodes[sim.gpu_node[sim.chosen[i]]]["gangs"]
        if count % sim.parts[kind]["gpus"] > 0 or count > sim.parts[kind]["most"]:
            return False
    return True


@kernel(lazy=True)
def join_parts(sim: Run, begin: int, end: int) -> None:
    """Replace the reserved GPUs ``chosen[begin:end]`` by the lowest of the same machines, in the order of their first.

    Each machine gives all its free GPUs, as many as the gang still needs. They are whole parts if only whole parts of
    each machine appear to be free (:func:`~gpusched_env.core.placement.taking.hide_unusable`).
    """
    unreserve(sim, begin, end)
    for i in range(begin, end):
        sim.nodes[sim.gpu_node[sim.chosen[i]]]["following"] = UNLISTED
    first = sim.gpu_node[sim.chosen[begin]]
    last = first
    for i in range(begin, end):
        node = sim.gpu_node[sim.chosen[i]]
        if sim.nodes[node]["following"] == UNLISTED:
            sim.nodes[last]["following"] = node
            sim.nodes[node]["following"] = NONE
            last = node
    at, node = begin, first
    while at < end:
        at = take(sim, node, min(sim.free[node], end - at), at)
        node = sim.nodes[node]["following"]
