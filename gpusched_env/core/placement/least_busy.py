"""The GPUs, or machines, that gangs have held for the least time (FA-FFP and LBSGF of SJF-BCO)."""

from __future__ import annotations

import math

import numpy as np

from gpusched_env.core.handle import helper, kernel
from gpusched_env.core.placement.rules import placement_rule
from gpusched_env.core.placement.taking import FREE, room_of, take_listed
from gpusched_env.core.state import Run


@helper
def held_s(sim: Run, gpu: int) -> float:
    """Return the time for which gangs have held a GPU so far [s]."""
    return sim.busy[gpu]["busy_s"] + max(sim.world["clock_s"] - sim.busy[gpu]["since_s"], 0.0)


@kernel
def _take_least_busy(sim: Run, gang: int, at: int, marked: int) -> int:
    """Write the ``gang`` free GPUs that gangs have held for the least time to ``chosen``; return the end of the list.

    Ties: the lowest id. Only machines whose ``taken`` is ``marked`` are considered, and nothing is reserved. The list
    is always sorted (insertion sort), so most GPUs of a large cluster take one comparison.
    """
    end = at
    for node in range(sim.world["nodes"]):
        if sim.nodes[node]["taken"] != marked:
            continue
        first = sim.nodes[node]["first_gpu"]
        for gpu in range(first, first + sim.nodes[node]["gpus"]):
            if sim.holder[gpu] != FREE:
                continue
            seconds = held_s(sim, gpu)
            i = end
            if end == at + gang:
                i -= 1
                if seconds >= held_s(sim, sim.chosen[i]):
                    continue
            else:
                end += 1
            while i > at and held_s(sim, sim.chosen[i - 1]) > seconds:
                sim.chosen[i] = sim.chosen[i - 1]
                i -= 1
            sim.chosen[i] = gpu
    return end


@placement_rule("least-busy", "the GPUs that gangs have held least so far, anywhere", anywhere=True)
@kernel(lazy=True)
def place_on_least_busy(sim: Run, at: int, kind: int, gang: int, supply: int) -> int:
    """Take the GPUs that gangs have held for the least time, on any machine.

    This is FA-FFP of SJF-BCO, but by the time for which GPUs have been held instead of the charged time.
    """
    end = _take_least_busy(sim, gang, at, 0)
    take_listed(sim, at, end)
    return end


@kernel
def _mark_least_busy(sim: Run, kind: int, capacity: int) -> int:
    """Mark machines, least mean time held first, until a gang may use ``capacity`` GPUs; return how many are free."""
    room = 0
    left = capacity
    while left > 0:
        chosen_node = -1
        least = np.inf
        for node in range(sim.world["nodes"]):
            if sim.nodes[node]["taken"] == 0:
                first = sim.nodes[node]["first_gpu"]
                size = sim.nodes[node]["gpus"]
                total = 0.0
                for gpu in range(first, first + size):
                    total += held_s(sim, gpu)
                if total / size < least:
                    least = total / size
                    chosen_node = node
        if chosen_node < 0:  # all machines on which the gang can run are marked
            return room
        sim.nodes[chosen_node]["taken"] = 1
        left -= room_of(sim, kind, sim.nodes[chosen_node]["gpus"])
        room += sim.free[chosen_node]
    return room


@placement_rule(
    "least-busy-servers", "as least-busy, on the fewest least busy machines large enough for the gang; else wait"
)
@kernel(lazy=True)
def place_on_least_busy_machines(sim: Run, at: int, kind: int, gang: int, supply: int) -> int:
    """Take the GPUs that have been held for the least time, on the least busy machines only.

    The rule considers the smallest number of least busy machines that have lambda x gang GPUs, free or not. If too few
    of these GPUs are free, the gang waits. This is LBSGF of SJF-BCO, but by the time for which GPUs have been held
    instead of the charged time.
    """
    end = at
    capacity = min(math.ceil(gang * sim.world["least_busy_lambda"]), sim.world["gpus"])
    if _mark_least_busy(sim, kind, capacity) >= gang:
        end = _take_least_busy(sim, gang, at, 1)
    for node in range(sim.world["nodes"]):
        sim.nodes[node]["taken"] = 0
    take_listed(sim, at, end)
    return end
