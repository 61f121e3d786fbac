"""What several models look at: the gangs on a gang's machine ports, and how many of them contend."""

from __future__ import annotations

from gpusched_env.core.handle import helper, kernel
from gpusched_env.core.state import Run

RAW, CLAMP, AFFINE = range(3)  # how a straddle count becomes effective contenders (K_MODES)


@kernel
def effective_contenders(sim: Run, straddling: int) -> float:
    """Effective contenders k of a straddle count (SJF-BCO, eq. 7; docs/network.md)."""
    w = sim.world
    if straddling == 0:
        return 1.0
    if w["k_mode"] == AFFINE:
        return 1.0 + w["xi1"] * (straddling - 1)
    k = w["xi1"] * straddling
    return max(1.0, k) if w["k_mode"] == CLAMP else k


@helper
def degradation(sim: Run, k: float) -> float:
    """How many times longer the bytes take with k effective contenders: f(k) = k + alpha (k - 1)."""
    return k + sim.world["alpha"] * (k - 1.0)


@kernel
def busiest_port(sim: Run, number: int) -> tuple[int, int]:
    """Look at a gang's machine ports: most gangs on one, and that port; -1 = it uses none."""
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
