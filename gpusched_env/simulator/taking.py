"""What placement rules are made of: taking GPUs of a machine and giving them back, fits, the random generator."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from gpusched_env.cluster import MACHINE
from gpusched_env.simulator.jit import helper, int64

FREE: Final = -1
RESERVED: Final = -2
UNUSABLE: Final = -3  # free, but of a type on which the gang that is being placed cannot run
NO_LIMIT: Final = 2**31 - 1

Array = np.ndarray[Any, Any]


@helper
def take(nodes: Array, free: Array, holder: Array, chosen: Array, b: int, node: int, count: int, at: int) -> int:
    """Reserve the ``count`` lowest free GPUs of a node, append them to ``chosen`` from ``at``; return the new end."""
    gpu = nodes[b, node]["first_gpu"]
    left = count
    while left > 0:
        if holder[b, gpu] == FREE:
            holder[b, gpu] = RESERVED
            chosen[b, at] = gpu
            at += 1
            left -= 1
        gpu += 1
    free[b, node] -= count
    free[b, nodes.shape[1] + nodes[b, node]["rack"]] -= count
    return at


@helper
def unreserve(
    nodes: Array, free: Array, holder: Array, gpu_node: Array, chosen: Array, b: int, begin: int, end: int
) -> None:
    """Give back the reserved GPUs ``chosen[begin:end]``."""
    for i in range(begin, end):
        gpu = chosen[b, i]
        node = gpu_node[b, gpu]
        holder[b, gpu] = FREE
        free[b, node] += 1
        free[b, nodes.shape[1] + nodes[b, node]["rack"]] += 1


@helper
def unable(paces: Array, b: int, kind: int, gpu_type: int) -> bool:
    """Tell whether a job class cannot run on a GPU type."""
    return paces[b, kind, MACHINE, gpu_type]["iteration_s"] == np.inf


@helper
def unable_somewhere(paces: Array, b: int, kind: int) -> bool:
    """Tell whether there is a GPU type on which a job class cannot run."""
    if paces.shape[3] == 1:  # no instance has a job that cannot run at all
        return False
    for gpu_type in range(paces.shape[3]):  # noqa: SIM110 - generators are not compiled
        if unable(paces, b, kind, gpu_type):
            return True
    return False


@helper
def hide_unusable(world: Array, nodes: Array, free: Array, holder: Array, paces: Array, b: int, kind: int) -> int:
    """Let the machines on which a job class cannot run look full, and marked (taken); return the free GPUs there."""
    hidden = 0
    for node in range(world[b]["nodes"]):
        if unable(paces, b, kind, int64(nodes[b, node]["gpu_type"])):
            nodes[b, node]["taken"] = 1
            hidden += free[b, node]
            free[b, nodes.shape[1] + nodes[b, node]["rack"]] -= free[b, node]
            free[b, node] = 0
            first = nodes[b, node]["first_gpu"]
            for gpu in range(first, first + nodes[b, node]["gpus"]):
                if holder[b, gpu] == FREE:
                    holder[b, gpu] = UNUSABLE
    return hidden


@helper
def show_unusable(world: Array, nodes: Array, free: Array, holder: Array, paces: Array, b: int, kind: int) -> None:
    """Undo :func:`hide_unusable`."""
    for node in range(world[b]["nodes"]):
        if unable(paces, b, kind, int64(nodes[b, node]["gpu_type"])):
            nodes[b, node]["taken"] = 0
            first = nodes[b, node]["first_gpu"]
            for gpu in range(first, first + nodes[b, node]["gpus"]):
                if holder[b, gpu] == UNUSABLE:
                    holder[b, gpu] = FREE
                    free[b, node] += 1
                    free[b, nodes.shape[1] + nodes[b, node]["rack"]] += 1


@helper
def best_fit(free: Array, b: int, begin: int, end: int, gang: int) -> int:
    """Find the entry of ``free[begin:end]`` with the fewest free GPUs that holds the gang; -1 = none."""
    best = -1
    least = NO_LIMIT
    for i in range(begin, end):
        if gang <= free[b, i] < least:
            least = free[b, i]
            best = i
            if least == gang:
                break
    return best


@helper
def most_free(free: Array, b: int, begin: int, end: int) -> int:
    """Find the entry of ``free[begin:end]`` with the most free GPUs."""
    best = begin
    for i in range(begin + 1, end):
        if free[b, i] > free[b, best]:
            best = i
    return best


@helper
def next_random(world: Array, b: int) -> int:
    """Draw from 1 .. 2**32-1 (Marsaglia's xorshift32; 64-bit signed words never overflow here)."""
    x = world[b]["random"]
    x ^= (x << 13) & 0xFFFFFFFF
    x ^= x >> 17
    x ^= (x << 5) & 0xFFFFFFFF
    world[b]["random"] = x
    return x
