"""Strict priority, ordered as Crux orders jobs (Cao et al., SIGCOMM 2024, section 4).

The intensity of a gang is the compute of an iteration / the time of its transfers alone. Its priority is the intensity,
corrected so that both orders of it and of the gang that sends most, on one link, lose equally much compute. Priorities
are compressed to few levels: a cut through random topological orders, at which gangs that share links lose least.
Priorities follow from the gangs that share links at present, so nobody has to decide about them.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from gpusched_env.core import arithmetic  # noqa: F401 - kernels may call rounded_key
from gpusched_env.core.handle import helper, kernel
from gpusched_env.core.network.flows import iteration_at, list_flow, path_hash
from gpusched_env.core.state import Run
from gpusched_env.portable.keys import rounded_key

ORDERS: Final = 10  # random topological orders, a choice
ALWAYS, CONST, DUTY_SOLO = range(3)  # the part of an iteration that contends (DUTIES)
NOTHING: Final = 1e-9  # of a link or of time: what is left of it below this is a rounding error
EQUAL: Final = 1.0 + 1e-12  # rates that agree up to this fraction fill a link together


@helper
def transfer_s(sim: Run, number: int) -> float:
    """Return the time of a gang's transfers in an iteration if no other gang used the network [s]."""
    return sim.replicas[number]["wire_bytes"] / sim.replicas[number]["solo_Bps"]


@helper
def duty_of(sim: Run, number: int) -> float:
    """Return the share of its time for which a gang alone communicates, latencies included, as in max-min."""
    return (sim.replicas[number]["fixed_s"] + transfer_s(sim, number)) / iteration_at(sim, number, 1.0)


@helper
def lost_behind(sim: Run, number: int, duty: float) -> float:
    """Return what a gang loses behind another that sends for the share ``duty`` of the time [iterations/s]."""
    left = 1.0 - duty
    behind_s = iteration_at(sim, number, 1.0 / left if left > NOTHING else np.inf)
    return 1.0 / iteration_at(sim, number, 1.0) - 1.0 / behind_s


@kernel(lazy=True)
def collect(sim: Run) -> int:
    """List the gangs that share a link, by job; the others get their rates alone. Return their number."""
    count = 0
    for link in range(sim.links.shape[0]):
        sim.links[link]["right"] = sim.links[link]["capacity"]
        sim.links[link]["held"] = 0.0
        use = sim.links[link]["first_use"]
        while use >= 0:
            number = sim.uses[use]["replica"]
            first = sim.replicas[number]["first_use"]
            if use == first:  # once for each gang
                while first >= 0 and sim.links[sim.uses[first]["link"]]["flows"] == 1:
                    first = sim.uses[first]["next_of_replica"]
                if first >= 0:
                    at = count
                    while at > 0 and by_job(sim, sim.ranked[at - 1]["number"]) > by_job(sim, number):
                        sim.ranked[at]["number"] = sim.ranked[at - 1]["number"]
                        at -= 1
                    sim.ranked[at]["number"] = number
                    count += 1
                else:
                    settle_rate(sim, number, sim.replicas[number]["solo_Bps"], -1)
            use = sim.uses[use]["next_of_link"]
    return count


@helper
def by_job(sim: Run, number: int) -> int:
    """Return a number that orders gangs by job, and copies of a job by their rows."""
    return int(sim.replicas[number]["job"]) * sim.replicas.shape[0] + number


@helper
def settle_rate(sim: Run, number: int, rate_Bps: float, bottleneck: int) -> None:
    """Set a gang's rate and the link that bounds it, and list the gang if one of them changes."""
    r = sim.replicas[number]
    if rate_Bps != r["rate_Bps"] or bottleneck != r["bottleneck"]:
        r["rate_Bps"] = rate_Bps
        r["bottleneck"] = bottleneck
        list_flow(sim, number)


@kernel(lazy=True)
def set_priorities(sim: Run, count: int) -> None:
    """Compute intensities and priorities of the listed gangs, and sort them: descending priority, then by job."""
    most = -1.0
    chief = 0
    for i in range(count):
        number = sim.ranked[i]["number"]
        r = sim.replicas[number]
        sim.ranked[i]["intensity"] = r["compute_s"] * r["gpus"] / transfer_s(sim, number)
        if rounded_key(r["wire_bytes"] * r["gpus"]) > most:
            most = rounded_key(r["wire_bytes"] * r["gpus"])
            chief = number
    chief_s = transfer_s(sim, chief)
    chief_duty = duty_of(sim, chief)
    for i in range(count):
        number, key = sim.ranked[i]["number"], sim.ranked[i]["intensity"]
        if number != chief and key > 0.0:
            own_s = transfer_s(sim, number)
            lost = own_s * lost_behind(sim, number, chief_duty)
            other = chief_s * lost_behind(sim, chief, duty_of(sim, number))
            if other > 0.0:
                key *= lost / other
            elif lost > 0.0:
                key = np.inf
        sim.ranked[i]["key"] = rounded_key(key)
    for i in range(1, count):  # a stable sort; row ``count`` is free
        sim.ranked[count] = sim.ranked[i]
        at = i
        while at > 0 and sim.ranked[at - 1]["key"] < sim.ranked[count]["key"]:
            sim.ranked[at] = sim.ranked[at - 1]
            at -= 1
        sim.ranked[at] = sim.ranked[count]


