"""Flows: the ring of a gang laid on the links, and taken off again."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from gpusched_env.cluster import MACHINE
from gpusched_env.network import ecmp
from gpusched_env.network.collectives import ALIKE
from gpusched_env.portable.elementary import log2, power
from gpusched_env.simulator.jit import helper, int64

path_hash = helper(ecmp.path_hash)

Array = np.ndarray[Any, Any]

# Numbers of the collectives (gpusched_env.network.collectives.COLLECTIVES) and of the contention models
# (gpusched_env.network.contention.CONTENTION_MODELS), in the order of those registries.
RING, HIERARCHICAL, TREE, SHARDED, BEST = range(5)
NO_CONTENTION, SOLO, MAXMIN, KWAY, FLAT, TABLE, BUDGET, TIERED = range(8)
BUDGET_MACHINES: Final = 8  # machines at which each half of the budget is used up (SJF-BCO, section 7)


@helper
def touch_link(world: Array, links: Array, b: int, link: int) -> None:
    """Remember that a link's flows have changed."""
    if links[b, link]["is_changed"] == 0:
        links[b, link]["is_changed"] = 1
        links[b, world[b]["changed"]]["changed"] = link
        world[b]["changed"] += 1


@helper
def list_flow(world: Array, replicas: Array, b: int, number: int) -> None:
    """Remember that a gang's rate or iteration may change."""
    if replicas[b, number]["is_listed"] == 0:
        replicas[b, number]["is_listed"] = 1
        replicas[b, world[b]["listed"]]["listed"] = number
        world[b]["listed"] += 1


@helper
def cross(
    world: Array, replicas: Array, links: Array, uses: Array, b: int, replica: int, link: int, weight: float
) -> None:
    """Add ``weight`` ring edges of a replica to a link."""
    use = replicas[b, replica]["first_use"]
    while use >= 0 and uses[b, use]["link"] != link:
        use = uses[b, use]["next_of_replica"]
    if use >= 0:
        uses[b, use]["weight"] += weight
        return
    use = world[b]["first_free_use"]
    u = uses[b, use]
    world[b]["first_free_use"] = u["next_of_replica"]
    u["weight"] = weight
    u["replica"] = replica
    u["link"] = link
    u["next_of_replica"] = replicas[b, replica]["first_use"]
    replicas[b, replica]["first_use"] = use
    first = links[b, link]["first_use"]
    u["next_of_link"] = first
    u["previous_of_link"] = -1
    if first >= 0:
        uses[b, first]["previous_of_link"] = use
    links[b, link]["first_use"] = use
    links[b, link]["flows"] += 1
    touch_link(world, links, b, link)


@helper
def cross_edge(
    world: Array, jobs: Array, replicas: Array, nodes: Array, links: Array, uses: Array, routes: Array, pairs: Array,
    b: int, replica: int, source: int, target: int, edge: int,
) -> float:
    """Lay one ring edge between two machines on the links; return the latency of a step over it [s]."""
    w = world[b]
    # A closed walk in a tree crosses each link equally often in both directions, so each crossing is half an edge.
    weight = 0.5 if w["duplex"] else 1.0
    cross(world, replicas, links, uses, b, replica, int64(nodes[b, source]["out"]), weight)
    cross(world, replicas, links, uses, b, replica, int64(nodes[b, target]["into"]), weight)
    pair = pairs[b, nodes[b, source]["edge"] * w["edges"] + nodes[b, target]["edge"]]
    for i in range(pair["begin"], pair["end"]):
        link = int64(routes[b, i]["link"])
        members = links[b, link]["members"]
        if members > 1:
            job = replicas[b, replica]["job"]
            start = jobs[b, job]["preemptions"]  # restarts draw anew
            link += path_hash(w["path_seed"], int64(job), int64(start), edge) % members
        cross(world, replicas, links, uses, b, replica, link, weight * routes[b, i]["share"])
    return pair["latency_s"]


@helper
def solo_rate(replicas: Array, links: Array, uses: Array, b: int, replica: int, cap_Bps: float, built: bool) -> float:
    """Rate of a ring edge if no other gang used the network, with links as they are or as they were built [byte/s]."""
    rate = cap_Bps
    use = replicas[b, replica]["first_use"]
    while use >= 0:
        link = links[b, uses[b, use]["link"]]
        rate = min(rate, (link["built_Bps"] if built else link["capacity"]) / uses[b, use]["weight"])
        use = uses[b, use]["next_of_replica"]
    return rate


