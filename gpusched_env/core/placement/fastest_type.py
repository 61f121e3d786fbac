"""Place the gang on GPUs of one type, the type on which it runs fastest now."""

from __future__ import annotations

import numpy as np

from gpusched_env.core.handle import kernel
from gpusched_env.core.placement.rules import placement_rule
from gpusched_env.core.placement.taking import packs_better, take
from gpusched_env.core.state import Run
from gpusched_env.problem.cluster import MACHINE, NETWORK


@kernel
def _fastest_type(sim: Run, kind: int, gang: int) -> int:
    """Find the GPU type on which a gang would run fastest now, with all its GPUs of this type.

    -1 = no type has enough free GPUs. If no machine of a type has room for the whole gang, the time of an iteration
    across racks is assumed for this type.
    """
    best = -1
    least = np.inf
    for gpu_type in range(sim.world["types"]):
        room = 0
        largest = 0
        for node in range(sim.world["nodes"]):
            if sim.nodes[node]["gpu_type"] == gpu_type:
                room += sim.free[node]
                largest = max(largest, sim.free[node])
        if room >= gang:
            tier = MACHINE if largest >= gang else NETWORK
            seconds = sim.paces[kind, tier, gpu_type]["iteration_s"]
            if seconds < least:
                least = seconds
                best = gpu_type
    return best


@placement_rule(
    "fastest-type", "GPUs of the one type on which the gang runs fastest now: best fit, else few machines; else wait"
)
@kernel(lazy=True)
def place_on_fastest_type(sim: Run, at: int, kind: int, gang: int, supply: int) -> int:
    """Place a gang on the type on which it runs fastest now, by best fit on one machine, otherwise on few machines."""
    gpu_type = _fastest_type(sim, kind, gang)
    left = gang if gpu_type >= 0 else 0
    while left > 0:
        best = -1
        for node in range(sim.world["nodes"]):
            room = sim.free[node]
            if (
                sim.nodes[node]["gpu_type"] == gpu_type
                and room > 0
                and (best < 0 or packs_better(room, sim.free[best], left))
            ):
                best = node
        count = min(left, sim.free[best])
        at = take(sim, best, count, at)
        left -= count
    return at