@helper
def mark(sim: Run, number: int, value: int) -> None:
    """Mark the links of a gang, or remove the marks (0)."""
    use = sim.replicas[number]["first_use"]
    while use >= 0:
        sim.links[sim.uses[use]["link"]]["is_stale"] = value
        use = sim.uses[use]["next_of_replica"]


@helper
def touches(sim: Run, row: int) -> bool:
    """Whether a gang uses a marked link."""
    use = sim.replicas[sim.ranked[row]["number"]]["first_use"]
    while use >= 0 and sim.links[sim.uses[use]["link"]]["is_stale"] == 0:
        use = sim.uses[use]["next_of_replica"]
    return use >= 0


@kernel(lazy=True)
def count_below(sim: Run, count: int, row: int, change: int) -> None:
    """Add a gang (1) to what comes before the gangs of lower priority on its links, or take it away (-1)."""
    mark(sim, sim.ranked[row]["number"], 1)
    for below in range(row + 1, count):
        if sim.ranked[below]["key"] < sim.ranked[row]["key"] and touches(sim, below):
            sim.ranked[below]["above"] += change
    mark(sim, sim.ranked[row]["number"], 0)


@kernel(lazy=True)
def draw_order(sim: Run, count: int, number: int) -> None:
    """Draw topological order ``number``: gangs that share links by priority, else the lowest hash first."""
    for i in range(count):
        r = sim.replicas[sim.ranked[i]["number"]]
        starts = sim.jobs[r["job"]]["preemptions"]
        sim.ranked[i]["hash"] = path_hash(sim.world["path_seed"], int(r["job"]), int(starts), number)
        sim.ranked[i]["above"] = 0
    for i in range(count):
        count_below(sim, count, i, 1)
    for place in range(count):
        chosen = -1
        for i in range(count):
            if sim.ranked[i]["above"] == 0 and (chosen < 0 or sim.ranked[i]["hash"] < sim.ranked[chosen]["hash"]):
                chosen = i
        sim.ranked[place]["order"] = chosen
        sim.ranked[chosen]["above"] = -1
        count_below(sim, count, chosen, -1)


@kernel(lazy=True)
def cut(sim: Run, count: int, levels: int) -> float:
    """Cut the drawn order into at most ``levels`` blocks; return the least intensity whose edges lie within blocks."""
    for level in range(levels + 1):
        for end in range(count + 1):
            sim.cuts[level, end]["cost"] = 0.0 if end == 0 else np.inf
    for end in range(1, count + 1):  # a block that ends before place ``end``, by the place at which it begins
        last = sim.ranked[end - 1]["order"]
        mark(sim, sim.ranked[last]["number"], 1)
        edges = 0.0
        sim.ranked[end - 1]["inside"] = 0.0
        for begin in range(end - 2, -1, -1):
            row = sim.ranked[begin]["order"]
            if sim.ranked[row]["key"] > sim.ranked[last]["key"] and touches(sim, row):
                edges += sim.ranked[row]["intensity"]
            sim.ranked[begin]["inside"] += edges
        mark(sim, sim.ranked[last]["number"], 0)
        for level in range(1, levels + 1):
            for begin in range(end):
                cost = rounded_key(sim.cuts[level - 1, begin]["cost"] + sim.ranked[begin]["inside"])
                if cost < sim.cuts[level, end]["cost"]:  # ties: the block that begins first
                    sim.cuts[level, end]["cost"] = cost
                    sim.cuts[level, end]["begin"] = begin
    return float(sim.cuts[levels, count]["cost"])


@kernel(lazy=True)
def set_levels(sim: Run, count: int) -> int:
    """Give each gang a level, 0 = first; gangs of equal priority share one if there are enough. Return their number."""
    levels = sim.world["levels"]
    level = 0
    for i in range(count):
        if i > 0 and sim.ranked[i]["key"] < sim.ranked[i - 1]["key"]:
            level += 1
        sim.ranked[i]["level"] = level
    if level < levels:
        return level + 1
    least = np.inf
    for number in range(ORDERS):
        draw_order(sim, count, number)
        cost = cut(sim, count, levels)
        if cost < least:  # ties: the first order
            least = cost
            end = count
            for block in range(levels, 0, -1):
                begin = sim.cuts[block, end]["begin"]
                for place in range(begin, end):
                    sim.ranked[sim.ranked[place]["order"]]["level"] = block - 1
                end = begin
    return int(levels)


