"""Copies of the gang on several machines (HadarE)."""

from __future__ import annotations

from gpusched_env.core.handle import kernel
from gpusched_env.core.placement.rules import placement_rule
from gpusched_env.core.placement.taking import take
from gpusched_env.core.state import Run


@placement_rule(
    "fork", "a copy of the gang on each machine that has room, in machine order, `max_copies` at most; else wait"
)
@kernel(lazy=True)
def place_copies(sim: Run, at: int, kind: int, gang: int, supply: int) -> int:
    """Place one copy of the gang on each machine that has room, in machine order, at most ``max_copies`` of them."""
    left = sim.world["max_copies"]
    for node in range(sim.world["nodes"]):
        if left > 0 and sim.free[node] >= gang:
            at = take(sim, node, gang, at)
            left -= 1
    return at
