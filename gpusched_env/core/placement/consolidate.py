"""The placement rule "consolidate": as few machines as the gang would need in the empty cluster."""

from __future__ import annotations

from gpusched_env.core.handle import kernel
from gpusched_env.core.placement.rules import placement_rule
from gpusched_env.core.placement.taking import fill, room_of
from gpusched_env.core.state import Run


@kernel
def _fewest_machines(sim: Run, kind: int, gang: int) -> int:
    """Count the machines that a gang needs on the empty cluster, largest first, among those on which it can run."""
    size = room_of(sim, kind, sim.world["node_gpus"])
    machines = 0
    left = gang
    while left > 0:
        for node in range(sim.world["nodes"]):
            if room_of(sim, kind, sim.nodes[node]["gpus"]) == size and sim.nodes[node]["taken"] == 0:
                left -= size
                machines += 1
                if left <= 0:
                    break
        size -= 1
    return machines


@kernel
def _most_free_of(sim: Run, begin: int, end: int, machines: int, most: int) -> int:
    """Add up the ``machines`` >= 1 largest numbers of free GPUs in ``nodes[begin:end]``; none is above ``most``."""
    total = 0
    if machines == 1:
        for node in range(begin, end):
            total = max(total, sim.free[node])
        return total
    left = machines
    for count in range(most, 0, -1):
        for node in range(begin, end):
            if sim.free[node] == count:
                total += count
                left -= 1
                if left == 0:
                    return total
    return total


@placement_rule("consolidate", "as few machines as on the empty cluster, in one rack if possible; else wait")
@kernel(lazy=True)
def place_consolidated(sim: Run, at: int, kind: int, gang: int, supply: int) -> int:
    """Place a gang on as few machines as it would need in the empty cluster.

    The machines are in the first rack that has enough, otherwise in several racks.
    """
    machines = _fewest_machines(sim, kind, gang)
    most = sim.world["node_gpus"]
    for rack in range(sim.world["racks"]):
        begin = sim.racks[rack]["first_node"]
        end = begin + sim.racks[rack]["nodes"]
        if sim.free[sim.world["nodes"] + rack] >= gang and _most_free_of(sim, begin, end, machines, most) >= gang:
            return fill(sim, begin, end, gang, at)
    if _most_free_of(sim, 0, sim.world["nodes"], machines, most) >= gang:
        return fill(sim, 0, sim.world["nodes"], gang, at)
    return at
