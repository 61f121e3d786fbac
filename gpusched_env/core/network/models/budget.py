"""Contention and overhead share a budget of extra time (SJF-BCO, section 7)."""

from __future__ import annotations

from typing import Final

from gpusched_env.core.handle import kernel
from gpusched_env.core.network.contention import contention_model
from gpusched_env.core.network.flows import micro_s
from gpusched_env.core.network.models.ports import busiest_port, degradation, effective_contenders
from gpusched_env.core.state import Run
from gpusched_env.problem.cluster import MACHINE

BUDGET_MACHINES: Final = 8  # number of machines at which each half of the budget is used up


@kernel
def budget_used(sim: Run, straddling: int, machines: int) -> float:
    """Return the extra time of a gang / its compute time (SJF-BCO).

    Half of the budget is for contention, and half is for overhead.
    """
    w = sim.world
    if machines <= 1:
        return 0.0
    worst = degradation(sim, effective_contenders(sim, BUDGET_MACHINES)) - 1.0
    now = degradation(sim, effective_contenders(sim, straddling)) - 1.0
    contention = 0.5 * now / worst if worst > 0.0 else 0.0
    overhead = 0.5 * (machines - 1) / (BUDGET_MACHINES - 1)
    return min(1.0, contention + overhead) * w["extra"] / (1.0 - w["extra"])


@kernel(lazy=True)
def begin_budgeted(sim: Run, number: int, slowest: int) -> None:
    """Remove the communication of a gang, because the extra time is the whole cost of a placement."""
    r = sim.replicas[number]
    alone = sim.paces[r["job_class"], MACHINE, slowest]
    r["compute_s"] = micro_s(alone, r["compute_share"])
    r["fixed_s"] = 0.0
    r["wire_bytes"] = 0.0


@kernel(lazy=True)
def budgeted_alone_s(sim: Run, number: int) -> float:
    """Return the time of one iteration of a gang on its machines if no other gang used the network [s]."""
    r = sim.replicas[number]
    return r["compute_s"] * (1.0 + budget_used(sim, 1, r["machines"]))


@contention_model(
    "budget",
    "contention and overhead share a budget of extra time (SJF-BCO, section 7)",
    at_start=begin_budgeted,
    alone_s=budgeted_alone_s,
    keeps_idle_flows=True,
)
@kernel(lazy=True)
def price_by_budget(sim: Run, number: int) -> None:
    """Set a gang's iteration time by the number of gangs on its busiest port and the number of its machines."""
    r = sim.replicas[number]
    most, port = busiest_port(sim, number)
    r["bottleneck"] = port if most > 1 else -1
    r["settled_s"] = r["compute_s"] * (1.0 + budget_used(sim, most, r["machines"]))
