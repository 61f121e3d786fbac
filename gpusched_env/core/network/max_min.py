"""Max-min fair rates, updated incrementally: only rates that may have changed are recomputed.

Each link has a level. The rate of a flow is the lowest level of its links, or its rate alone if that is lower. A link
bounds a flow if neither another link nor the rate alone gives the flow a lower rate. The level of a link is the rate of
the flows that it bounds. The level is infinite if the flows do not fill the link.

A level depends only on the lower rates on its link. So these equations have exactly one solution, to the last bit. The
solution depends neither on the levels from which the search starts nor on the order in which links are processed.

The search follows Ramalingam and Reps (Journal of Algorithms 21, 1996). Links whose level may be wrong are in a
priority queue. The key of a link is the lower of its present and its correct level. All levels below the first key of
the queue are final. A level that is too high is lowered. A level that is too low is raised to infinity, then lowered.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from gpusched_env.core.handle import helper, kernel
from gpusched_env.core.network.flows import list_flow, touch_link
from gpusched_env.core.state import Run

FULL: Final = 1.0 + 1e-12  # if the rates alone of all flows need at most this fraction of a link, it bounds no flow
SPARE: Final = 1e-9  # a link whose free fraction exceeds this is not full; the value is above all rounding errors


@helper
def recount(sim: Run, link: int) -> None:
    """Update a link whose flows have begun or ended: their total weight, and whether they could fill the link.

    A link that can carry all flows at their rates alone never bounds them, so the search skips it.
    """
    weight = 0.0
    demand = 0.0
    use = sim.links[link]["first_use"]
    while use >= 0:
        weight += sim.uses[use]["weight"]
        demand += sim.uses[use]["weight"] * sim.replicas[sim.uses[use]["replica"]]["solo_Bps"]
        use = sim.uses[use]["next_of_link"]
    sim.links[link]["total"] = weight
    sim.links[link]["can_fill"] = 1 if demand > sim.links[link]["capacity"] * FULL else 0


@helper
def level_of(sim: Run, link: int) -> float:
    """Return the correct level of a link at the present rates of its flows.

    If the present level of the link is too low, the result is some level above it. The kernel also sets which flows the
    link bounds (``is_held``), the weight of these flows (``held``), and the capacity that the other flows leave to them
    (``room``).
    """
    entry = sim.links[link]
    entry["is_stale"] = 0
    if entry["can_fill"] == 0:
        return np.inf
    level = entry["capacity"] / entry["total"]
    while True:
        room = entry["capacity"]
        held = 0.0
        use = entry["first_use"]
        while use >= 0:
            u = sim.uses[use]
            if u["rate"] < level:
                u["is_held"] = 0
                room -= u["weight"] * u["rate"]
            else:
                u["is_held"] = 1
                held += u["weight"]
            use = u["next_of_link"]
        entry["room"] = room
        entry["held"] = held
        if held == 0.0:
            return np.inf
        if room / held <= level or level > entry["level"]:
            return level
        level = room / held


@helper
def queue(sim: Run, link: int, key: float) -> None:
    """Insert a link into the queue, a binary heap, or move it to its new key; an infinite key removes it."""
    w = sim.world
    at = sim.links[link]["place"]
    if at < 0:
        if key == np.inf:
            return
        at = w["queued"]
        w["queued"] += 1
    elif key == np.inf:  # the last entry of the heap takes its place
        sim.links[link]["place"] = -1
        w["queued"] -= 1
        if at == w["queued"]:
            return
        link = sim.links[w["queued"]]["heap"]
        key = sim.links[link]["key"]
    sim.links[link]["key"] = key
    while at > 0:
        above = sim.links[(at - 1) >> 1]["heap"]
        if sim.links[above]["key"] <= key:
            break
        sim.links[at]["heap"] = above
        sim.links[above]["place"] = at
        at = (at - 1) >> 1
    while True:
        child = 2 * at + 1
        if child >= w["queued"]:
            break
        below = sim.links[child]["heap"]
        if child + 1 < w["queued"] and sim.links[sim.links[child + 1]["heap"]]["key"] < sim.links[below]["key"]:
            child += 1
            below = sim.links[child]["heap"]
        if sim.links[below]["key"] >= key:
            break
        sim.links[at]["heap"] = below
        sim.links[below]["place"] = at
        at = child
    sim.links[at]["heap"] = link
    sim.links[link]["place"] = at


@helper
def requeue(sim: Run, link: int) -> None:
    """Queue a link after rates of its flows have changed, with the lowest level that it can have as its key."""
    entry = sim.links[link]
    entry["is_stale"] = 1
    if entry["held"] != 0.0:
        least = entry["room"] / entry["held"]  # a lower bound: the final set of bounded flows only raises it
    else:
        least = np.inf if entry["room"] > SPARE * entry["capacity"] else 0.0
    queue(sim, link, min(entry["level"], least))


@helper
def tell(sim: Run, use: int, rate_Bps: float) -> None:
    """Update a link after the rate of one of its flows has changed."""
    u = sim.uses[use]
    link = u["link"]
    entry = sim.links[link]
    old = u["rate"]
    u["rate"] = rate_Bps
    if entry["can_fill"] == 0:
        return
    if u["is_held"]:
        if rate_Bps >= entry["level"]:
            return
        entry["room"] -= u["weight"] * rate_Bps
        entry["held"] -= u["weight"]
    else:
        entry["room"] += u["weight"] * (old - rate_Bps)
    u["is_held"] = 0
    if entry["room"] < entry["held"] * rate_Bps:
        entry["room"] += u["weight"] * rate_Bps
        entry["held"] += u["weight"]
        u["is_held"] = 1
    touch_link(sim, link)


@helper
def bound(sim: Run, number: int) -> float:
    """Return the rate of a flow: the lowest level of its links, or its rate alone if that is lower [byte/s]."""
    rate = sim.replicas[number]["solo_Bps"]
    use = sim.replicas[number]["first_use"]
    while use >= 0:
        rate = min(rate, sim.links[sim.uses[use]["link"]]["level"])
        use = sim.uses[use]["next_of_replica"]
    return rate


@helper
def set_level(sim: Run, link: int, level: float) -> None:
    """Lower the level of a link, or raise it to infinity, and update the rates of its flows."""
    old = sim.links[link]["level"]
    sim.links[link]["level"] = level
    lowest = min(old, level)
    along = sim.links[link]["first_use"]
    while along >= 0:
        rate = sim.uses[along]["rate"]
        if rate >= lowest:
            number = sim.uses[along]["replica"]
            list_flow(sim, number)  # the rate may be equal, but another link may now bound the flow
            new = bound(sim, number) if level > old else level
            if new != rate:
                sim.replicas[number]["rate_Bps"] = new
                use = sim.replicas[number]["first_use"]
                while use >= 0:
                    tell(sim, use, new)
                    use = sim.uses[use]["next_of_replica"]
        along = sim.uses[along]["next_of_link"]
    for i in range(sim.world["changed"]):
        other = sim.links[i]["changed"]
        sim.links[other]["is_changed"] = 0
        requeue(sim, other)
    sim.world["changed"] = 0


@kernel
def solve(sim: Run) -> None:
    """Update the rates of all flows after the flows of the changed links, and the listed flows, have changed."""
    w = sim.world
    for i in range(w["listed"]):  # new flows
        number = sim.replicas[i]["listed"]
        rate = bound(sim, number)
        sim.replicas[number]["rate_Bps"] = rate
        use = sim.replicas[number]["first_use"]
        while use >= 0:
            sim.uses[use]["rate"] = rate
            use = sim.uses[use]["next_of_replica"]
    for i in range(w["changed"]):
        link = sim.links[i]["changed"]
        sim.links[link]["is_changed"] = 0
        recount(sim, link)
        level = level_of(sim, link)
        sim.links[link]["right"] = level
        if level != sim.links[link]["level"]:
            queue(sim, link, min(level, sim.links[link]["level"]))
    w["changed"] = 0
    while w["queued"] > 0:
        link = sim.links[0]["heap"]
        entry = sim.links[link]
        if entry["is_stale"]:
            entry["right"] = level_of(sim, link)
            if entry["right"] == entry["level"]:
                queue(sim, link, np.inf)
                continue
            queue(sim, link, min(entry["right"], entry["level"]))
            if sim.links[0]["heap"] != link:
                continue
        queue(sim, link, np.inf)
        lowers = entry["right"] < entry["level"]
        set_level(sim, link, entry["right"] if lowers else np.inf)
        if not lowers and entry["can_fill"]:
            requeue(sim, link)
