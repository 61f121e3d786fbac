"""Placement rules: which GPUs a gang gets. A rule reserves GPUs; the caller commits or takes them back.

To add a rule: write a helper like those below, or, if it looks at load or at GPU types, in ``placing_by_load.py`` or
``placing_by_type.py``; give it a name in PLACEMENT_RULES and the next number, and add a branch to :func:`_reserve` and
the number to BRANCHES.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from gpusched_env.errors import GpuschedError, unknown_name
from gpusched_env.simulator.jit import helper, int64
from gpusched_env.simulator.placing_by_load import (
    place_by_contention,
    place_on_least_busy,
    place_on_least_busy_machines,
    place_on_random_machines,
)
from gpusched_env.simulator.placing_by_type import place_copies, place_on_fastest_type
from gpusched_env.simulator.sharing_choices import BENEFIT, SEARCH
from gpusched_env.simulator.taking import (
    FREE,
    NO_LIMIT,
    RESERVED,
    best_fit,
    hide_unusable,
    most_free,
    next_random,
    show_unusable,
    take,
    unable_somewhere,
    unreserve,
)

PLACEMENT_RULES: Final = {
    "count": "first fit: the lowest free GPU ids, topology ignored",
    "pack": "best fit on the tightest tier that has room: a machine, else a rack, else anywhere, on few machines",
    "consolidate": "as few machines as on the empty cluster, in one rack if possible; else wait",
    "yarn": "first fit: one machine, or whole machines plus one for the rest, all in one rack; else wait",
    "rack": "best fit on one machine, else within one rack; else wait",
    "spread": "one GPU from each machine in turn, in machine order",
    "random": "free GPUs drawn uniformly (seeded)",
    "contention": "best fit on one machine, else the rack or racks where the fewest gangs share its ports and uplinks",
    "least-busy": "the GPUs that gangs have held least so far, anywhere",
    "least-busy-servers": "the same, on the fewest least busy machines large enough for the gang; else wait",
    "random-servers": "machines drawn uniformly (seeded), one after the other, all their free GPUs",
    "fastest-type": "GPUs of the one type on which the gang runs fastest now: best fit, else few machines; else wait",
    "fork": "a copy of the gang on each machine that has room, in machine order, `max_copies` at most; else wait",
    "share-first-fit": "as pack; if too few GPUs are free, beside other jobs too, by GPU id; else wait",
    "share-best-benefit": "as pack; if too few GPUs are free, beside the jobs with which mean JCT gains; else wait",
    "most-free": "all free GPUs of the machine with the most, then of the next, until the gang is whole",
}
(
    COUNT, PACK, CONSOLIDATE, YARN, RACK_RULE, SPREAD, RANDOM, CONTENTION, LEAST_BUSY, LEAST_BUSY_SERVERS,
    RANDOM_SERVERS, FASTEST_TYPE, FORK, SHARE_FIRST_FIT, SHARE_BEST_BENEFIT, MOST_FREE,
) = range(len(PLACEMENT_RULES))  # fmt: skip
RULE_NUMBER: Final = {name: number for number, name in enumerate(PLACEMENT_RULES)}
# Rules that share GPUs, and how each of them chooses its company (placing_shared.py).
SHARING: Final = (SHARE_FIRST_FIT, SHARE_BEST_BENEFIT)
SHARED_BY: Final = (SEARCH, SEARCH | BENEFIT)
# A gang that finds enough free GPUs on which it can run always finds a place by these rules.
ANYWHERE: Final = (COUNT, PACK, SPREAD, RANDOM, CONTENTION, LEAST_BUSY, RANDOM_SERVERS, MOST_FREE)
# Rules for which :func:`_reserve` has a branch; no other is played.
BRANCHES: Final = (
    COUNT, PACK, CONSOLIDATE, YARN, RACK_RULE, SPREAD, RANDOM, CONTENTION, LEAST_BUSY, LEAST_BUSY_SERVERS,
    RANDOM_SERVERS, FASTEST_TYPE, FORK, SHARE_FIRST_FIT, SHARE_BEST_BENEFIT, MOST_FREE,
)  # fmt: skip


def rule_number(name: str) -> int:
    """Give a placement rule's number.

    Raises
    ------
    GpuschedError : an unknown rule, with the nearest names; a rule that no kernel knows
    """
    if name not in RULE_NUMBER:
        raise GpuschedError(unknown_name("placement rule", str(name), RULE_NUMBER))
    if RULE_NUMBER[name] not in BRANCHES:
        raise GpuschedError(
            f"placement rule {name!r}: no kernel knows it; add a branch to _reserve in "
            "gpusched_env/simulator/placing.py, and its number to BRANCHES there"
        )
    return RULE_NUMBER[name]


def check_numbers(numbers: np.ndarray) -> None:
    """Check rule numbers.

    Raises
    ------
    GpuschedError : a number for which no kernel has a branch
    """
    bad = numbers[~np.isin(numbers, BRANCHES)]
    if len(bad):
        raise GpuschedError(
            f"placement rule number {bad[0]}: no kernel knows it; take numbers from gpusched_env.simulator.RULE_NUMBER"
        )


Array = np.ndarray[Any, Any]


@helper
def _fill(
    nodes: Array, free: Array, holder: Array, chosen: Array, b: int, begin: int, end: int, gang: int, at: int
) -> int:
    """Take ``gang`` GPUs of ``nodes[begin:end]`` from few nodes: the emptiest first, the last part by best fit."""
    left = gang
    while left > 0:
        node = best_fit(free, b, begin, end, left)
        if node < 0:
            node = most_free(free, b, begin, end)
        count = min(left, free[b, node])
        at = take(nodes, free, holder, chosen, b, node, count, at)
        left -= count
    return at


@helper
def _pack(
    world: Array, nodes: Array, racks: Array, free: Array, holder: Array, chosen: Array, b: int, gang: int, at: int,
    widest: int,
) -> int:
    """Best fit on the tightest tier; ``widest`` = 1 allows one rack at most, 2 the whole network."""
    node = best_fit(free, b, 0, world[b]["nodes"], gang)
    if node >= 0:
        return take(nodes, free, holder, chosen, b, node, gang, at)
    first = nodes.shape[1]
    last = first + world[b]["racks"]
    left = gang
    while left > 0:
        rack = best_fit(free, b, first, last, left)
        if rack < 0:
            if widest < 2:
                return at
            rack = most_free(free, b, first, last)
        count = min(left, free[b, rack])
        begin = racks[b, rack - first]["first_node"]
        end = begin + racks[b, rack - first]["nodes"]
        at = _fill(nodes, free, holder, chosen, b, begin, end, count, at)
        left -= count
    return at


@helper
def _largest_machine(world: Array, nodes: Array, b: int) -> int:
    """GPUs of the largest machine on which the gang can run [GPU]."""
    size = int64(0)
    for node in range(world[b]["nodes"]):
        if nodes[b, node]["taken"] == 0:
            size = max(size, int64(nodes[b, node]["gpus"]))
    return size


@helper
def _fewest_machines(world: Array, nodes: Array, b: int, gang: int) -> int:
    """Count the machines that a gang needs on the empty cluster, the largest first, of those on which it can run."""
    size = world[b]["node_gpus"]
    machines = 0
    left = gang
    while left > 0:
        for node in range(world[b]["nodes"]):
            if nodes[b, node]["gpus"] == size and nodes[b, node]["taken"] == 0:
                left -= size
                machines += 1
                if left <= 0:
                    break
        size -= 1
    return machines


@helper
def _most_free_of(free: Array, b: int, begin: int, end: int, machines: int, most: int) -> int:
    """Add up the free GPUs of the ``machines`` >= 1 emptiest of ``nodes[begin:end]``; none has more than ``most``."""
    total = int64(0)
    if machines == 1:
        for node in range(begin, end):
            total = max(total, int64(free[b, node]))
        return total
    left = machines
    for count in range(most, 0, -1):
        for node in range(begin, end):
            if free[b, node] == count:
                total += count
                left -= 1
                if left == 0:
                    return total
    return total


@helper
def _consolidate(
    world: Array, nodes: Array, racks: Array, free: Array, holder: Array, chosen: Array, b: int, gang: int, at: int,
) -> int:
    """Place on as few machines as the empty cluster would need, in the first rack that can, else across racks."""
    machines = _fewest_machines(world, nodes, b, gang)
    most = world[b]["node_gpus"]
    for rack in range(world[b]["racks"]):
        begin = racks[b, rack]["first_node"]
        end = begin + racks[b, rack]["nodes"]
        if free[b, nodes.shape[1] + rack] >= gang and _most_free_of(free, b, begin, end, machines, most) >= gang:
            return _fill(nodes, free, holder, chosen, b, begin, end, gang, at)
    if _most_free_of(free, b, 0, world[b]["nodes"], machines, most) >= gang:
        return _fill(nodes, free, holder, chosen, b, 0, world[b]["nodes"], gang, at)
    return at


@helper
def _yarn_node(world: Array, nodes: Array, free: Array, b: int, begin: int, end: int, gang: int) -> int:
    """Find floor(g/G) entirely free machines of ``nodes[begin:end]`` and one more for the rest.

    Returns the node for the rest, the first that has room; ``end`` if there is no rest; -1 if they are not there.
    """
    size = _largest_machine(world, nodes, b)
    whole = gang // size
    rest = gang - whole * size
    found = 0
    rest_node = -1
    for node in range(begin, end):
        if found < whole and free[b, node] == size:
            found += 1
        elif rest_node < 0 and 0 < rest <= free[b, node]:
            rest_node = node
    if found < whole:
        return -1
    return rest_node if rest > 0 else end


@helper
def _yarn(
    world: Array, nodes: Array, racks: Array, free: Array, holder: Array, chosen: Array, b: int, gang: int, at: int,
) -> int:
    """First fit on one machine, or whole machines and one for the rest in a rack (Tiresias' repository, switch.py)."""
    size = _largest_machine(world, nodes, b)
    if gang <= size:
        for node in range(world[b]["nodes"]):
            if free[b, node] >= gang:
                return take(nodes, free, holder, chosen, b, node, gang, at)
        return at
    for rack in range(world[b]["racks"]):
        begin = racks[b, rack]["first_node"]
        end = begin + racks[b, rack]["nodes"]
        rest_node = _yarn_node(world, nodes, free, b, begin, end, gang)
        if rest_node >= 0:
            left = gang
            for node in range(begin, end):
                if node == rest_node:
                    at = take(nodes, free, holder, chosen, b, node, gang % size, at)
                elif left >= size and free[b, node] == size:
                    at = take(nodes, free, holder, chosen, b, node, size, at)
                    left -= size
            return at
    return at


@helper
def _lowest(
    world: Array, nodes: Array, free: Array, holder: Array, chosen: Array, b: int, gang: int, at: int, per_node: int
) -> int:
    """Walk the nodes in order, at most ``per_node`` GPUs from each in a round, until the gang is complete."""
    left = gang
    while left > 0:
        for node in range(world[b]["nodes"]):
            count = min(left, free[b, node], per_node)
            if count > 0:
                at = take(nodes, free, holder, chosen, b, node, count, at)
                left -= count
    return at


@helper
def _most_free_first(
    world: Array, nodes: Array, free: Array, holder: Array, chosen: Array, b: int, gang: int, at: int
) -> int:
    """Take what is free on the machine with the most free GPUs, then on the next, until the gang is complete."""
    left = gang
    while left > 0:
        node = most_free(free, b, 0, world[b]["nodes"])
        count = min(left, free[b, node])
        at = take(nodes, free, holder, chosen, b, node, count, at)
        left -= count
    return at


@helper
def _random(
    world: Array, nodes: Array, free: Array, holder: Array, chosen: Array, b: int, gang: int, at: int, supply: int
) -> int:
    """Selection sampling over the free GPUs in id order (Knuth, TAOCP 2, 3.4.2, algorithm S)."""
    left = gang
    seen_free = supply
    gpu = 0
    while left > 0:
        if holder[b, gpu] == FREE:
            if next_random(world, b) % seen_free < left:
                holder[b, gpu] = RESERVED
                chosen[b, at] = gpu
                at += 1
                left -= 1
            seen_free -= 1
        gpu += 1
    return at


@helper
def _reserve(
    world: Array, nodes: Array, racks: Array, free: Array, holder: Array, gpu_node: Array, chosen: Array, links: Array,
    busy: Array, paces: Array, b: int, at: int, kind: int, gang: int, rule: int, supply: int,
) -> int:
    """Reserve a gang's GPUs by a rule; all free GPUs will do. A rule without a branch finds no place."""
    if gang > supply:
        return at
    if rule == PACK or rule in SHARING:
        return _pack(world, nodes, racks, free, holder, chosen, b, gang, at, 2)
    if rule == RACK_RULE:
        return _pack(world, nodes, racks, free, holder, chosen, b, gang, at, 1)
    if rule == CONSOLIDATE:
        return _consolidate(world, nodes, racks, free, holder, chosen, b, gang, at)
    if rule == YARN:
        return _yarn(world, nodes, racks, free, holder, chosen, b, gang, at)
    if rule == COUNT:
        return _lowest(world, nodes, free, holder, chosen, b, gang, at, NO_LIMIT)
    if rule == SPREAD:
        return _lowest(world, nodes, free, holder, chosen, b, gang, at, 1)
    if rule == MOST_FREE:
        return _most_free_first(world, nodes, free, holder, chosen, b, gang, at)
    if rule == CONTENTION:
        return place_by_contention(world, nodes, racks, free, holder, chosen, links, b, gang, at)
    if rule == LEAST_BUSY:
        return place_on_least_busy(world, nodes, free, holder, gpu_node, chosen, busy, b, gang, at)
    if rule == LEAST_BUSY_SERVERS:
        return place_on_least_busy_machines(world, nodes, free, holder, gpu_node, chosen, busy, b, gang, at)
    if rule == RANDOM_SERVERS:
        return place_on_random_machines(world, nodes, free, holder, chosen, b, gang, at)
    if rule == FASTEST_TYPE:
        return place_on_fastest_type(world, nodes, free, holder, chosen, paces, b, kind, gang, at)
    if rule == FORK:
        return place_copies(world, nodes, free, holder, chosen, b, gang, at)
    if rule != RANDOM:
        return at
    end = _random(world, nodes, free, holder, chosen, b, gang, at, supply)
    for i in range(at, end):
        node = gpu_node[b, chosen[b, i]]
        free[b, node] -= 1
        free[b, nodes.shape[1] + nodes[b, node]["rack"]] -= 1
    return end


@helper
def reserve(
    world: Array, nodes: Array, racks: Array, free: Array, holder: Array, gpu_node: Array, chosen: Array, links: Array,
    busy: Array, paces: Array, b: int, at: int, kind: int, gang: int, rule: int, supply: int,
) -> int:
    """Reserve the GPUs of a gang of a job class by a rule and append them to ``chosen`` from ``at``.

    ``supply`` is the number of free GPUs. Returns the end of what it appended: ``at + gang``, more if the rule
    places several copies, ``at`` (nothing reserved) if there is no place.
    Machines of a type on which the class cannot run do not exist for it.
    """
    hides = unable_somewhere(paces, b, kind)
    if hides:
        supply -= hide_unusable(world, nodes, free, holder, paces, b, kind)
    end = _reserve(  # written once: the rules are most of what kernels that place are made of
        world, nodes, racks, free, holder, gpu_node, chosen, links, busy, paces, b, at, kind, gang, rule, supply
    )
    if hides:
        show_unusable(world, nodes, free, holder, paces, b, kind)
    return end


@helper
def look_for(
    world: Array, nodes: Array, racks: Array, free: Array, holder: Array, gpu_node: Array, chosen: Array, links: Array,
    busy: Array, paces: Array, b: int, kind: int, gang: int, rule: int,
) -> int:
    """Write the GPUs that :func:`reserve` would reserve now to ``chosen``; return their number, 0 = no place."""
    supply = world[b]["free_gpus"]
    random = world[b]["random"]
    end = reserve(
        world, nodes, racks, free, holder, gpu_node, chosen, links, busy, paces, b, 0, kind, gang, rule, supply
    )
    world[b]["random"] = random
    unreserve(nodes, free, holder, gpu_node, chosen, b, 0, end)
    return end


@helper
def fits(
    world: Array, nodes: Array, racks: Array, free: Array, holder: Array, gpu_node: Array, chosen: Array, links: Array,
    busy: Array, paces: Array, b: int, kind: int, gang: int, rule: int,
) -> bool:
    """Tell whether :func:`reserve` would find a place now."""
    supply = world[b]["free_gpus"]
    if gang > supply or (rule in ANYWHERE and not unable_somewhere(paces, b, kind)):
        return gang <= supply
    return look_for(world, nodes, racks, free, holder, gpu_node, chosen, links, busy, paces, b, kind, gang, rule) > 0
