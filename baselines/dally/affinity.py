"""Gandiva as Dally's simulator implements it: machines with an affinity for a gang size, and migrations."""

from __future__ import annotations

from gpusched_env.baselines.dally.keeping import may_stop
from gpusched_env.baselines.dally.placing import ANYWHERE, IN_RACK, ON_MACHINE, REFUSED, SCATTERED, visit
from gpusched_env.baselines.dally.state import Delay
from gpusched_env.core.handle import kernel
from gpusched_env.core.state import RUNNING, Run
from gpusched_env.problem.cluster import NETWORK, RACK


@kernel
def may_move(sim: Run, delay: Delay, row: int) -> bool:
    """Return whether a running gang spans machines but fits in one machine, or spans racks but fits in one rack."""
    if not may_stop(sim, delay, row):
        return False
    tier = sim.replicas[sim.jobs[row]["replica"]]["tier"]
    if delay.tasks[row]["gpus"] <= delay.rules["machine_gpus"]:
        return tier in (RACK, NETWORK)
    return tier == NETWORK and delay.tasks[row]["gpus"] <= delay.rules["rack_gpus"]


@kernel
def place_by_affinity(sim: Run, delay: Delay, row: int) -> tuple[int, int]:
    """Find a place for a gang: its affinity first, then machines without one, then others; of each, the largest offer.

    A running gang accepts only GPUs of one machine, or rack if no machine is so large. As in the authors' code,
    machines that have the same number in their racks share one affinity.
    """
    r = delay.rules
    gang = delay.tasks[row]["gpus"]
    moves = sim.jobs[row]["status"] == RUNNING
    slots = delay.slot_order.shape[0]
    if gang > r["machine_gpus"]:
        if not moves:
            return SCATTERED, 0
        rack = visit(delay, delay.rack_order, slots + delay.node_order.shape[0], gang)
        return (IN_RACK if rack >= 0 else REFUSED), rack
    found = -1
    found_kind = 3
    for i in range(delay.node_order.shape[0]):
        node = delay.node_order[i]
        room = delay.on_offer[slots + node]
        if room < gang:
            continue
        of = delay.affinity[node - sim.racks[sim.nodes[node]["rack"]]["first_node"]]
        kind = 0 if of == gang else 1 if of == 0 else 2
        if kind < found_kind or (kind == found_kind and room > delay.on_offer[slots + found]):
            found = node
            found_kind = kind
    if found < 0:
        return (REFUSED if moves else ANYWHERE), 0
    if found_kind == 1:
        delay.affinity[found - sim.racks[sim.nodes[found]["rack"]]["first_node"]] = gang
    return ON_MACHINE, found
