"""The placement rules "count" and "spread": the lowest GPU ids, and one GPU from each machine in turn."""

from __future__ import annotations

from gpusched_env.core.handle import kernel
from gpusched_env.core.placement.rules import placement_rule
from gpusched_env.core.placement.taking import NO_LIMIT, take
from gpusched_env.core.state import Run


@kernel
def _lowest(sim: Run, gang: int, at: int, per_node: int) -> int:
    """Take GPUs from the nodes in order, at most ``per_node`` from each; repeat this until the gang is complete."""
    left = gang
    while left > 0:
        for node in range(sim.world["nodes"]):
            count = min(left, sim.free[node], per_node)
            if count > 0:
                at = take(sim, node, count, at)
                left -= count
    return at


@placement_rule("count", "first fit: the lowest free GPU ids, topology ignored", anywhere=True)
@kernel(lazy=True)
def place_by_count(sim: Run, at: int, kind: int, gang: int, supply: int) -> int:
    """Take the lowest free GPU ids."""
    return _lowest(sim, gang, at, NO_LIMIT)


@placement_rule("spread", "one GPU from each machine in turn, in machine order", anywhere=True)
@kernel(lazy=True)
def place_spread(sim: Run, at: int, kind: int, gang: int, supply: int) -> int:
    """Take one GPU from each machine in turn."""
    return _lowest(sim, gang, at, 1)
