"""GPUs or machines drawn at random (seeded)."""

from __future__ import annotations

from gpusched_env.core.handle import kernel
from gpusched_env.core.placement.rules import placement_rule
from gpusched_env.core.placement.taking import FREE, next_random, take, take_this
from gpusched_env.core.state import Run


@placement_rule("random", "free GPUs drawn uniformly (seeded)", anywhere=True)
@kernel(lazy=True)
def place_drawn(sim: Run, at: int, kind: int, gang: int, supply: int) -> int:
    """Selection sampling over the free GPUs in id order (Knuth, TAOCP 2, 3.4.2, algorithm S)."""
    left = gang
    seen_free = supply
    gpu = 0
    while left > 0:
        if sim.holder[gpu] == FREE:
            if next_random(sim) % seen_free < left:
                at = take_this(sim, gpu, at)
                left -= 1
            seen_free -= 1
        gpu += 1
    return at


@placement_rule(
    "random-servers", "machines drawn uniformly (seeded), one after the other, all their free GPUs", anywhere=True
)
@kernel(lazy=True)
def place_on_drawn_machines(sim: Run, at: int, kind: int, gang: int, supply: int) -> int:
    """Draw machines with free GPUs uniformly, one after the other, and take all that is free there."""
    left = gang
    while left > 0:
        with_room = 0
        for node in range(sim.world["nodes"]):
            if sim.free[node] > 0:
                with_room += 1
        skip = next_random(sim) % with_room
        node = 0
        while sim.free[node] == 0 or skip > 0:
            if sim.free[node] > 0:
                skip -= 1
            node += 1
        count = min(left, sim.free[node])
        at = take(sim, node, count, at)
        left -= count
    return at
