"""Placement where the fewest gangs share ports and uplinks (SJF-BCO, eq. 6)."""

from __future__ import annotations

from gpusched_env.core.handle import kernel
from gpusched_env.core.placement.rules import placement_rule
from gpusched_env.core.placement.taking import NO_LIMIT, best_fit, packs_better, take
from gpusched_env.core.state import Run


@kernel
def _fill_quietest(sim: Run, begin: int, end: int, gang: int, at: int) -> int:
    """Reserve ``gang`` GPUs of ``nodes[begin:end]``, on machines with the fewest gangs on their ports; ties: best fit.

    The number of gangs whose rings cross the port of a machine is the straddle count of SJF-BCO (eq. 6).
    """
    left = gang
    while left > 0:
        chosen_node = -1
        least = NO_LIMIT
        for node in range(begin, end):
            room = sim.free[node]
            flows = sim.links[sim.nodes[node]["out"]]["flows"]
            if room > 0 and (flows < least or (flows == least and packs_better(room, sim.free[chosen_node], left))):
                least = flows
                chosen_node = node
        count = min(left, sim.free[chosen_node])
        at = take(sim, chosen_node, count, at)
        left -= count
    return at


@kernel
def _busiest_port(sim: Run, begin: int, end: int, gang: int) -> int:
    """Count the gangs on the busiest port that :func:`_fill_quietest` would use; the machines have enough room."""
    load = 0
    while True:
        room = 0
        following = NO_LIMIT
        for node in range(begin, end):
            flows = sim.links[sim.nodes[node]["out"]]["flows"]
            if flows <= load:
                room += sim.free[node]
            else:
                following = min(following, flows)
        if room >= gang:
            return load
        load = following


@kernel
def _on_uplink(sim: Run, rack: int) -> int:
    """Count the gangs on the link out of a rack, all parallel links together; 0 if there is no link."""
    first = sim.racks[rack]["uplink"]
    if first < 0:
        return 0
    flows = 0
    for link in range(first, first + sim.links[first]["members"]):
        flows += sim.links[link]["flows"]
    return flows


@placement_rule(
    "contention",
    "best fit on one machine, else the rack or racks where the fewest gangs share its ports and uplinks",
    anywhere=True,
)
@kernel(lazy=True)
def place_by_contention(sim: Run, at: int, kind: int, gang: int, supply: int) -> int:
    """Place a gang where few gangs share ports and uplinks.

    The rule uses best fit on one machine if possible, otherwise the rack with the least busy ports, otherwise the racks
    with the least busy uplinks.
    """
    node = best_fit(sim, 0, sim.world["nodes"], gang)
    if node >= 0:
        return take(sim, node, gang, at)
    first = sim.world["nodes"]
    only = -1
    least = NO_LIMIT
    for rack in range(sim.world["racks"]):
        room = sim.free[first + rack]
        if room >= gang:
            begin = sim.racks[rack]["first_node"]
            load = _busiest_port(sim, begin, begin + sim.racks[rack]["nodes"], gang)
            if load < least or (load == least and room < sim.free[first + only]):
                least = load
                only = rack
    left = gang
    while left > 0:
        rack = only
        if only < 0:
            least = NO_LIMIT
            for other in range(sim.world["racks"]):
                room = sim.free[first + other]
                load = _on_uplink(sim, other)
                if room > 0 and (load < least or (load == least and packs_better(room, sim.free[first + rack], left))):
                    least = load
                    rack = other
        count = min(left, sim.free[first + rack])
        begin = sim.racks[rack]["first_node"]
        end = begin + sim.racks[rack]["nodes"]
        at = _fill_quietest(sim, begin, end, count, at)
        left -= count
    return at
