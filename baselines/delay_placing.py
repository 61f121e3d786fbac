"""Which GPUs an offer gives to a gang: the tightest tier that it accepts, in the order in which places are visited."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from gpusched_env.simulator.jit import helper
from gpusched_env.core.placement.taking import FREE, NO_LIMIT, next_random

Array = np.ndarray[Any, Any]

# How far an offer went; ascending from tight to loose.
REFUSED: Final = -1
ON_SLOT, ON_MACHINE, IN_RACK, ANYWHERE, SCATTERED = range(5)  # the last = random GPUs


@helper
def count_offer(
    world: Array, nodes: Array, free: Array, holder: Array, rules: Array, leaker: Array, gpu_slot: Array,
    slot_order: Array, node_order: Array, on_offer: Array, b: int,
) -> None:
    """Count the GPUs on offer: those that nobody holds and that no job has leased in vain."""
    slots = slot_order.shape[1]
    first_rack = slots + node_order.shape[1]
    for i in range(on_offer.shape[1]):
        on_offer[b, i] = 0
    for node in range(world[b]["nodes"]):
        if free[b, node] == 0:
            continue
        first_gpu = nodes[b, node]["first_gpu"]
        for gpu in range(first_gpu, first_gpu + nodes[b, node]["gpus"]):
            if holder[b, gpu] == FREE and leaker[b, gpu] < 0:
                on_offer[b, gpu_slot[b, gpu]] += 1
                on_offer[b, slots + node] += 1
                on_offer[b, first_rack + nodes[b, node]["rack"]] += 1
    measure_offer(rules, slot_order, node_order, on_offer, b)


@helper
def measure_offer(rules: Array, slot_order: Array, node_order: Array, on_offer: Array, b: int) -> None:
    """Find how many GPUs are on offer at most in one slot, machine and rack, and in all."""
    slots = slot_order.shape[1]
    first_rack = slots + node_order.shape[1]
    r = rules[b]
    r["most_in_slot"] = 0
    r["most_in_machine"] = 0
    r["most_in_rack"] = 0
    r["free"] = 0
    r["unsorted"] = 1
    for i in range(slots):
        r["most_in_slot"] = max(r["most_in_slot"], on_offer[b, i])
    for i in range(slots, first_rack):
        r["most_in_machine"] = max(r["most_in_machine"], on_offer[b, i])
    for i in range(first_rack, on_offer.shape[1]):
        r["most_in_rack"] = max(r["most_in_rack"], on_offer[b, i])
        r["free"] += on_offer[b, i]


@helper
def visit(order: Array, on_offer: Array, b: int, first: int, places: int, gang: int, best: int) -> int:
    """Find the first place in visiting order with room for the gang, or the fullest one; -1 = none."""
    found = -1
    least = NO_LIMIT
    for i in range(places):
        place = order[b, i]
        room = on_offer[b, first + place]
        if gang <= room < least:
            found = place
            least = room
            if best == 0:
                break
    return found


@helper
def first_rack_with(on_offer: Array, b: int, first: int, racks: int, gang: int, best: int) -> int:
    """Find the first rack, ascending, with room for the gang, or the fullest one; -1 = none."""
    found = -1
    least = NO_LIMIT
    for rack in range(racks):
        room = on_offer[b, first + rack]
        if gang <= room < least:
            found = rack
            least = room
            if best == 0:
                break
    return found


@helper
def take_offered(
    nodes: Array, holder: Array, gpu_node: Array, chosen: Array, leaker: Array, gpu_slot: Array, slot_order: Array,
    node_order: Array, on_offer: Array, b: int, begin: int, end: int, count: int, at: int,
) -> int:
    """Choose the ``count`` lowest GPUs on offer of ``begin:end``, append them from ``at``; return the new end."""
    slots = slot_order.shape[1]
    first_rack = slots + node_order.shape[1]
    left = count
    gpu = begin
    while left > 0 and gpu < end:
        if holder[b, gpu] == FREE and leaker[b, gpu] < 0:
            node = gpu_node[b, gpu]
            chosen[b, at] = gpu
            at += 1
            left -= 1
            on_offer[b, gpu_slot[b, gpu]] -= 1
            on_offer[b, slots + node] -= 1
            on_offer[b, first_rack + nodes[b, node]["rack"]] -= 1
        gpu += 1
    return at


@helper
def emptiest_first(
    nodes: Array, holder: Array, gpu_node: Array, chosen: Array, leaker: Array, gpu_slot: Array, slot_order: Array,
    node_order: Array, on_offer: Array, b: int, begin: int, end: int, count: int, at: int,
) -> int:
    """Choose GPUs of the machines ``begin:end``, those with most on offer first, the last part by best fit."""
    slots = slot_order.shape[1]
    left = count
    while left > 0:
        best = -1
        fits = False
        for i in range(node_order.shape[1]):
            node = node_order[b, i]
            if node < begin or node >= end:
                continue
            room = on_offer[b, slots + node]
            if best < 0:
                best = node
                fits = room >= left
            elif room >= left:
                if not fits or room < on_offer[b, slots + best]:
                    best = node
                    fits = True
            elif not fits and room > on_offer[b, slots + best]:
                best = node
        part = min(left, on_offer[b, slots + best])
        first = nodes[b, best]["first_gpu"]
        at = take_offered(
            nodes, holder, gpu_node, chosen, leaker, gpu_slot, slot_order, node_order, on_offer, b, first,
            first + nodes[b, best]["gpus"], part, at,
        )
        left -= part
    return at


@helper
def scatter(
    world: Array, nodes: Array, holder: Array, gpu_node: Array, chosen: Array, rules: Array, leaker: Array,
    gpu_slot: Array, slot_order: Array, node_order: Array, on_offer: Array, b: int, gang: int,
) -> None:
    """Choose GPUs on offer at random: every set of so many is equally likely."""
    left = gang
    offered = rules[b]["free"]
    for gpu in range(world[b]["gpus"]):
        if holder[b, gpu] == FREE and leaker[b, gpu] < 0:
            if next_random(world, b) % offered < left:
                take_offered(
                    nodes, holder, gpu_node, chosen, leaker, gpu_slot, slot_order, node_order, on_offer, b, gpu,
                    gpu + 1, 1, gang - left,
                )
                left -= 1
            offered -= 1


@helper
def choose_gpus(
    world: Array, nodes: Array, racks: Array, holder: Array, gpu_node: Array, chosen: Array, rules: Array,
    leaker: Array, gpu_slot: Array, slot_gpu: Array, slot_order: Array, node_order: Array, on_offer: Array, b: int,
    gang: int, tier: int, place: int,
) -> None:
    """Write the GPUs that a gang gets at a place of a tier to ``chosen``, and take them off the offer."""
    if tier == SCATTERED:
        scatter(
            world, nodes, holder, gpu_node, chosen, rules, leaker, gpu_slot, slot_order, node_order, on_offer, b, gang
        )
    elif tier >= IN_RACK:
        begin = 0
        end = world[b]["nodes"]
        if tier == IN_RACK:
            begin = racks[b, place]["first_node"]
            end = begin + racks[b, place]["nodes"]
        if rules[b]["best_fit"]:
            emptiest_first(
                nodes, holder, gpu_node, chosen, leaker, gpu_slot, slot_order, node_order, on_offer, b, begin, end,
                gang, 0,
            )
        else:
            take_offered(
                nodes, holder, gpu_node, chosen, leaker, gpu_slot, slot_order, node_order, on_offer, b,
                nodes[b, begin]["first_gpu"], nodes[b, end - 1]["first_gpu"] + nodes[b, end - 1]["gpus"], gang, 0,
            )
    elif tier == ON_SLOT:
        take_offered(
            nodes, holder, gpu_node, chosen, leaker, gpu_slot, slot_order, node_order, on_offer, b, slot_gpu[b, place],
            slot_gpu[b, place + 1], gang, 0,
        )
    else:
        first = nodes[b, place]["first_gpu"]
        take_offered(
            nodes, holder, gpu_node, chosen, leaker, gpu_slot, slot_order, node_order, on_offer, b, first,
            first + nodes[b, place]["gpus"], gang, 0,
        )
    measure_offer(rules, slot_order, node_order, on_offer, b)
