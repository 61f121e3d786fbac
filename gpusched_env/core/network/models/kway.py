"""Transfers take k + alpha (k - 1) times as long, k = effective contenders (SJF-BCO)."""

from __future__ import annotations

from gpusched_env.core.handle import kernel
from gpusched_env.core.network.contention import contention_model
from gpusched_env.core.network.flows import iteration_at
from gpusched_env.core.network.models.ports import busiest_port, degradation, effective_contenders
from gpusched_env.core.state import Run


@contention_model(
    "kway", "transfers take k + alpha (k - 1) times as long; k: gangs that straddle a server (SJF-BCO, Wang et al.)"
)
@kernel(lazy=True)
def price_by_straddling(sim: Run, number: int) -> None:
    """Set a gang's iteration time by the number of gangs on its busiest port (SJF-BCO, eq. 7)."""
    r = sim.replicas[number]
    most, port = busiest_port(sim, number)
    r["bottleneck"] = port if most > 1 else -1
    slowdown = degradation(sim, effective_contenders(sim, most))
    r["rate_Bps"] = r["solo_Bps"] / slowdown
    r["settled_s"] = iteration_at(sim, number, slowdown)
