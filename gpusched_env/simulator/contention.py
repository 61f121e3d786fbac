"""Contention: the rates of all gangs that share links, settled anew where flows have begun or ended."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from gpusched_env.simulator.flows import (
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
from gpusched_env.simulator.jit import helper, int64
from gpusched_env.simulator.max_min import solve

Array = np.ndarray[Any, Any]

RAW, CLAMP, AFFINE = range(3)  # how a straddle count becomes effective contenders (K_MODES)
ALWAYS, CONST, DUTY_SOLO = range(3)  # what part of an iteration contends (DUTIES)
SLOT_SLACK: Final = 1e-9  # [slot] by which rounding may put work beyond the slot that it ends in


@helper
def effective_contenders(world: Array, b: int, straddling: int) -> float:
    """Effective contenders k of a straddle count (sjf_bco.md, eq. 7 and network.md 3.3)."""
    w = world[b]
    if straddling == 0:
        return 1.0
    if w["k_mode"] == AFFINE:
        return 1.0 + w["xi1"] * (straddling - 1)
    k = w["xi1"] * straddling
    return max(1.0, k) if w["k_mode"] == CLAMP else k


@helper
def degradation(world: Array, b: int, k: float) -> float:
    """How many times longer the bytes take with k effective contenders: f(k) = k + alpha (k - 1)."""
    return k + world[b]["alpha"] * (k - 1.0)


@helper
def neighbours(
    world: Array, replicas: Array, links: Array, uses: Array, ratios: Array, b: int, number: int,
) -> tuple[int, float, int]:
    """Look at a gang's machine ports: most gangs on one, lowest ratio beside another gang, and that port."""
    r = replicas[b, number]
    most = 0
    ratio = 1.0
    port = -1
    use = r["first_use"]
    while use >= 0:
        link = int64(uses[b, use]["link"])
        if links[b, link]["port"]:
            if links[b, link]["flows"] > most:
                most = int64(links[b, link]["flows"])
                port = link
            if world[b]["contention"] == TABLE:
                other = links[b, link]["first_use"]
                while other >= 0:
                    beside = int64(uses[b, other]["replica"])
                    if beside != number:
                        found = ratios[b, r["profile"], replicas[b, beside]["profile"]]
                        if found < ratio:
                            ratio = found
                            port = link
                    other = uses[b, other]["next_of_link"]
        use = uses[b, use]["next_of_replica"]
    return most, ratio, port


@helper
def slowdown_of(world: Array, replicas: Array, links: Array, uses: Array, b: int, number: int) -> float:
    """How many times longer a gang's bytes take than alone, by its max-min rate and the duty rule."""
    w = world[b]
    r = replicas[b, number]
    if r["rate_Bps"] <= 0.0:
        return np.inf
    slowdown = max(r["solo_Bps"] / r["rate_Bps"], 1.0)
    if w["duty"] == CONST:
        return 1.0 + w["xi1"] * (slowdown - 1.0)
    if w["duty"] == DUTY_SOLO and r["bottleneck"] >= 0:
        # the others on the bottleneck send only during their communication
        duty = 0.0
        others = 0
        use = links[b, r["bottleneck"]]["first_use"]
        while use >= 0:
            beside = int64(uses[b, use]["replica"])
            if beside != number:
                alone = iteration_at(world, replicas, b, beside, 1.0)
                o = replicas[b, beside]
                duty += (o["fixed_s"] + o["wire_bytes"] / o["solo_Bps"]) / alone
                others += 1
            use = uses[b, use]["next_of_link"]
        if others > 0:
            return 1.0 + duty / others * (slowdown - 1.0)
    return slowdown


@helper
def budget_used(world: Array, b: int, straddling: int, machines: int) -> float:
    """Extra time of a gang over its compute: half for contention, half for overhead (sjf_bco.md section 5, budget)."""
    w = world[b]
    if machines <= 1:
        return 0.0
    worst = degradation(world, b, effective_contenders(world, b, BUDGET_MACHINES)) - 1.0
    now = degradation(world, b, effective_contenders(world, b, straddling)) - 1.0
    contention = 0.5 * now / worst if worst > 0.0 else 0.0
    overhead = 0.5 * (machines - 1) / (BUDGET_MACHINES - 1)
    return min(1.0, contention + overhead) * w["extra"] / (1.0 - w["extra"])


@helper
def alone_s(world: Array, replicas: Array, b: int, number: int) -> float:
    """Seconds of one iteration of a gang on its GPUs if no other gang used the network [s]."""
    r = replicas[b, number]
    if world[b]["contention"] == BUDGET:
        return r["compute_s"] * (1.0 + budget_used(world, b, 1, int64(r["machines"])))
    return iteration_at(world, replicas, b, number, 1.0)


