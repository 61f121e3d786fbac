"""Contention: compute the rates of gangs that share links when flows have begun or ended ("settling" of rates)."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from gpusched_env.core.handle import helper, kernel
from gpusched_env.core.network import models  # noqa: F401 - registers them
from gpusched_env.core.network.contention import alone, price, solve
from gpusched_env.core.network.flows import iteration_at, list_flows_on
from gpusched_env.core.state import Run

SLOT_SLACK: Final = 1e-9  # [slot] tolerance: by rounding, work may end this much after the end of its slot


@helper
def settle(sim: Run) -> None:
    """Compute the rates of all gangs from the present flows; gangs run at their old rates until time moves.

    The result depends only on the flows, and not on how often this function was called before.
    """
    if sim.world["changed"] > 0 or sim.world["listed"] > 0:
        settle_flows(sim)


@kernel(lazy=True)
def settle_flows(sim: Run) -> None:
    """Compute the iteration times of the gangs that the changed flows may affect, with the contention model."""
    w = sim.world
    model = w["contention"]
    flags = sim.models[model]
    if flags["solves"] > 0:
        solve(model, sim)
    for i in range(w["changed"]):
        link = sim.links[i]["changed"]
        sim.links[link]["is_changed"] = 0
        if flags["reaches_ports"] > 0 and sim.links[link]["port"] > 0:
            list_flows_on(sim, link)
    w["changed"] = 0
    for i in range(w["listed"]):
        number = sim.replicas[i]["listed"]
        sim.replicas[number]["is_listed"] = 0
        price(model, sim, number)
    w["listed"] = 0
    w["uncommitted"] = 1


@kernel(lazy=True)
def alone_s(sim: Run, number: int) -> float:
    """Return the time of one iteration of a gang on its GPUs if no other gang used the network [s]."""
    model = sim.world["contention"]
    return alone(model, sim, number) if sim.models[model]["is_own_alone"] > 0 else iteration_at(sim, number, 1.0)


@helper
def whole_iterations(sim: Run, iteration_s: float) -> float:
    """Return the time of one iteration if only whole iterations count in each time slot [s].

    inf = a slot is too short for one iteration.
    """
    slot = sim.world["slot_s"]
    if slot == 0.0 or iteration_s == np.inf:
        return iteration_s
    count = math.floor(slot / iteration_s)
    return slot / count if count > 0 else np.inf


@helper
def beside_company(sim: Run, number: int) -> float:
    """Return the time of one iteration at the settled rate [s], with all sub-steps and the co-located gangs."""
    r = sim.replicas[number]
    return (r["settled_s"] + r["accumulation_s"]) * r["slowdown"]


@helper
def finish_time(sim: Run, since_s: float, remaining: float, iteration_s: float) -> float:
    """Return the time at which the remaining work is done [s]; with time slots, the end of that slot.

    With steps, the lengths of the steps are added one by one, as in a simulator that proceeds step by step. Times that
    are computed from the ends of steps, such as the end of a lease, must agree with such a simulator to the last bit.
    """
    slot = sim.world["slot_s"]
    step = sim.world["step_iterations"]
    if step > 0.0 and sim.world["contention"] == 0:
        step_s = iteration_s * step
        while remaining >= step:
            since_s += step_s
            remaining -= step
    done_s = since_s + remaining * iteration_s if remaining > 0.0 else since_s
    if slot == 0.0 or done_s == np.inf:
        return done_s
    return max(math.ceil(done_s / slot - SLOT_SLACK) * slot, since_s)
