"""Contention: the rates of all gangs that share links, settled anew where flows have begun or ended."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from gpusched_env.core.handle import helper, kernel
from gpusched_env.core.network.flows import (
    BUDGET,
    BUDGET_MACHINES,
    FLAT,
    KWAY,
    MAXMIN,
    SOLO,
    TABLE,
    iteration_at,
    list_flow,
)
from gpusched_env.core.network.max_min import solve
from gpusched_env.core.state import Run

RAW, CLAMP, AFFINE = range(3)  # how a straddle count becomes effective contenders (K_MODES)
ALWAYS, CONST, DUTY_SOLO = range(3)  # what part of an iteration contends (DUTIES)
SLOT_SLACK: Final = 1e-9  # [slot] by which rounding may put work beyond the slot that it ends in


@kernel
def effective_contenders(sim: Run, straddling: int) -> float:
    """Effective contenders k of a straddle count (sjf_bco.md, eq. 7 and network.md 3.3)."""
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
def neighbours(sim: Run, number: int) -> tuple[int, float, int]:
    """Look at a gang's machine ports: most gangs on one, lowest ratio beside another gang, and that port."""
    r = sim.replicas[number]
    most = 0
    ratio = 1.0
    port = -1
    use = r["first_use"]
    while use >= 0:
        link = sim.uses[use]["link"]
        if sim.links[link]["port"]:
            if sim.links[link]["flows"] > most:
                most = sim.links[link]["flows"]
                port = link
            if sim.world["contention"] == TABLE:
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
    return most, ratio, port


@kernel
def slowdown_of(sim: Run, number: int) -> float:
    """How many times longer a gang's bytes take than alone, by its max-min rate and the duty rule."""
    w = sim.world
    r = sim.replicas[number]
    if r["rate_Bps"] <= 0.0:
        return np.inf
    slowdown = max(r["solo_Bps"] / r["rate_Bps"], 1.0)
    if w["duty"] == CONST:
        return 1.0 + w["xi1"] * (slowdown - 1.0)
    if w["duty"] == DUTY_SOLO and r["bottleneck"] >= 0:
        # the others on the bottleneck send only during their communication
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


@kernel
def budget_used(sim: Run, straddling: int, machines: int) -> float:
    """Extra time of a gang over its compute: half for contention, half for overhead (sjf_bco.md section 5, budget)."""
    w = sim.world
    if machines <= 1:
        return 0.0
    worst = degradation(sim, effective_contenders(sim, BUDGET_MACHINES)) - 1.0
    now = degradation(sim, effective_contenders(sim, straddling)) - 1.0
    contention = 0.5 * now / worst if worst > 0.0 else 0.0
    overhead = 0.5 * (machines - 1) / (BUDGET_MACHINES - 1)
    return min(1.0, contention + overhead) * w["extra"] / (1.0 - w["extra"])


@kernel
def alone_s(sim: Run, number: int) -> float:
    """Seconds of one iteration of a gang on its GPUs if no other gang used the network [s]."""
    r = sim.replicas[number]
    if sim.world["contention"] == BUDGET:
        return r["compute_s"] * (1.0 + budget_used(sim, 1, r["machines"]))
    return iteration_at(sim, number, 1.0)


@kernel
def price_max_min(sim: Run, number: int) -> None:
    """Set a gang's iteration, and the link that holds it (of several the first), by its max-min rate."""
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


@kernel
def price_by_machines(sim: Run, number: int) -> None:
    """Set a gang's iteration, and the port that slows it down, by the gangs on its machines."""
    model = sim.world["contention"]
    r = sim.replicas[number]
    most, ratio, port = neighbours(sim, number)
    r["bottleneck"] = port if most > 1 else -1
    if model == KWAY:
        slowdown = degradation(sim, effective_contenders(sim, most))
        r["rate_Bps"] = r["solo_Bps"] / slowdown
        r["settled_s"] = iteration_at(sim, number, slowdown)
    elif model == FLAT:
        r["settled_s"] = iteration_at(sim, number, 1.0) / (1.0 - sim.world["shared_loss"] * (most > 1))
    elif model == TABLE:
        r["settled_s"] = iteration_at(sim, number, 1.0) / ratio
    elif model == BUDGET:
        r["settled_s"] = r["compute_s"] * (1.0 + budget_used(sim, most, r["machines"]))


@kernel
def list_gangs(sim: Run) -> None:
    """List the gangs on all changed links, or, if only gangs on the same machine count, on changed ports."""
    w = sim.world
    for i in range(w["changed"]):
        link = sim.links[i]["changed"]
        use = sim.links[link]["first_use"] if w["contention"] == MAXMIN or sim.links[link]["port"] else -1
        while use >= 0:
            list_flow(sim, sim.uses[use]["replica"])
            use = sim.uses[use]["next_of_link"]


@kernel
def settle(sim: Run) -> None:
    """Find the rates under the flows as they are now; gangs go on at their old rates until time moves.

    The result depends on the flows alone, not on how often it was asked for in between.
    """
    w = sim.world
    if w["changed"] == 0 and w["listed"] == 0:
        return
    model = w["contention"]
    if model != SOLO and (model != MAXMIN or w["duty"] == DUTY_SOLO):
        list_gangs(sim)
    if model == MAXMIN:
        solve(sim)
    else:
        for i in range(w["changed"]):
            sim.links[sim.links[i]["changed"]]["is_changed"] = 0
        w["changed"] = 0
    for i in range(w["listed"]):
        number = sim.replicas[i]["listed"]
        sim.replicas[number]["is_listed"] = 0
        if model == MAXMIN:
            price_max_min(sim, number)
        elif model != SOLO:
            price_by_machines(sim, number)
    w["listed"] = 0
    w["uncommitted"] = 1


@kernel
def whole_iterations(sim: Run, iteration_s: float) -> float:
    """Seconds of one iteration if only whole iterations count in each slot [s]; inf if a slot holds none."""
    slot = sim.world["slot_s"]
    if slot == 0.0 or iteration_s == np.inf:
        return iteration_s
    count = math.floor(slot / iteration_s)
    return slot / count if count > 0 else np.inf


@helper
def beside_company(sim: Run, number: int) -> float:
    """Seconds of one iteration at the settled rate, all sub-steps, beside the gangs that share its GPUs [s]."""
    r = sim.replicas[number]
    return (r["settled_s"] + r["accumulation_s"]) * r["slowdown"]


@kernel
def finish_time(sim: Run, since_s: float, remaining: float, iteration_s: float) -> float:
    """When the work left is done: at the end of that slot if iterations come by the slot [s].

    Ends of steps are added up, as a simulator does that plays step by step: what follows from one, such as the end of
    a lease, must agree with it to the last bit.
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
