"""Whole machines of one rack (Tiresias' repository, switch.py)."""

from __future__ import annotations

from gpusched_env.core.handle import kernel
from gpusched_env.core.placement.rules import placement_rule
from gpusched_env.core.placement.taking import room_of, take
from gpusched_env.core.state import Run


@kernel
def _largest_machine(sim: Run, kind: int) -> int:
    """GPUs that the gang may use of the largest machine on which it can run [GPU]."""
    size = 0
    for node in range(sim.world["nodes"]):
        if sim.nodes[node]["taken"] == 0:
            size = max(size, room_of(sim, kind, sim.nodes[node]["gpus"]))
    return size


@kernel
def _yarn_node(sim: Run, begin: int, end: int, gang: int, size: int) -> int:
    """Find floor(g/G) entirely free machines of ``nodes[begin:end]``, and one more machine for the rest of the gang.

    Here g is the gang size and G = ``size`` the number of GPUs of a machine. Returns the machine for the rest, which is
    the first one with enough free GPUs; ``end`` = there is no rest; -1 = there are too few free machines.
    """
    whole = gang // size
    rest = gang - whole * size
    found = 0
    rest_node = -1
    for node in range(begin, end):
        if found < whole and sim.free[node] == size:
            found += 1
        elif rest_node < 0 and 0 < rest <= sim.free[node]:
            rest_node = node
    if found < whole:
        return -1
    return rest_node if rest > 0 else end


@placement_rule("yarn", "first fit: one machine, or whole machines plus one for the rest, all in one rack; else wait")
@kernel(lazy=True)
def place_like_yarn(sim: Run, at: int, kind: int, gang: int, supply: int) -> int:
    """First fit on one machine, or on whole machines and one for the rest in one rack (Tiresias' switch.py)."""
    size = _largest_machine(sim, kind)
    if gang <= size:
        for node in range(sim.world["nodes"]):
            if sim.free[node] >= gang:
                return take(sim, node, gang, at)
        return at
    for rack in range(sim.world["racks"]):
        begin = sim.racks[rack]["first_node"]
        end = begin + sim.racks[rack]["nodes"]
        rest_node = _yarn_node(sim, begin, end, gang, size)
        if rest_node >= 0:
            left = gang
            for node in range(begin, end):
                if node == rest_node:
                    at = take(sim, node, gang % size, at)
                elif left >= size and sim.free[node] == size:
                    at = take(sim, node, size, at)
                    left -= size
            return at
    return at
