"""A gang that shares a machine with another multi-machine gang loses a fixed share of its rate (Pollux)."""

from __future__ import annotations

from gpusched_env.core.handle import kernel
from gpusched_env.core.network.contention import contention_model
from gpusched_env.core.network.flows import iteration_at
from gpusched_env.core.network.models.ports import busiest_port
from gpusched_env.core.state import Run


@contention_model(
    "flat", "a gang that shares a machine with another multi-machine gang loses a fixed share of its rate (Pollux)"
)
@kernel(lazy=True)
def price_flat(sim: Run, number: int) -> None:
    """Set a gang's iteration time by whether another gang uses one of its ports."""
    r = sim.replicas[number]
    most, port = busiest_port(sim, number)
    r["bottleneck"] = port if most > 1 else -1
    lost = sim.world["shared_loss"] if most > 1 else 0.0
    r["settled_s"] = iteration_at(sim, number, 1.0) / (1.0 - lost)
