"""The contention models of the package, by their names in CONTENTION_MODELS; each is registered on import."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from gpusched_env.core.handle import helper, kernel
from gpusched_env.core.network.contention import OWN, contention_model
from gpusched_env.core.network.flows import iteration_at, list_flows_on, micro_s
from gpusched_env.core.network.max_min import solve
from gpusched_env.core.network.priorities import CONST, DUTY_SOLO, solve_priorities
from gpusched_env.core.state import Run
from gpusched_env.network.contention import CONTENTION_MODELS
from gpusched_env.problem.cluster import MACHINE

RAW, CLAMP, AFFINE = range(3)  # how a straddle count becomes effective contenders (K_MODES)
BUDGET_MACHINES: Final = 8  # number of machines at which each half of the budget is used up


def _model(name: str, **options: Any) -> Callable[[Any], Any]:
    return contention_model(name, CONTENTION_MODELS[name], **options)


@_model("none", reach=OWN)
@kernel(lazy=True)
def price_alone(sim: Run, number: int) -> None:
    """Do nothing, because the iteration time was computed at the start of the gang."""


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


@_model("maxmin", reach=OWN, solver=solve_max_min)
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


@_model("strict-priority", reach=OWN, solver=solve_priorities)
@kernel(lazy=True)
def price_by_priority(sim: Run, number: int) -> None:
    """Set a gang's iteration time from the rate that higher levels leave to it."""
    r = sim.replicas[number]
    r["settled_s"] = iteration_at(sim, number, r["solo_Bps"] / r["rate_Bps"] if r["rate_Bps"] > 0.0 else np.inf)


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


@helper
def mark_busiest_port(sim: Run, number: int) -> int:
    """Set ``bottleneck`` to a gang's busiest port if other gangs use it too; return the number of gangs there."""
    most, port = busiest_port(sim, number)
    sim.replicas[number]["bottleneck"] = port if most > 1 else -1
    return most


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


@_model("kway")
@kernel(lazy=True)
def price_by_straddling(sim: Run, number: int) -> None:
    """Set a gang's iteration time by the number of gangs on its busiest port (SJF-BCO, eq. 7)."""
    r = sim.replicas[number]
    slowdown = degradation(sim, effective_contenders(sim, mark_busiest_port(sim, number)))
    r["rate_Bps"] = r["solo_Bps"] / slowdown
    r["settled_s"] = iteration_at(sim, number, slowdown)


@_model("flat")
@kernel(lazy=True)
def price_flat(sim: Run, number: int) -> None:
    """Set a gang's iteration time by whether another gang uses one of its ports."""
    lost = sim.world["shared_loss"] if mark_busiest_port(sim, number) > 1 else 0.0
    sim.replicas[number]["settled_s"] = iteration_at(sim, number, 1.0) / (1.0 - lost)


@_model("table")
@kernel(lazy=True)
def price_by_pairs(sim: Run, number: int) -> None:
    """Set a gang's iteration time by the lowest ratio over the gangs on its ports."""
    r = sim.replicas[number]
    most = 0
    ratio = 1.0
    port = -1
    use = r["first_use"]
    while use >= 0:
        link = sim.uses[use]["link"]
        if sim.links[link]["port"] > 0:
            if sim.links[link]["flows"] > most:
                most = sim.links[link]["flows"]
                port = link
            other = sim.links[link]["first_use"]
            while other >= 0:
                beside = sim.uses[other]["replica"]
                if beside != number:
                    found = sim.ratios[r["profile"], sim.replicas[beside]["profile"]]
                    if found < ratio:
                        ratio = found
                        port = link
                other = sim.uses[other]["next_of_link"]
        use = sim.uses[use]["next_of_replica"]
    r["bottleneck"] = port if most > 1 else -1
    r["settled_s"] = iteration_at(sim, number, 1.0) / ratio


@helper
def pay_by_compute(sim: Run, number: int, tier: int, slowest: int) -> None:
    """Count the iteration of a gang on a tier as compute, and remove its communication."""
    r = sim.replicas[number]
    r["compute_s"] = micro_s(sim.paces[r["job_class"], tier, slowest], r["compute_share"])
    r["fixed_s"] = 0.0
    r["wire_bytes"] = 0.0


@kernel
def budget_used(sim: Run, straddling: int, machines: int) -> float:
    """Return the extra time of a gang / its compute time (SJF-BCO, section 7).

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
    pay_by_compute(sim, number, MACHINE, slowest)


@kernel(lazy=True)
def budgeted_alone_s(sim: Run, number: int) -> float:
    """Return the time of one iteration of a gang on its machines if no other gang used the network [s]."""
    r = sim.replicas[number]
    return r["compute_s"] * (1.0 + budget_used(sim, 1, r["machines"]))


@_model("budget", at_start=begin_budgeted, alone_s=budgeted_alone_s, keeps_idle_flows=True)
@kernel(lazy=True)
def price_by_budget(sim: Run, number: int) -> None:
    """Set a gang's iteration time by the number of gangs on its busiest port and the number of its machines."""
    r = sim.replicas[number]
    most = mark_busiest_port(sim, number)
    r["settled_s"] = r["compute_s"] * (1.0 + budget_used(sim, most, r["machines"]))


@kernel(lazy=True)
def begin_stretched(sim: Run, number: int, slowest: int) -> None:
    """Remove the communication of a gang, because its iteration time already includes the effect of the tier."""
    pay_by_compute(sim, number, sim.replicas[number]["tier"], slowest)


@_model("tiers", at_start=begin_stretched)
@kernel(lazy=True)
def price_stretched(sim: Run, number: int) -> None:
    """Set ``bottleneck``; the rate does not change."""
    mark_busiest_port(sim, number)
