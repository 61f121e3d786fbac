"""Gandiva as Dally's simulator has it: machines that have an affinity for a gang size, and moves to a tighter tier."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpusched_env.baselines.delay_keeping import may_stop
from gpusched_env.baselines.delay_placing import ANYWHERE, IN_RACK, ON_MACHINE, REFUSED, SCATTERED, first_rack_with
from gpusched_env.cluster import NETWORK, RACK
from gpusched_env.simulator.jit import helper, int64
from gpusched_env.core.state import RUNNING

Array = np.ndarray[Any, Any]


@helper
def may_move(world: Array, jobs: Array, replicas: Array, rules: Array, tasks: Array, b: int, row: int) -> bool:
    """Tell whether a running gang spans machines and fits in one, or spans racks and fits in one."""
    if not may_stop(world, jobs, replicas, tasks, b, row):
        return False
    tier = replicas[b, jobs[b, row]["replica"]]["tier"]
    if tasks[b, row]["gpus"] <= rules[b]["machine_gpus"]:
        return tier in (RACK, NETWORK)
    return tier == NETWORK and tasks[b, row]["gpus"] <= rules[b]["rack_gpus"]


@helper
def place_by_affinity(
    jobs: Array, nodes: Array, racks: Array, rules: Array, tasks: Array, affinity: Array, slot_order: Array,
    node_order: Array, on_offer: Array, b: int, row: int,
) -> tuple[int, int]:
    """Find a place for a gang; one that runs accepts only a machine, or a rack if no machine is large enough.

    Of the machines with room: those of the gang's affinity, then those of none, then any; of each kind the one with
    most on offer. As in the authors' code all machines with the same number in their racks have one affinity.
    """
    r = rules[b]
    gang = int64(tasks[b, row]["gpus"])
    moves = jobs[b, row]["status"] == RUNNING
    slots = slot_order.shape[1]
    if gang > r["machine_gpus"]:
        if not moves:
            return int64(SCATTERED), int64(0)
        first_rack = slots + node_order.shape[1]
        rack = first_rack_with(on_offer, b, first_rack, on_offer.shape[1] - first_rack, gang, int64(r["best_fit"]))
        return int64(IN_RACK if rack >= 0 else REFUSED), int64(rack)
    found = -1
    found_kind = 3
    for i in range(node_order.shape[1]):
        node = node_order[b, i]
        room = on_offer[b, slots + node]
        if room < gang:
            continue
        of = affinity[b, node - racks[b, nodes[b, node]["rack"]]["first_node"]]
        kind = 0 if of == gang else 1 if of == 0 else 2
        if kind < found_kind or (kind == found_kind and room > on_offer[b, slots + found]):
            found = node
            found_kind = kind
    if found < 0:
        return int64(REFUSED if moves else ANYWHERE), int64(0)
    if found_kind == 1:
        affinity[b, found - racks[b, nodes[b, found]["rack"]]["first_node"]] = gang
    return int64(ON_MACHINE), int64(found)
