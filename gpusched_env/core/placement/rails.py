"""The placement rule "rails": whole aligned blocks of GPUs, so that groups of ranks keep their domain and their rails.

A block has gcd(gang, GPUs of the machine) GPUs and begins at a multiple of its size. So a gang of several machines has
as many GPUs on each, as far as they are free, and GPU i of one machine talks to GPU i of another one: on one rail.
"""

from __future__ import annotations

from gpusched_env.core.handle import kernel
from gpusched_env.core.placement.rules import placement_rule
from gpusched_env.core.placement.taking import FREE, NO_LIMIT, packs_better, take_this
from gpusched_env.core.state import Run


@kernel
def _block(sim: Run, node: int, gang: int) -> int:
    """Return the GPUs of a block of a gang on a machine: their greatest common divisor."""
    size, rest = gang, sim.nodes[node]["gpus"]
    while rest > 0:
        size, rest = rest, size % rest
    return size


@kernel
def _blocks(sim: Run, node: int, gang: int, most: int, at: int) -> int:
    """Return the GPUs of the free blocks of a machine, at most ``most``; with ``at`` >= 0, also reserve them there."""
    size = _block(sim, node, gang)
    found = 0
    if sim.free[node] < size:
        return 0
    for first in range(sim.nodes[node]["first_gpu"], sim.nodes[node]["first_gpu"] + sim.nodes[node]["gpus"], size):
        is_free = found < most
        for gpu in range(first, first + size):
            is_free = is_free and sim.holder[gpu] == FREE
        if is_free:
            for gpu in range(first, first + min(size, most - found)):
                if at >= 0:
                    at = take_this(sim, gpu, at)
                found += 1
    return found


@kernel
def _room(sim: Run, begin: int, end: int, gang: int) -> int:
    """Add up the GPUs of the free blocks of ``nodes[begin:end]``."""
    room = 0
    for node in range(begin, end):
        room += _blocks(sim, node, gang, NO_LIMIT, -1)
    return room


@kernel
def _best(sim: Run, begin: int, end: int, gang: int, left: int) -> int:
    """Find the machine of ``nodes[begin:end]`` whose blocks hold ``left`` GPUs most tightly, else that with most."""
    best, most = begin, 0
    for node in range(begin, end):
        room = _blocks(sim, node, gang, NO_LIMIT, -1)
        if room > 0 and packs_better(room, most, left):
            best, most = node, room
    return best


@placement_rule(
    "rails",
    "aligned blocks, so that ranks keep their rails: best fit on one machine, else a rack, else few racks; else wait",
)
@kernel(lazy=True)
def place_on_rails(sim: Run, at: int, kind: int, gang: int, supply: int) -> int:
    """Place a gang in whole aligned blocks on the tightest tier that has enough of them."""
    nodes = sim.world["nodes"]
    if _room(sim, 0, nodes, gang) < gang:
        return at
    node = _best(sim, 0, nodes, gang, gang)
    if _blocks(sim, node, gang, gang, -1) == gang:
        return at + _blocks(sim, node, gang, gang, at)
    left = gang
    while left > 0:
        chosen, most = 0, 0
        for rack in range(sim.world["racks"]):
            first = sim.racks[rack]["first_node"]
            room = _room(sim, first, first + sim.racks[rack]["nodes"], gang)
            if room > 0 and packs_better(room, most, left):
                chosen, most = rack, room
        begin = sim.racks[chosen]["first_node"]
        end = begin + sim.racks[chosen]["nodes"]
        stop = left - min(left, most)
        while left > stop:
            taken = _blocks(sim, _best(sim, begin, end, gang, left - stop), gang, left - stop, at)
            at += taken
            left -= taken
    return at