@helper
def price(
    world: Array, b: int, collective: int, gang: int, machines: int, largest: int, gradient_bytes: float, step_s: float,
) -> tuple[float, float]:
    """Seconds that do not depend on the rate between machines, and bytes over each ring edge (network.md 3.2).

    Parameters
    ----------
    gang, machines, largest : GPUs, machines, most GPUs on one machine
    step_s : latency of one step between machines [s]
    """
    w = world[b]
    inside_s = w["gpu_latency_s"]
    if machines == 1 or collective == RING or collective == SHARDED:
        steps = 2.0 * (gang - 1)
        between = 2.0 * (machines - 1) if machines > 1 else 0.0
        fixed = (steps - between) * inside_s + between * step_s
        return fixed, steps / gang * gradient_bytes
    inside = 2.0 * (largest - 1) * inside_s + 2.0 * (largest - 1) / largest * gradient_bytes / w["gpu_Bps"]
    if collective == HIERARCHICAL:
        steps = 2.0 * (machines - 1)
        return inside + steps * step_s, steps / machines * gradient_bytes
    return inside + 2.0 * log2(machines) * step_s, 2.0 * gradient_bytes


@helper
def port_rate(world: Array, b: int, collective: int, machines: int, largest: int) -> float:
    """Rate that the ports of a gang's GPUs allow on an edge between machines, or inside one [byte/s].

    In the collectives of two levels every GPU of a machine sends a part of its own.
    """
    two_levels = machines > 1 and (collective == HIERARCHICAL or collective == TREE)
    return world[b]["gpu_Bps"] * (largest if two_levels else 1)


@helper
def overlap_norm(compute_s: float, communication_s: float, overlap: float) -> float:
    """p-norm of compute and communication, as gpusched_env.performance.overlapped [s]."""
    longer = max(compute_s, communication_s)
    if overlap == np.inf:
        return longer
    if overlap == 1.0:
        return compute_s + communication_s
    ratio = min(compute_s, communication_s) / longer
    return longer * power(1.0 + power(ratio, overlap), 1.0 / overlap)


@helper
def micro_s(pace: Any, compute_share: float) -> float:
    """Seconds of the last sub-step of an iteration, which communicates; of the whole iteration if it has one [s]."""
    if compute_share == 1.0:
        return pace["iteration_s"]
    return overlap_norm(pace["compute_s"] * compute_share, pace["communication_s"], pace["overlap"])


