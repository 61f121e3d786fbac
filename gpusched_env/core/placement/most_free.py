"""The machine with the most free GPUs first."""

from __future__ import annotations

from gpusched_env.core.handle import kernel
from gpusched_env.core.placement.rules import placement_rule
from gpusched_env.core.placement.taking import most_free, take
from gpusched_env.core.state import Run


@placement_rule(
    "most-free", "all free GPUs of the machine with the most, then of the next, until the gang is whole", anywhere=True
)
@kernel(lazy=True)
def place_on_most_free(sim: Run, at: int, kind: int, gang: int, supply: int) -> int:
    """Take the free GPUs of the machine with the most, then of the next, until the gang is complete."""
    left = gang
    while left > 0:
        node = most_free(sim, 0, sim.world["nodes"])
        count = min(left, sim.free[node])
        at = take(sim, node, count, at)
        left -= count
    return at
