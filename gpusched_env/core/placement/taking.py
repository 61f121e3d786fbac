"""Building blocks of placement rules, which reserve and unreserve GPUs, find machines, and draw random numbers."""

from __future__ import annotations

from typing import Final

import numpy as np

from gpusched_env.core.handle import helper, kernel
from gpusched_env.core.state import Run
from gpusched_env.problem.cluster import MACHINE

FREE: Final = -1
RESERVED: Final = -2
UNUSABLE: Final = -3  # free, but on a machine on which the gang that is being placed cannot run
NO_LIMIT: Final = 2**31 - 1


@helper
def rack_place(sim: Run, node: int) -> int:
    """Return the index in ``free`` of the rack of a machine."""
    return sim.world["nodes"] + sim.nodes[node]["rack"]


@kernel
def take(sim: Run, node: int, count: int, at: int) -> int:
    """Reserve the ``count`` lowest free GPUs of a node; append them to ``chosen`` from ``at``; return the new end."""
    gpu = sim.nodes[node]["first_gpu"]
    left = count
    while left > 0:
        if sim.holder[gpu] == FREE:
            sim.holder[gpu] = RESERVED
            sim.chosen[at] = gpu
            at += 1
            left -= 1
        gpu += 1
    sim.free[node] -= count
    sim.free[rack_place(sim, node)] -= count
    return at


@kernel
def take_this(sim: Run, gpu: int, at: int) -> int:
    """Reserve a free GPU, and write it to ``chosen`` at index ``at``; return the new end."""
    node = sim.gpu_node[gpu]
    sim.holder[gpu] = RESERVED
    sim.chosen[at] = gpu
    sim.free[node] -= 1
    sim.free[rack_place(sim, node)] -= 1
    return at + 1


@kernel
def take_listed(sim: Run, begin: int, end: int) -> None:
    """Reserve the free GPUs ``chosen[begin:end]``."""
    for i in range(begin, end):
        take_this(sim, sim.chosen[i], i)


@kernel
def unreserve(sim: Run, begin: int, end: int) -> None:
    """Give back the reserved GPUs ``chosen[begin:end]``."""
    for i in range(begin, end):
        gpu = sim.chosen[i]
        node = sim.gpu_node[gpu]
        sim.holder[gpu] = FREE
        sim.free[node] += 1
        sim.free[rack_place(sim, node)] += 1


@helper
def is_closed(sim: Run, kind: int, node: int) -> bool:
    """Return whether a machine is outside the partition of a job class, or reserved for others now."""
    return sim.world["node_sets"] > 0 and sim.closed[sim.class_set[kind], node] > 0


@helper
def unable(sim: Run, kind: int, node: int) -> bool:
    """Return whether a job class cannot run on the GPU type of a machine, or must not use this machine."""
    if sim.world["types"] > 1 and sim.paces[kind, MACHINE, sim.nodes[node]["gpu_type"]]["iteration_s"] == np.inf:
        return True  # with one type, every job of an instance can run on it
    return is_closed(sim, kind, node)


@helper
def in_parts(sim: Run, kind: int) -> bool:
    """Return whether the gangs of a job class consist of parts, none of which may be split over machines."""
    return kind < sim.world["parted"] and sim.parts[kind]["gpus"] > 0