@helper
def price_max_min(world: Array, replicas: Array, links: Array, uses: Array, b: int, number: int) -> None:
    """Set a gang's iteration, and the link that holds it (of several the first), by its max-min rate."""
    r = replicas[b, number]
    r["bottleneck"] = -1
    use = r["first_use"] if r["rate_Bps"] < r["solo_Bps"] else -1
    while use >= 0:
        link = uses[b, use]["link"]
        if links[b, link]["level"] == r["rate_Bps"] and (link < r["bottleneck"] or r["bottleneck"] < 0):
            r["bottleneck"] = link
        use = uses[b, use]["next_of_replica"]
    if r["rate_Bps"] != r["priced_Bps"] or world[b]["duty"] == DUTY_SOLO:
        r["priced_Bps"] = r["rate_Bps"]
        slowdown = slowdown_of(world, replicas, links, uses, b, number)
        r["settled_s"] = iteration_at(world, replicas, b, number, slowdown)


@helper
def price_by_machines(
    world: Array, replicas: Array, links: Array, uses: Array, ratios: Array, b: int, number: int,
) -> None:
    """Set a gang's iteration, and the port that slows it down, by the gangs on its machines."""
    model = world[b]["contention"]
    r = replicas[b, number]
    most, ratio, port = neighbours(world, replicas, links, uses, ratios, b, number)
    r["bottleneck"] = port if most > 1 else -1
    if model == KWAY:
        slowdown = degradation(world, b, effective_contenders(world, b, most))
        r["rate_Bps"] = r["solo_Bps"] / slowdown
        r["settled_s"] = iteration_at(world, replicas, b, number, slowdown)
    elif model == FLAT:
        r["settled_s"] = iteration_at(world, replicas, b, number, 1.0) / (1.0 - world[b]["shared_loss"] * (most > 1))
    elif model == TABLE:
        r["settled_s"] = iteration_at(world, replicas, b, number, 1.0) / ratio
    elif model == BUDGET:
        r["settled_s"] = r["compute_s"] * (1.0 + budget_used(world, b, most, int64(r["machines"])))


@helper
def list_gangs(world: Array, replicas: Array, links: Array, uses: Array, b: int) -> None:
    """List the gangs on all changed links, or, if only gangs on the same machine count, on changed ports."""
    w = world[b]
    for i in range(w["changed"]):
        link = int64(links[b, i]["changed"])
        use = links[b, link]["first_use"] if w["contention"] == MAXMIN or links[b, link]["port"] else -1
        while use >= 0:
            list_flow(world, replicas, b, int64(uses[b, use]["replica"]))
            use = uses[b, use]["next_of_link"]


@helper
def settle(world: Array, replicas: Array, links: Array, uses: Array, ratios: Array, b: int) -> None:
    """Find the rates under the flows as they are now; gangs go on at their old rates until time moves.

    The result depends on the flows alone, not on how often it was asked for in between.
    """
    w = world[b]
    if w["changed"] == 0 and w["listed"] == 0:
        return
    model = w["contention"]
    if model != SOLO and (model != MAXMIN or w["duty"] == DUTY_SOLO):
        list_gangs(world, replicas, links, uses, b)
    if model == MAXMIN:
        solve(world, replicas, links, uses, b)
    else:
        for i in range(w["changed"]):
            links[b, links[b, i]["changed"]]["is_changed"] = 0
        w["changed"] = 0
    for i in range(w["listed"]):
        number = int64(replicas[b, i]["listed"])
        replicas[b, number]["is_listed"] = 0
        if model == MAXMIN:
            price_max_min(world, replicas, links, uses, b, number)
        elif model != SOLO:
            price_by_machines(world, replicas, links, uses, ratios, b, number)
    w["listed"] = 0
    w["uncommitted"] = 1


@helper
def whole_iterations(world: Array, b: int, iteration_s: float) -> float:
    """Seconds of one iteration if only whole iterations count in each slot [s]; inf if a slot holds none."""
    slot = world[b]["slot_s"]
    if slot == 0.0 or iteration_s == np.inf:
        return iteration_s
    count = math.floor(slot / iteration_s)
    return slot / count if count > 0 else np.inf


@helper
def beside_company(replicas: Array, b: int, number: int) -> float:
    """Seconds of one iteration at the settled rate, all sub-steps, beside the gangs that share its GPUs [s]."""
    r = replicas[b, number]
    return (r["settled_s"] + r["accumulation_s"]) * r["slowdown"]


@helper
def finish_time(world: Array, b: int, since_s: float, remaining: float, iteration_s: float) -> float:
    """When the work left is done: at the end of that slot if iterations come by the slot [s].

    Ends of steps are added up, as a simulator does that plays step by step: what follows from one, such as the end of
    a lease, must agree with it to the last bit.
    """
    slot = world[b]["slot_s"]
    step = world[b]["step_iterations"]
    if step > 0.0 and world[b]["contention"] == 0:
        step_s = iteration_s * step
        while remaining >= step:
            since_s += step_s
            remaining -= step
    done_s = since_s + remaining * iteration_s if remaining > 0.0 else since_s
    if slot == 0.0 or done_s == np.inf:
        return done_s
    return max(math.ceil(done_s / slot - SLOT_SLACK) * slot, since_s)
