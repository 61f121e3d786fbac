"""Choice of the GPUs of an offer: the tightest tier that a gang accepts, places in visiting order."""

from __future__ import annotations

from typing import Final

import numpy as np

from gpusched_env.baselines.dally.state import Delay
from gpusched_env.core.handle import helper, kernel
from gpusched_env.core.placement.taking import FREE, NO_LIMIT, next_random
from gpusched_env.core.state import Run

Array = np.ndarray

# Accepted tier of an offer, from tight to loose.
REFUSED: Final = -1
ON_SLOT, ON_MACHINE, IN_RACK, ANYWHERE, SCATTERED = range(5)  # SCATTERED = random GPUs


@kernel
def count_offer(sim: Run, delay: Delay) -> None:
    """Count the GPUs on offer, by slot, machine and rack: GPUs that are free, and neither leaked nor kept."""
    slots = delay.slot_order.shape[0]
    first_rack = slots + delay.node_order.shape[0]
    for i in range(delay.on_offer.shape[0]):
        delay.on_offer[i] = 0
    for node in range(sim.world["nodes"]):
        if sim.free[node] == 0:
            continue
        first_gpu = sim.nodes[node]["first_gpu"]
        for gpu in range(first_gpu, first_gpu + sim.nodes[node]["gpus"]):
            if sim.holder[gpu] == FREE and delay.leaker[gpu] < 0:
                delay.on_offer[delay.gpu_slot[gpu]] += 1
                delay.on_offer[slots + node] += 1
                delay.on_offer[first_rack + sim.nodes[node]["rack"]] += 1
    measure_offer(delay)


@kernel
def measure_offer(delay: Delay) -> None:
    """Compute the most GPUs on offer in one slot, in one machine and in one rack, and all GPUs on offer."""
    slots = delay.slot_order.shape[0]
    first_rack = slots + delay.node_order.shape[0]
    r = delay.rules
    r["most_in_slot"] = 0
    r["most_in_machine"] = 0
    r["most_in_rack"] = 0
    r["free"] = 0
    r["unsorted"] = 1
    for i in range(slots):
        r["most_in_slot"] = max(r["most_in_slot"], delay.on_offer[i])
    for i in range(slots, first_rack):
        r["most_in_machine"] = max(r["most_in_machine"], delay.on_offer[i])
    for i in range(first_rack, delay.on_offer.shape[0]):
        r["most_in_rack"] = max(r["most_in_rack"], delay.on_offer[i])
        r["free"] += delay.on_offer[i]


@helper
def visit(delay: Delay, order: Array, first: int, gang: int) -> int:
    """Find the first place, in visiting order, that can hold the gang; best fit: that with least room; -1 = none."""
    found = -1
    least = NO_LIMIT
    for i in range(order.shape[0]):
        place = order[i]
        room = delay.on_offer[first + place]
        if gang <= room < least:
            found = place
            least = room
            if delay.rules["best_fit"] == 0:
                break
    return found


@kernel
def take_offered(sim: Run, delay: Delay, begin: int, end: int, count: int, at: int) -> int:
    """Append the ``count`` lowest GPUs on offer in ``begin:end`` to ``chosen`` from index ``at``; give the new end."""
    slots = delay.slot_order.shape[0]
    first_rack = slots + delay.node_order.shape[0]
    left = count
    gpu = begin
    while left > 0 and gpu < end:
        if sim.holder[gpu] == FREE and delay.leaker[gpu] < 0:
            node = sim.gpu_node[gpu]
            sim.chosen[at] = gpu
            at += 1
            left -= 1
            delay.on_offer[delay.gpu_slot[gpu]] -= 1
            delay.on_offer[slots + node] -= 1
            delay.on_offer[first_rack + sim.nodes[node]["rack"]] -= 1
        gpu += 1
    return at


@kernel
def emptiest_first(sim: Run, delay: Delay, begin: int, end: int, count: int, at: int) -> int:
    """Choose GPUs of the machines ``begin:end``: most on offer first, the last part by best fit; return the new end."""
    slots = delay.slot_order.shape[0]
    left = count
    while left > 0:
        best = -1
        fits = False
        for i in range(delay.node_order.shape[0]):
            node = delay.node_order[i]
            if node < begin or node >= end:
                continue
            room = delay.on_offer[slots + node]
            if best < 0:
                best = node
                fits = room >= left
            elif room >= left:
                if not fits or room < delay.on_offer[slots + best]:
                    best = node
                    fits = True
            elif not fits and room > delay.on_offer[slots + best]:
                best = node
        part = min(left, delay.on_offer[slots + best])
        first = sim.nodes[best]["first_gpu"]
        at = take_offered(sim, delay, first, first + sim.nodes[best]["gpus"], part, at)
        left -= part
    return at


@kernel
def scatter(sim: Run, delay: Delay, gang: int) -> None:
    """Choose GPUs on offer at random; every set of ``gang`` GPUs is equally likely."""
    left = gang
    offered = delay.rules["free"]
    for gpu in range(sim.world["gpus"]):
        if sim.holder[gpu] == FREE and delay.leaker[gpu] < 0:
            if next_random(sim) % offered < left:
                take_offered(sim, delay, gpu, gpu + 1, 1, gang - left)
                left -= 1
            offered -= 1


@kernel
def choose_gpus(sim: Run, delay: Delay, gang: int, tier: int, place: int) -> None:
    """Write the GPUs of a gang at a place of a tier to ``chosen``, and take them off the offer."""
    if tier == SCATTERED:
        scatter(sim, delay, gang)
    elif tier >= IN_RACK:
        begin = 0
        end = sim.world["nodes"]
        if tier == IN_RACK:
            begin = sim.racks[place]["first_node"]
            end = begin + sim.racks[place]["nodes"]
        if delay.rules["best_fit"]:
            emptiest_first(sim, delay, begin, end, gang, 0)
        else:
            take_offered(
                sim,
                delay,
                sim.nodes[begin]["first_gpu"],
                sim.nodes[end - 1]["first_gpu"] + sim.nodes[end - 1]["gpus"],
                gang,
                0,
            )
    elif tier == ON_SLOT:
        take_offered(sim, delay, delay.slot_gpu[place], delay.slot_gpu[place + 1], gang, 0)
    else:
        first = sim.nodes[place]["first_gpu"]
        take_offered(sim, delay, first, first + sim.nodes[place]["gpus"], gang, 0)
    measure_offer(delay)