@helper
def room_of(sim: Run, kind: int, gpus: int) -> int:
    """Return how many of ``gpus`` GPUs of one machine a gang of a job class may use: whole parts, and not too many."""
    if gpus == 0 or not in_parts(sim, kind):
        return gpus
    part = sim.parts[kind]["gpus"]
    return min(gpus // part * part, sim.parts[kind]["most"])


@kernel(lazy=True)
def holds_gang(sim: Run, kind: int, gang: int) -> bool:
    """Return whether a gang of a job class may use as many free GPUs as it needs."""
    room = 0
    for node in range(sim.world["nodes"]):
        if sim.free[node] > 0 and not unable(sim, kind, node):
            room += room_of(sim, kind, sim.free[node])
            if room >= gang:
                return True
    return False


@helper
def unable_somewhere(sim: Run, kind: int) -> bool:
    """Return whether a job class must not use all free GPUs: on some type, on some machine, or beside its parts."""
    if in_parts(sim, kind):
        return True
    if sim.world["node_sets"] > 0:
        for node in range(sim.world["nodes"]):
            if is_closed(sim, kind, node):
                return True
    if sim.world["types"] == 1:  # every job of an instance can run on some type
        return False
    for gpu_type in range(sim.world["types"]):  # noqa: SIM110 - generators are not compiled
        if sim.paces[kind, MACHINE, gpu_type]["iteration_s"] == np.inf:
            return True
    return False


@kernel(lazy=True)
def hide_unusable(sim: Run, kind: int) -> int:
    """Make the free GPUs that a gang of a job class must not use appear held; return their number.

    They are those of machines on which it cannot run, whose ``taken`` becomes 1, and the highest of other machines: the
    rest of what whole parts leave.
    """
    hidden = 0
    for node in range(sim.world["nodes"]):
        shown = room_of(sim, kind, sim.free[node])
        if unable(sim, kind, node):
            sim.nodes[node]["taken"] = 1
            shown = 0
        surplus = sim.free[node] - shown
        if surplus > 0:
            sim.nodes[node]["hidden"] = surplus
            hidden += surplus
            sim.free[rack_place(sim, node)] -= surplus
            sim.free[node] = shown
            gpu = sim.nodes[node]["first_gpu"] + sim.nodes[node]["gpus"]
            while surplus > 0:
                gpu -= 1
                if sim.holder[gpu] == FREE:
                    sim.holder[gpu] = UNUSABLE
                    surplus -= 1
    return hidden


@kernel(lazy=True)
def show_unusable(sim: Run, kind: int) -> None:
    """Undo :func:`hide_unusable`."""
    for node in range(sim.world["nodes"]):
        if unable(sim, kind, node):
            sim.nodes[node]["taken"] = 0
        hidden = sim.nodes[node]["hidden"]
        if hidden > 0:
            sim.nodes[node]["hidden"] = 0
            sim.free[node] += hidden
            sim.free[rack_place(sim, node)] += hidden
            gpu = sim.nodes[node]["first_gpu"] + sim.nodes[node]["gpus"]
            while hidden > 0:
                gpu -= 1
                if sim.holder[gpu] == UNUSABLE:
                    sim.holder[gpu] = FREE
                    hidden -= 1


@kernel
def best_fit(sim: Run, begin: int, end: int, gang: int) -> int:
    """Find the entry of ``free[begin:end]`` with the fewest free GPUs that holds the gang; -1 = none."""
    best = -1
    least = NO_LIMIT
    for i in range(begin, end):
        if gang <= sim.free[i] < least:
            least = sim.free[i]
            best = i
            if least == gang:
                break
    return best


@kernel
def most_free(sim: Run, begin: int, end: int) -> int:
    """Find the entry of ``free[begin:end]`` with the most free GPUs."""
    best = begin
    for i in range(begin + 1, end):
        if sim.free[i] > sim.free[best]:
            best = i
    return best


@kernel
def next_random(sim: Run) -> int:
    """Draw an integer from 1 to 2**32 - 1 by Marsaglia's xorshift32; signed 64-bit words do not overflow here."""
    x = sim.world["random"]
    x ^= (x << 13) & 0xFFFFFFFF
    x ^= x >> 17
    x ^= (x << 5) & 0xFFFFFFFF
    sim.world["random"] = x
    return x


@kernel
def fill(sim: Run, begin: int, end: int, gang: int, at: int) -> int:
    """Reserve ``gang`` GPUs of ``nodes[begin:end]`` on few nodes: most free GPUs first, the last part by best fit."""
    left = gang
    while left > 0:
        node = best_fit(sim, begin, end, left)
        if node < 0:
            node = most_free(sim, begin, end)
        count = min(left, sim.free[node])
        at = take(sim, node, count, at)
        left -= count
    return at


@helper
def packs_better(room: int, than: int, left: int) -> bool:
    """Return whether a node with ``room`` free GPUs suits ``left`` GPUs better than a node with ``than`` free GPUs.

    The smallest number that is enough is best; if none is enough, the largest.
    """
    if room >= left:
        return than < left or room < than
    return than < left and room > than
