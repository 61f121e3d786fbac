"""The tier of a placement multiplies the time of the whole iteration; other gangs have no effect (Themis)."""

from __future__ import annotations

from gpusched_env.core.handle import kernel
from gpusched_env.core.network.contention import contention_model
from gpusched_env.core.network.flows import micro_s
from gpusched_env.core.network.models.ports import busiest_port
from gpusched_env.core.state import Run


@kernel(lazy=True)
def begin_stretched(sim: Run, number: int, slowest: int) -> None:
    """Remove the communication of a gang, because its iteration time already includes the effect of the tier."""
    r = sim.replicas[number]
    r["compute_s"] = micro_s(sim.paces[r["job_class"], r["tier"], slowest], r["compute_share"])
    r["fixed_s"] = 0.0
    r["wire_bytes"] = 0.0


@contention_model(
    "tiers",
    "each tier stretches the whole iteration by network.tier_slowdown, with or without other gangs (Themis)",
    at_start=begin_stretched,
)
@kernel(lazy=True)
def price_stretched(sim: Run, number: int) -> None:
    """Set ``bottleneck`` to the busiest port if other gangs use it too; the rate does not change."""
    most, port = busiest_port(sim, number)
    sim.replicas[number]["bottleneck"] = port if most > 1 else -1
