"""Placement rules that look at load: of links, of GPUs, of machines; and machines drawn at random."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gpusched_env.simulator.jit import helper, int64
from gpusched_env.simulator.taking import FREE, NO_LIMIT, RESERVED, best_fit, next_random, take

Array = np.ndarray[Any, Any]


@helper
def packs_better(room: int, than: int, left: int) -> bool:
    """Tell whether one supply suits ``left`` GPUs better than another: the smallest that is enough, else the larger."""
    if room >= left:
        return than < left or room < than
    return than < left and room > than


@helper
def _fill_quietest(
    nodes: Array, free: Array, holder: Array, chosen: Array, links: Array, b: int, begin: int, end: int, gang: int,
    at: int,
) -> int:
    """Take ``gang`` GPUs of ``nodes[begin:end]``, machines whose ports the fewest gangs use first, as packed as can be.

    The load of a machine is the number of gangs whose rings cross its port: the straddle count of SJF-BCO (eq. 6).
    """
    left = gang
    while left > 0:
        chosen_node = -1
        least = NO_LIMIT
        for node in range(begin, end):
            room = free[b, node]
            flows = links[b, nodes[b, node]["out"]]["flows"]
            if room > 0 and (
                flows < least or (flows == least and packs_better(room, free[b, chosen_node], left))
            ):
                least = flows
                chosen_node = node
        count = min(left, free[b, chosen_node])
        at = take(nodes, free, holder, chosen, b, chosen_node, count, at)
        left -= count
    return at


@helper
def _busiest_port(nodes: Array, free: Array, links: Array, b: int, begin: int, end: int, gang: int) -> int:
    """Count the gangs on the busiest port that :func:`_fill_quietest` would use; the machines have room enough."""
    load = 0
    while True:
        room = 0
        following = NO_LIMIT
        for node in range(begin, end):
            flows = links[b, nodes[b, node]["out"]]["flows"]
            if flows <= load:
                room += free[b, node]
            else:
                following = min(following, flows)
        if room >= gang:
            return load
        load = following


@helper
def _on_uplink(racks: Array, links: Array, b: int, rack: int) -> int:
    """Count the gangs on the link by which a rack is left, all its parallel members together; 0 if there is none."""
    first = racks[b, rack]["uplink"]
    if first < 0:
        return 0
    flows = 0
    for link in range(first, first + links[b, first]["members"]):
        flows += links[b, link]["flows"]
    return flows


@helper
def place_by_contention(
    world: Array, nodes: Array, racks: Array, free: Array, holder: Array, chosen: Array, links: Array, b: int,
    gang: int, at: int,
) -> int:
    """Best fit on one machine; else the rack, else the racks, where the fewest gangs are on the links to be used."""
    node = best_fit(free, b, 0, world[b]["nodes"], gang)
    if node >= 0:
        return take(nodes, free, holder, chosen, b, node, gang, at)
    first = nodes.shape[1]
    only = -1
    least = NO_LIMIT
    for rack in range(world[b]["racks"]):
        room = free[b, first + rack]
        if room >= gang:
            begin = racks[b, rack]["first_node"]
            load = _busiest_port(nodes, free, links, b, begin, begin + racks[b, rack]["nodes"], gang)
            if load < least or (load == least and room < free[b, first + only]):
                least = load
                only = rack
    left = gang
    while left > 0:
        rack = only
        if only < 0:
            least = NO_LIMIT
            for other in range(world[b]["racks"]):
                room = free[b, first + other]
                load = _on_uplink(racks, links, b, other)
                if room > 0 and (
                    load < least or (load == least and packs_better(room, free[b, first + rack], left))
                ):
                    least = load
                    rack = other
        count = min(left, free[b, first + rack])
        begin = racks[b, rack]["first_node"]
        end = begin + racks[b, rack]["nodes"]
        at = _fill_quietest(nodes, free, holder, chosen, links, b, begin, end, count, at)
        left -= count
    return at


@helper
def held_s(world: Array, busy: Array, b: int, gpu: int) -> float:
    """Seconds for which gangs have held a GPU, up to the clock [s]."""
    return busy[b, gpu]["busy_s"] + max(world[b]["clock_s"] - busy[b, gpu]["since_s"], 0.0)


@helper
def _take_least_busy(
    world: Array, nodes: Array, free: Array, holder: Array, chosen: Array, busy: Array, b: int, gang: int, at: int,
    marked: int,
) -> int:
    """Take the ``gang`` free GPUs that have been held least, of machines whose mark is ``marked``; lower ids win ties.

    The list is kept sorted while it is filled, so that most GPUs of a large cluster cost one comparison.
    """
    end = at
    for node in range(world[b]["nodes"]):
        if nodes[b, node]["taken"] != marked:
            continue
        first = nodes[b, node]["first_gpu"]
        for gpu in range(first, first + nodes[b, node]["gpus"]):
            if holder[b, gpu] != FREE:
                continue
            seconds = held_s(world, busy, b, gpu)
            i = end
            if end == at + gang:
                i -= 1
                if seconds >= held_s(world, busy, b, chosen[b, i]):
                    continue
            else:
                end += 1
            while i > at and held_s(world, busy, b, chosen[b, i - 1]) > seconds:
                chosen[b, i] = chosen[b, i - 1]
                i -= 1
            chosen[b, i] = gpu
    return end


@helper
def _reserve_listed(
    nodes: Array, free: Array, holder: Array, gpu_node: Array, chosen: Array, b: int, begin: int, end: int
) -> None:
    for i in range(begin, end):
        gpu = chosen[b, i]
        node = gpu_node[b, gpu]
        holder[b, gpu] = RESERVED
        free[b, node] -= 1
        free[b, nodes.shape[1] + nodes[b, node]["rack"]] -= 1


@helper
def place_on_least_busy(
    world: Array, nodes: Array, free: Array, holder: Array, gpu_node: Array, chosen: Array, busy: Array, b: int,
    gang: int, at: int,
) -> int:
    """Take the GPUs that have been held least, wherever they are (FA-FFP of SJF-BCO, with held for charged time)."""
    end = _take_least_busy(world, nodes, free, holder, chosen, busy, b, gang, at, 0)
    _reserve_listed(nodes, free, holder, gpu_node, chosen, b, at, end)
    return end


@helper
def _mark_least_busy(world: Array, nodes: Array, free: Array, busy: Array, b: int, capacity: int) -> int:
    """Mark machines, least mean held time first, until they have ``capacity`` GPUs; return how many are free there."""
    room = 0
    left = capacity
    while left > 0:
        chosen_node = -1
        least = np.inf
        for node in range(world[b]["nodes"]):
            if nodes[b, node]["taken"] == 0:
                first = nodes[b, node]["first_gpu"]
                size = nodes[b, node]["gpus"]
                total = 0.0
                for gpu in range(first, first + size):
                    total += held_s(world, busy, b, gpu)
                if total / size < least:
                    least = total / size
                    chosen_node = node
        if chosen_node < 0:  # all machines on which the gang can run are marked
            return room
        nodes[b, chosen_node]["taken"] = 1
        left -= nodes[b, chosen_node]["gpus"]
        room += free[b, chosen_node]
    return room


@helper
def place_on_least_busy_machines(
    world: Array, nodes: Array, free: Array, holder: Array, gpu_node: Array, chosen: Array, busy: Array, b: int,
    gang: int, at: int,
) -> int:
    """Take the least held GPUs of the fewest least busy machines that could hold the gang; wait if they are taken.

    LBSGF of SJF-BCO, with held for charged time: the machines must have lambda times the gang's GPUs, free or not.
    """
    end = at
    capacity = min(math.ceil(gang * world[b]["least_busy_lambda"]), world[b]["gpus"])
    if _mark_least_busy(world, nodes, free, busy, b, int64(capacity)) >= gang:
        end = _take_least_busy(world, nodes, free, holder, chosen, busy, b, gang, at, 1)
    for node in range(world[b]["nodes"]):
        nodes[b, node]["taken"] = 0
    _reserve_listed(nodes, free, holder, gpu_node, chosen, b, at, end)
    return end


@helper
def place_on_random_machines(
    world: Array, nodes: Array, free: Array, holder: Array, chosen: Array, b: int, gang: int, at: int
) -> int:
    """Draw machines with free GPUs uniformly, one after the other, and take all that is free there."""
    left = gang
    while left > 0:
        with_room = 0
        for node in range(world[b]["nodes"]):
            if free[b, node] > 0:
                with_room += 1
        skip = next_random(world, b) % with_room
        node = 0
        while free[b, node] == 0 or skip > 0:
            if free[b, node] > 0:
                skip -= 1
            node += 1
        count = min(left, free[b, node])
        at = take(nodes, free, holder, chosen, b, node, count, at)
        left -= count
    return at
