"""The placement rule "rails": whole aligned blocks of GPUs, so that groups of ranks keep their domain and their rails.

A block has gcd(gang, GPUs of the machine) GPUs and begins at a multiple of its size; of a job that demands a number of
nodes, its part counts as the gang. So GPU i of one machine talks to GPU i of another one: on one rail. A gang of
several machines has as many GPUs on each, if enough are free.
"""

from __future__ import annotations

from gpusched_env.core.handle import helper, kernel
from gpusched_env.core.placement.rules import placement_rule
from gpusched_env.core.placement.taking import FREE, NO_LIMIT, RESERVED, in_parts, packs_better, take_this
from gpusched_env.core.state import Run


@helper
def _common(one: int, other: int) -> int:
    """Return the greatest common divisor of two numbers above 0."""
    while other > 0:
        one, other = other, one % other
    return one


@kernel
def _blocks(sim: Run, node: int, unit: int, most: int, at: int) -> int:
    """Return the GPUs of the free blocks of a machine, at most ``most``; with ``at`` >= 0, also reserve them there."""
    begin, end = sim.nodes[node]["first_gpu"], sim.nodes[node]["first_gpu"] + sim.nodes[node]["gpus"]
    size = _common(unit, sim.nodes[node]["gpus"])
    found = 0
    if sim.free[node] < size:
        return 0
    if at < 0 and most < NO_LIMIT:  # the gang may have got GPUs here already
        for gpu in range(begin, end):
            most -= sim.holder[gpu] == RESERVED
    for first in range(begin, end, size):
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
def _room(sim: Run, begin: int, end: int, unit: int, most: int) -> int:
    """Add up the GPUs of the free blocks of ``nodes[begin:end]``, at most ``most`` of each."""
    room = 0
    for node in range(begin, end):
        room += _blocks(sim, node, unit, most, -1)
    return room


@kernel
def _best(sim: Run, begin: int, end: int, unit: int, left: int, most: int) -> int:
    """Find the machine of ``nodes[begin:end]`` whose blocks hold ``left`` GPUs most tightly, else that with most."""
    best, best_room = begin, 0
    for node in range(begin, end):
        room = _blocks(sim, node, unit, most, -1)
        if room > 0 and packs_better(room, best_room, left):
            best, best_room = node, room
    return best


@kernel
def _even_share(sim: Run, gang: int) -> int:
    """Return the GPUs of a gang on each of as few of the largest machines as hold it, rounded up to whole blocks."""
    machines = -(-gang // sim.world["node_gpus"])
    share = -(-gang // machines)
    block = _common(gang, sim.world["node_gpus"])
    return -(-share // block) * block


@placement_rule(
    "rails",
    "aligned blocks, so that ranks keep their rails: best fit on one machine, else a rack, else few racks; else wait",
)
@kernel(lazy=True)
def place_on_rails(sim: Run, at: int, kind: int, gang: int, supply: int) -> int:
    """Place a gang in whole aligned blocks on the tightest tier that has enough of them."""
    nodes = sim.world["nodes"]
    unit = sim.parts[kind]["gpus"] if in_parts(sim, kind) else gang  # no more of a machine may be visible
    most = _even_share(sim, gang)
    if _room(sim, 0, nodes, unit, most) < gang:
        most = NO_LIMIT
    if most == NO_LIMIT and _room(sim, 0, nodes, unit, most) < gang:
        return at
    node = _best(sim, 0, nodes, unit, gang, NO_LIMIT)
    if _blocks(sim, node, unit, gang, -1) == gang:
        return at + _blocks(sim, node, unit, gang, at)
    left = gang
    while left > 0:
        chosen, room_there = 0, 0
        for rack in range(sim.world["racks"]):
            first = sim.racks[rack]["first_node"]
            room = _room(sim, first, first + sim.racks[rack]["nodes"], unit, most)
            if room > 0 and packs_better(room, room_there, left):
                chosen, room_there = rack, room
        begin = sim.racks[chosen]["first_node"]
        end = begin + sim.racks[chosen]["nodes"]
        stop = left - min(left, room_there)
        while left > stop:
            node = _best(sim, begin, end, unit, left - stop, most)
            taken = _blocks(sim, node, unit, min(left - stop, _blocks(sim, node, unit, most, -1)), at)
            at += taken
            left -= taken
    return at
