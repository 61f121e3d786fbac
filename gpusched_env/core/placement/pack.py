"""The placement rules "pack" and "rack": best fit on the tightest tier that has enough free GPUs."""

from __future__ import annotations

from gpusched_env.core.handle import kernel
from gpusched_env.core.placement.rules import placement_rule
from gpusched_env.core.placement.taking import best_fit, fill, most_free, take
from gpusched_env.core.state import Run


@kernel
def pack_within(sim: Run, gang: int, at: int, widest: int) -> int:
    """Place a gang by best fit on the tightest tier; ``widest``: 1 = at most one rack, 2 = the whole network."""
    node = best_fit(sim, 0, sim.world["nodes"], gang)
    if node >= 0:
        return take(sim, node, gang, at)
    first = sim.world["nodes"]
    last = first + sim.world["racks"]
    left = gang
    while left > 0:
        rack = best_fit(sim, first, last, left)
        if rack < 0:
            if widest < 2:
                return at
            rack = most_free(sim, first, last)
        count = min(left, sim.free[rack])
        begin = sim.racks[rack - first]["first_node"]
        end = begin + sim.racks[rack - first]["nodes"]
        at = fill(sim, begin, end, count, at)
        left -= count
    return at


@placement_rule(
    "pack",
    "best fit on the tightest tier that has room: a machine, else a rack, else anywhere, on few machines",
    anywhere=True,
)
@kernel(lazy=True)
def place_packed(sim: Run, at: int, kind: int, gang: int, supply: int) -> int:
    """Place a gang by best fit on the tightest tier that has enough free GPUs."""
    return pack_within(sim, gang, at, 2)


@placement_rule("rack", "best fit on one machine, else within one rack; else wait")
@kernel(lazy=True)
def place_in_rack(sim: Run, at: int, kind: int, gang: int, supply: int) -> int:
    """Place a gang by best fit on one machine, otherwise within one rack."""
    return pack_within(sim, gang, at, 1)