@helper
def begin_flow(
    world: Array, jobs: Array, replicas: Array, nodes: Array, gpu_node: Array, paces: Array, chosen: Array,
    links: Array, uses: Array, routes: Array, pairs: Array, b: int, number: int, slowest: int,
) -> None:
    """Lay a gang's ring on the links: machines in order of their number, so that racks are crossed once each."""
    w = world[b]
    r = replicas[b, number]
    gang = int64(r["gpus"])
    machines = 0
    largest = 0
    low = int64(w["nodes"])
    high = int64(-1)
    for i in range(gang):
        node = int64(gpu_node[b, chosen[b, i]])
        if nodes[b, node]["taken"] == 0:
            machines += 1
        nodes[b, node]["taken"] += 1
        largest = max(largest, nodes[b, node]["taken"])
        low = min(low, node)
        high = max(high, node)
    pace = paces[b, jobs[b, r["job"]]["job_class"], r["tier"], slowest]
    r["compute_s"] = pace["compute_s"] * r["compute_share"]
    r["overlap"] = pace["overlap"]
    r["profile"] = pace["profile"]
    r["machines"] = machines
    r["first_use"] = -1
    r["bottleneck"] = -1
    cap = np.inf
    step_s = 0.0
    previous = high
    edge = 0
    for node in range(low, high + 1):
        taken = nodes[b, node]["taken"]
        if taken == 0:
            continue
        nodes[b, node]["taken"] = 0
        if machines > 1:
            latency_s = cross_edge(
                world, jobs, replicas, nodes, links, uses, routes, pairs, b, number, int64(previous), int64(node), edge
            )
            step_s = max(step_s, latency_s)
            cap = min(cap, w["nic_Bps"] * min(taken, w["nics"]) / w["nics"])
        if nodes[b, node]["bus"] >= 0 and (taken > 1 or machines > 1):
            cross(world, replicas, links, uses, b, number, int64(nodes[b, node]["bus"]), 1.0)
        previous = node
        edge += 1
    choice = int64(pace["collective"])
    solo = solo_rate(replicas, links, uses, b, number, cap, False)
    gradient = 0.0 if gang == 1 else pace["gradient_bytes"]
    if choice == BEST:
        best = np.inf
        for candidate in range(SHARDED):
            rate = min(solo, port_rate(world, b, candidate, machines, largest))
            fixed, wire = price(world, b, candidate, gang, machines, largest, gradient, step_s)
            if (fixed + wire / rate) * ALIKE < best:
                best = fixed + wire / rate
                choice = int64(candidate)
    solo = min(solo, port_rate(world, b, choice, machines, largest))
    fixed, wire = price(world, b, choice, gang, machines, largest, gradient, step_s)
    if gradient == 0.0:
        fixed = 0.0
    fixed += gradient * (gang - 1) / gang / w["reduction_Bps"] + w["machine_overhead_s"] * machines
    if pace["measured"]:  # what was measured alone is taken for transfer, all of which contention stretches
        fixed = 0.0
        built = solo_rate(replicas, links, uses, b, number, cap, True)
        wire = pace["communication_s"] * min(built, port_rate(world, b, choice, machines, largest))
    r["fixed_s"] = fixed
    r["wire_bytes"] = wire
    r["solo_Bps"] = solo
    r["rate_Bps"] = solo
    r["priced_Bps"] = solo
    if w["contention"] == BUDGET:  # extra time is all that a placement costs: bytes do not count beside it
        alone = paces[b, jobs[b, r["job"]]["job_class"], MACHINE, slowest]
        r["compute_s"] = micro_s(alone, r["compute_share"])
        r["fixed_s"] = 0.0
        r["wire_bytes"] = 0.0
    if w["contention"] == TIERED:  # the tier alone stretches the iteration
        r["compute_s"] = micro_s(pace, r["compute_share"])
        r["fixed_s"] = 0.0
        r["wire_bytes"] = 0.0
    if w["contention"] != BUDGET and r["wire_bytes"] == 0.0:  # nothing to send: no flow
        end_flow(world, replicas, links, uses, b, number)
    r["settled_s"] = iteration_at(world, replicas, b, number, 1.0)
    r["iteration_s"] = r["settled_s"]
    r["told_s"] = -1.0
    list_flow(world, replicas, b, number)
    w["uncommitted"] = 1


@helper
def iteration_at(world: Array, replicas: Array, b: int, number: int, slowdown: float) -> float:
    """Seconds of one iteration if the bytes take ``slowdown`` times as long as alone [s]."""
    r = replicas[b, number]
    communication = r["fixed_s"]
    if r["wire_bytes"] > 0.0:
        if slowdown == np.inf:
            return np.inf
        communication += r["wire_bytes"] / r["solo_Bps"] * slowdown
    return overlap_norm(r["compute_s"], communication, r["overlap"])


@helper
def end_flow(world: Array, replicas: Array, links: Array, uses: Array, b: int, number: int) -> None:
    """Take a gang's ring off the links."""
    w = world[b]
    use = replicas[b, number]["first_use"]
    while use >= 0:
        u = uses[b, use]
        link = links[b, u["link"]]
        following = u["next_of_replica"]
        if u["previous_of_link"] >= 0:
            uses[b, u["previous_of_link"]]["next_of_link"] = u["next_of_link"]
        else:
            link["first_use"] = u["next_of_link"]
        if u["next_of_link"] >= 0:
            uses[b, u["next_of_link"]]["previous_of_link"] = u["previous_of_link"]
        link["flows"] -= 1
        touch_link(world, links, b, int64(u["link"]))
        u["next_of_replica"] = w["first_free_use"]
        w["first_free_use"] = use
        use = following
    replicas[b, number]["first_use"] = -1