@kernel(lazy=True)
def fill(sim: Run, count: int, level: int) -> None:
    """Give the gangs of a level max-min fair rates in what is left of the links (``right``)."""
    waiting = 0
    for i in range(count):
        if sim.ranked[i]["level"] == level:
            waiting += 1
            sim.ranked[i]["inside"] = -1.0
            hold(sim, sim.ranked[i]["number"], 1.0, 0.0)
    while waiting > 0:
        least = np.inf
        for i in range(count):
            if sim.ranked[i]["level"] == level and sim.ranked[i]["inside"] < 0.0:
                least = min(least, share_of(sim, i))
        for i in range(count):  # rates below do not change ``share``
            rises = sim.ranked[i]["level"] == level and sim.ranked[i]["inside"] < 0.0
            if rises and sim.ranked[i]["share"] <= least * EQUAL:
                sim.ranked[i]["inside"] = least
                number, link = sim.ranked[i]["number"], sim.ranked[i]["order"]
                bounded = least < sim.replicas[number]["solo_Bps"]
                settle_rate(sim, number, mean_rate(sim, count, i) if bounded else least, link if bounded else -1)
                hold(sim, number, -1.0, least)
                waiting -= 1


@helper
def mean_rate(sim: Run, count: int, row: int) -> float:
    """Return a gang's rate if it contends with its level for a part of its time only (``duty``), as in max-min."""
    w = sim.world
    number, fair = sim.ranked[row]["number"], sim.ranked[row]["inside"]
    if w["duty"] == ALWAYS or fair == 0.0:
        return float(fair)
    alone = sim.replicas[number]["solo_Bps"]
    use = sim.replicas[number]["first_use"]
    while use >= 0:
        alone = min(alone, sim.links[sim.uses[use]["link"]]["right"] / sim.uses[use]["weight"])
        use = sim.uses[use]["next_of_replica"]
    part, others = w["xi1"] if w["duty"] == CONST else 1.0, 0
    for i in range(count if w["duty"] == DUTY_SOLO else 0):
        use = sim.replicas[sim.ranked[i]["number"]]["first_use"] if i != row else -1
        while use >= 0 and sim.uses[use]["link"] != sim.ranked[row]["order"]:
            use = sim.uses[use]["next_of_replica"]
        if use >= 0 and sim.ranked[i]["level"] == sim.ranked[row]["level"]:
            others += 1
            part = (0.0 if others == 1 else part) + duty_of(sim, sim.ranked[i]["number"])
    return float(alone / (1.0 + part / max(others, 1) * (alone / fair - 1.0)))


@helper
def hold(sim: Run, number: int, sign: float, rate_Bps: float) -> None:
    """Count a gang among those whose rates rise on its links (1), or take it out at its rate (-1)."""
    use = sim.replicas[number]["first_use"]
    while use >= 0:
        link = sim.links[sim.uses[use]["link"]]
        link["held"] += sign * sim.uses[use]["weight"]
        link["room"] = link["right"] if sign > 0.0 else max(link["room"] - rate_Bps * sim.uses[use]["weight"], 0.0)
        use = sim.uses[use]["next_of_replica"]


@helper
def share_of(sim: Run, row: int) -> float:
    """Return the rate that the links leave to a gang now, and keep it and the link (ties: the lowest row)."""
    number = sim.ranked[row]["number"]
    share = sim.replicas[number]["solo_Bps"]
    bottleneck = -1
    use = sim.replicas[number]["first_use"]
    while use >= 0:
        at = sim.uses[use]["link"]
        here = sim.links[at]["room"] / sim.links[at]["held"]
        if here < share or (here == share and at < bottleneck):
            share = here
            bottleneck = at
        use = sim.uses[use]["next_of_replica"]
    sim.ranked[row]["share"] = share
    sim.ranked[row]["order"] = bottleneck
    return share


@kernel(lazy=True)
def solve_priorities(sim: Run) -> None:
    """Find the rates of all gangs: each level shares what the higher ones leave of the links in the mean over time."""
    count = collect(sim)
    if count > 0:
        set_priorities(sim, count)
    for level in range(set_levels(sim, count) if count > 0 else 0):
        fill(sim, count, level)
        for i in range(count):
            if sim.ranked[i]["level"] == level:
                r = sim.replicas[sim.ranked[i]["number"]]
                slowdown = r["solo_Bps"] / r["rate_Bps"] if r["rate_Bps"] > 0.0 else np.inf
                mean_Bps = r["wire_bytes"] / iteration_at(sim, sim.ranked[i]["number"], slowdown)
                use = r["first_use"]
                while use >= 0:
                    link = sim.links[sim.uses[use]["link"]]
                    left = link["right"] - mean_Bps * sim.uses[use]["weight"]
                    link["right"] = left if left > NOTHING * link["capacity"] else 0.0
                    link["held"] = 0.0
                    use = sim.uses[use]["next_of_replica"]
