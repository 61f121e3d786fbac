"""Max-min fair rates over all links; a gang is one flow, whose ring edges all have the same rate."""

from __future__ import annotations

import numpy as np

from gpusched_env.core.handle import helper, kernel
from gpusched_env.core.network.contention import OWN, contention_model
from gpusched_env.core.network.flows import iteration_at, list_flows_on
from gpusched_env.core.network.max_min import solve
from gpusched_env.core.state import Run

ALWAYS, CONST, DUTY_SOLO = range(3)  # the part of an iteration that contends (DUTIES)


@helper
def slowdown_of(sim: Run, number: int) -> float:
    """Return the slowdown of a gang's transfers by its max-min rate and the duty rule; 1 = no slowdown."""
    w = sim.world
    r = sim.replicas[number]
    if r["rate_Bps"] <= 0.0:
        return np.inf
    slowdown = max(r["solo_Bps"] / r["rate_Bps"], 1.0)
    if w["duty"] == CONST:
        return 1.0 + w["xi1"] * (slowdown - 1.0)
    if w["duty"] == DUTY_SOLO and r["bottleneck"] >= 0:
        # The other gangs on the bottleneck link send only while they communicate.
        duty = 0.0
        others = 0
        use = sim.links[r["bottleneck"]]["first_use"]
        while use >= 0:
            beside = sim.uses[use]["replica"]
            if beside != number:
                alone = iteration_at(sim, beside, 1.0)
                o = sim.replicas[beside]
                duty += (o["fixed_s"] + o["wire_bytes"] / o["solo_Bps"]) / alone
                others += 1
            use = sim.uses[use]["next_of_link"]
        if others > 0:
            return 1.0 + duty / others * (slowdown - 1.0)
    return slowdown


@kernel(lazy=True)
def solve_max_min(sim: Run) -> None:
    """Find the rates of all flows; with the duty rule "solo", list all gangs on changed links."""
    if sim.world["duty"] == DUTY_SOLO:
        for i in range(sim.world["changed"]):
            list_flows_on(sim, sim.links[i]["changed"])
    solve(sim)


@contention_model(
    "maxmin",
    "max-min fair rates over all links; a gang is one flow whose ring edges move in lock step",
    reach=OWN,
    solver=solve_max_min,
)
@kernel(lazy=True)
def price_max_min(sim: Run, number: int) -> None:
    """Set a gang's iteration time from its max-min rate, and the link that bounds the rate (ties: lowest row)."""
    r = sim.replicas[number]
    r["bottleneck"] = -1
    use = r["first_use"] if r["rate_Bps"] < r["solo_Bps"] else -1
    while use >= 0:
        link = sim.uses[use]["link"]
        if sim.links[link]["level"] == r["rate_Bps"] and (link < r["bottleneck"] or r["bottleneck"] < 0):
            r["bottleneck"] = link
        use = sim.uses[use]["next_of_replica"]
    if r["rate_Bps"] != r["priced_Bps"] or sim.world["duty"] == DUTY_SOLO:
        r["priced_Bps"] = r["rate_Bps"]
        slowdown = slowdown_of(sim, number)
        r["settled_s"] = iteration_at(sim, number, slowdown)
