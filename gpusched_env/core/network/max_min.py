"""Max-min fair rates, solved anew only where they can have changed.

A flow's rate is the lowest level among its links, or what it reaches alone. The level of a link is the rate at which it
holds the flows that nothing else holds below; infinite if its flows do not fill it. A level follows from the lower
rates on its link alone, so these equations have one solution, to the last bit: it depends neither on the levels from
which the search starts nor on the order in which it looks at links.

The search follows Ramalingam and Reps (Journal of Algorithms 21, 1996): links whose level may be wrong wait in a queue,
by the lower of the level that they have and the one that they should have, and all that lies below the first of them is
right for good. A level that is too high is lowered; one that is too low is lifted to infinity, then lowered.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from gpusched_env.core.handle import kernel
from gpusched_env.core.network.flows import list_flow, touch_link
from gpusched_env.core.state import Run

FULL: Final = 1.0 + 1e-12  # a link that its flows cannot fill beyond this share never holds them
SPARE: Final = 1e-9  # share of its capacity that a link has left if it is not full beyond doubt of rounding


@kernel
def recount(sim: Run, link: int) -> None:
    """Add up a link whose flows have begun or ended: their weight, and whether they could fill it.

    A link that could carry all that its flows send alone never holds them, so no search need look at it.
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


@kernel
def level_of(sim: Run, link: int) -> float:
    """Level that a link should have at the rates that its flows have now; any higher one if its own is too low.

    Leaves behind which flows the link holds, their weight, and the room that the others leave them.
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


@kernel
def queue(sim: Run, link: int, key: float) -> None:
    """Put a link into the queue, a heap, or move it there; an infinite key takes it out."""
    w = sim.world
    at = sim.links[link]["place"]
    if at < 0:
        if key == np.inf:
            return
        at = w["queued"]
        w["queued"] += 1
    elif key == np.inf:  # the last one takes its place
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


@kernel
def requeue(sim: Run, link: int) -> None:
    """Queue a link some of whose flows have changed, by the least level that it can have; its own may be right."""
    entry = sim.links[link]
    entry["is_stale"] = 1
    if entry["held"] != 0.0:
        least = entry["room"] / entry["held"]  # other flows may turn out to be held too, or not: that only raises it
    else:
        least = np.inf if entry["room"] > SPARE * entry["capacity"] else 0.0
    queue(sim, link, min(entry["level"], least))


@kernel
def tell(sim: Run, use: int, rate_Bps: float) -> None:
    """Tell a link the new rate of one of its flows."""
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


@kernel
def bound(sim: Run, number: int) -> float:
    """Rate of a flow: the lowest level of its links, or what it reaches alone [byte/s]."""
    rate = sim.replicas[number]["solo_Bps"]
    use = sim.replicas[number]["first_use"]
    while use >= 0:
        rate = min(rate, sim.links[sim.uses[use]["link"]]["level"])
        use = sim.uses[use]["next_of_replica"]
    return rate


@kernel
def set_level(sim: Run, link: int, level: float) -> None:
    """Lower the level of a link, or lift it to infinity, and give its flows the rates that follow."""
    old = sim.links[link]["level"]
    sim.links[link]["level"] = level
    lowest = min(old, level)
    along = sim.links[link]["first_use"]
    while along >= 0:
        rate = sim.uses[along]["rate"]
        if rate >= lowest:
            number = sim.uses[along]["replica"]
            list_flow(sim, number)  # even at the same rate another link may hold it now
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
    """Find the rates of all flows after those on the changed links, and the listed flows, have changed."""
    w = sim.world
    for i in range(w["listed"]):  # flows that have begun
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
        if entry["right"] < entry["level"]:
            set_level(sim, link, entry["right"])
        else:
            set_level(sim, link, np.inf)
            if entry["can_fill"]:
                requeue(sim, link)
