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

from typing import Any, Final

import numpy as np

from gpusched_env.simulator.flows import list_flow, touch_link
from gpusched_env.simulator.jit import helper, int64

Array = np.ndarray[Any, Any]

FULL: Final = 1.0 + 1e-12  # a link that its flows cannot fill beyond this share never holds them
SPARE: Final = 1e-9  # share of its capacity that a link has left if it is not full beyond doubt of rounding


@helper
def recount(replicas: Array, links: Array, uses: Array, b: int, link: int) -> None:
    """Add up a link whose flows have begun or ended: their weight, and whether they could fill it.

    A link that could carry all that its flows send alone never holds them, so no search need look at it.
    """
    weight = 0.0
    demand = 0.0
    use = links[b, link]["first_use"]
    while use >= 0:
        weight += uses[b, use]["weight"]
        demand += uses[b, use]["weight"] * replicas[b, uses[b, use]["replica"]]["solo_Bps"]
        use = uses[b, use]["next_of_link"]
    links[b, link]["total"] = weight
    links[b, link]["can_fill"] = 1 if demand > links[b, link]["capacity"] * FULL else 0


@helper
def level_of(links: Array, uses: Array, b: int, link: int) -> float:
    """Level that a link should have at the rates that its flows have now; any higher one if its own is too low.

    Leaves behind which flows the link holds, their weight, and the room that the others leave them.
    """
    entry = links[b, link]
    entry["is_stale"] = 0
    if entry["can_fill"] == 0:
        return np.inf
    level = entry["capacity"] / entry["total"]
    while True:
        room = entry["capacity"]
        held = 0.0
        use = entry["first_use"]
        while use >= 0:
            u = uses[b, use]
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
def queue(world: Array, links: Array, b: int, link: int, key: float) -> None:
    """Put a link into the queue, a heap, or move it there; an infinite key takes it out."""
    w = world[b]
    at = int64(links[b, link]["place"])
    if at < 0:
        if key == np.inf:
            return
        at = int64(w["queued"])
        w["queued"] += 1
    elif key == np.inf:  # the last one takes its place
        links[b, link]["place"] = -1
        w["queued"] -= 1
        if at == w["queued"]:
            return
        link = int64(links[b, w["queued"]]["heap"])
        key = links[b, link]["key"]
    links[b, link]["key"] = key
    while at > 0:
        above = links[b, (at - 1) >> 1]["heap"]
        if links[b, above]["key"] <= key:
            break
        links[b, at]["heap"] = above
        links[b, above]["place"] = at
        at = (at - 1) >> 1
    while True:
        child = 2 * at + 1
        if child >= w["queued"]:
            break
        below = links[b, child]["heap"]
        if child + 1 < w["queued"] and links[b, links[b, child + 1]["heap"]]["key"] < links[b, below]["key"]:
            child += 1
            below = links[b, child]["heap"]
        if links[b, below]["key"] >= key:
            break
        links[b, at]["heap"] = below
        links[b, below]["place"] = at
        at = child
    links[b, at]["heap"] = link
    links[b, link]["place"] = at


@helper
def requeue(world: Array, links: Array, b: int, link: int) -> None:
    """Queue a link some of whose flows have changed, by the least level that it can have; its own may be right."""
    entry = links[b, link]
    entry["is_stale"] = 1
    if entry["held"] != 0.0:
        least = entry["room"] / entry["held"]  # other flows may turn out to be held too, or not: that only raises it
    else:
        least = np.inf if entry["room"] > SPARE * entry["capacity"] else 0.0
    queue(world, links, b, link, min(entry["level"], least))


@helper
def tell(world: Array, links: Array, uses: Array, b: int, use: int, rate_Bps: float) -> None:
    """Tell a link the new rate of one of its flows."""
    u = uses[b, use]
    link = int64(u["link"])
    entry = links[b, link]
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
    touch_link(world, links, b, link)


@helper
def bound(replicas: Array, links: Array, uses: Array, b: int, number: int) -> float:
    """Rate of a flow: the lowest level of its links, or what it reaches alone [byte/s]."""
    rate = replicas[b, number]["solo_Bps"]
    use = replicas[b, number]["first_use"]
    while use >= 0:
        rate = min(rate, links[b, uses[b, use]["link"]]["level"])
        use = uses[b, use]["next_of_replica"]
    return rate


@helper
def set_level(world: Array, replicas: Array, links: Array, uses: Array, b: int, link: int, level: float) -> None:
    """Lower the level of a link, or lift it to infinity, and give its flows the rates that follow."""
    old = links[b, link]["level"]
    links[b, link]["level"] = level
    lowest = min(old, level)
    along = links[b, link]["first_use"]
    while along >= 0:
        rate = uses[b, along]["rate"]
        if rate >= lowest:
            number = int64(uses[b, along]["replica"])
            list_flow(world, replicas, b, number)  # even at the same rate another link may hold it now
            new = bound(replicas, links, uses, b, number) if level > old else level
            if new != rate:
                replicas[b, number]["rate_Bps"] = new
                use = replicas[b, number]["first_use"]
                while use >= 0:
                    tell(world, links, uses, b, int64(use), new)
                    use = uses[b, use]["next_of_replica"]
        along = uses[b, along]["next_of_link"]
    for i in range(world[b]["changed"]):
        other = int64(links[b, i]["changed"])
        links[b, other]["is_changed"] = 0
        requeue(world, links, b, other)
    world[b]["changed"] = 0


@helper
def solve(world: Array, replicas: Array, links: Array, uses: Array, b: int) -> None:
    """Find the rates of all flows after those on the changed links, and the listed flows, have changed."""
    w = world[b]
    for i in range(w["listed"]):  # flows that have begun
        number = int64(replicas[b, i]["listed"])
        rate = bound(replicas, links, uses, b, number)
        replicas[b, number]["rate_Bps"] = rate
        use = replicas[b, number]["first_use"]
        while use >= 0:
            uses[b, use]["rate"] = rate
            use = uses[b, use]["next_of_replica"]
    for i in range(w["changed"]):
        link = int64(links[b, i]["changed"])
        links[b, link]["is_changed"] = 0
        recount(replicas, links, uses, b, link)
        level = level_of(links, uses, b, link)
        links[b, link]["right"] = level
        if level != links[b, link]["level"]:
            queue(world, links, b, link, min(level, links[b, link]["level"]))
    w["changed"] = 0
    while w["queued"] > 0:
        link = int64(links[b, 0]["heap"])
        entry = links[b, link]
        if entry["is_stale"]:
            entry["right"] = level_of(links, uses, b, link)
            if entry["right"] == entry["level"]:
                queue(world, links, b, link, np.inf)
                continue
            queue(world, links, b, link, min(entry["right"], entry["level"]))
            if links[b, 0]["heap"] != link:
                continue
        queue(world, links, b, link, np.inf)
        if entry["right"] < entry["level"]:
            set_level(world, replicas, links, uses, b, link, entry["right"])
        else:
            set_level(world, replicas, links, uses, b, link, np.inf)
            if entry["can_fill"]:
                requeue(world, links, b, link)
