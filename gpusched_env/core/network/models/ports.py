"""Kernels that several models share: the number of gangs on machine ports, and the effective contenders."""

from __future__ import annotations

from gpusched_env.core.handle import helper, kernel
from gpusched_env.core.state import Run

RAW, CLAMP, AFFINE = range(3)  # how a straddle count becomes effective contenders (K_MODES)


@kernel
def effective_contenders(sim: Run, straddling: int) -> float:
    """Return the number k of effective contenders of a straddle count (SJF-BCO, eq. 7; docs/network.md)."""
    w = sim.world
    if straddling == 0:
        return 1.0
    if w["k_mode"] == AFFINE:
        return 1.0 + w["xi1"] * (straddling - 1)
    k = w["xi1"] * straddling
    return max(1.0, k) if w["k_mode"] == CLAMP else k


@helper
def degradation(sim: Run, k: float) -> float:
    """Return the slowdown of transfers with k effective contenders: f(k) = k + alpha (k - 1)."""
    return k + sim.world["alpha"] * (k - 1.0)


@kernel
def busiest_port(sim: Run, number: int) -> tuple[int, int]:
    """Return the number of gangs on the busiest of a gang's machine ports, and its link; -1 = the gang uses no port."""
    most = 0
    port = -1
    use = sim.replicas[number]["first_use"]
    while use >= 0:
        link = sim.uses[use]["link"]
        if sim.links[link]["port"] > 0 and sim.links[link]["flows"] > most:
            most = sim.links[link]["flows"]
            port = link
        use = sim.uses[use]["next_of_replica"]
    return most, port
