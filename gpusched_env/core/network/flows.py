"""Flows: add the ring of a gang, or its parallel groups, to the links that they cross, and remove them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gpusched_env.core import arithmetic  # noqa: F401 - kernels may call log2 and power
from gpusched_env.core.handle import helper, kernel
from gpusched_env.core.network.contention import begin
from gpusched_env.core.state import Run
from gpusched_env.network import ecmp, plans
from gpusched_env.network.collectives import ALIKE, KNEE_BYTES, TREE_SHARE
from gpusched_env.portable.elementary import log2, power

path_hash = kernel(ecmp.path_hash)
rank_of = helper(plans.rank_of)

# Numbers of the collectives, in the order of gpusched_env.network.collectives.COLLECTIVES.
RING, HIERARCHICAL, TREE, SHARDED, BEST, NCCL_TREE, NVLS, NCCL = range(8)


@kernel
def touch_link(sim: Run, link: int) -> None:
    """Put a link on the list of links whose flows have changed."""
    if sim.links[link]["is_changed"] == 0:
        sim.links[link]["is_changed"] = 1
        sim.links[sim.world["changed"]]["changed"] = link
        sim.world["changed"] += 1


@helper
def list_flow(sim: Run, number: int) -> None:
    """Put a gang on the list of gangs whose rate or iteration time may change."""
    if sim.replicas[number]["is_listed"] == 0:
        sim.replicas[number]["is_listed"] = 1
        sim.replicas[sim.world["listed"]]["listed"] = number
        sim.world["listed"] += 1


@kernel
def list_flows_on(sim: Run, link: int) -> None:
    """Apply :func:`list_flow` to all gangs on a link."""
    use = sim.links[link]["first_use"]
    while use >= 0:
        list_flow(sim, sim.uses[use]["replica"])
        use = sim.uses[use]["next_of_link"]


@kernel
def cross(sim: Run, replica: int, link: int, weight: float) -> None:
    """Add ``weight`` ring edges of a replica to a link, before another replica is added to links."""
    use = sim.links[link]["first_use"]  # the use of the replica, if it has one: the latest is the first
    if use >= 0 and sim.uses[use]["replica"] == replica:
        sim.uses[use]["weight"] += weight
        return
    use = sim.world["first_free_use"]
    u = sim.uses[use]
    sim.world["first_free_use"] = u["next_of_replica"]
    u["weight"] = weight
    u["replica"] = replica
    u["link"] = link
    u["next_of_replica"] = sim.replicas[replica]["first_use"]
    sim.replicas[replica]["first_use"] = use
    first = sim.links[link]["first_use"]
    u["next_of_link"] = first
    u["previous_of_link"] = -1
    if first >= 0:
        sim.uses[first]["previous_of_link"] = use
    sim.links[link]["first_use"] = use
    sim.links[link]["flows"] += 1
    touch_link(sim, link)


@helper
def cross_edge(sim: Run, replica: int, source: int, target: int, edge: int, load: float) -> float:
    """Add ``load`` ring edges between two machines to their links; return the latency of a step over them [s]."""
    w = sim.world
    # A closed walk in a tree crosses each link equally often in both directions, so each crossing is half an edge.
    weight = 0.5 * load if w["duplex"] else load
    cross(sim, replica, sim.nodes[source]["out"], weight)
    cross(sim, replica, sim.nodes[target]["into"], weight)
    pair = sim.pairs[sim.nodes[source]["edge"] * w["edges"] + sim.nodes[target]["edge"]]
    for i in range(pair["begin"], pair["end"]):
        link = sim.routes[i]["link"]
        members = sim.links[link]["members"]
        if members > 1:
            job = sim.replicas[replica]["job"]
            start = sim.jobs[job]["preemptions"]  # each restart draws new paths
            link += path_hash(w["path_seed"], int(job), int(start), edge) % int(members)
        cross(sim, replica, link, weight * sim.routes[i]["share"])
    return pair["latency_s"]


@helper
def solo_rate(sim: Run, replica: int, cap_Bps: float, built: bool) -> float:
    """Return the rate of a ring edge if no other gang used the network [byte/s].

    ``built`` = use the nominal capacities of the links instead of the present capacities.
    """
    rate = cap_Bps
    use = sim.replicas[replica]["first_use"]
    while use >= 0:
        link = sim.links[sim.uses[use]["link"]]
        rate = min(rate, (link["built_Bps"] if built else link["capacity"]) / sim.uses[use]["weight"])
        use = sim.uses[use]["next_of_replica"]
    return rate


@helper
def port_bytes(sim: Run, machines: int, largest: int) -> float:
    """Return the bytes that NCCL's trees send over a GPU's port / gradient bytes, at the port's full rate."""
    if sim.world["switch_share"] > 0.0:
        return (largest + 1.0) / largest / sim.world["switch_share"]
    return 2.0 if machines > 1 else 2.0 * (largest - 1) / largest


@helper
def price(
    sim: Run, number: int, collective: int, largest: int, gradient_bytes: float, step_s: float
) -> tuple[float, float]:
    """Return the communication time that does not depend on rates between machines [s], and the bytes per ring edge.

    docs/network.md has the formulas. The gang has at most ``largest`` GPUs on a machine; a step between machines has
    the latency ``step_s`` [s].
    """
    w = sim.world
    gang, machines = sim.replicas[number]["gpus"], sim.replicas[number]["machines"]
    inside_s = w["gpu_latency_s"]
    if w["gpu_depth_s"] >= 0.0:  # begin_flow adds the measured latency
        inside_s = step_s = 0.0
    if collective in (NCCL_TREE, NVLS):
        steps = 2.0 if w["switch_share"] > 0.0 else 2.0 * (largest - 1)
        sent = min(machines, 4) / 2.0 / TREE_SHARE if machines > 1 else port_bytes(sim, machines, largest)
        return steps * inside_s + 2.0 * log2(machines) * step_s, sent * gradient_bytes
    if machines == 1 or collective in (RING, SHARDED):
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
def port_rate(sim: Run, collective: int, machines: int, largest: int) -> float:
    """Return the rate that the ports of a gang's GPUs allow on a ring edge, between machines or within one [byte/s].

    In two-level collectives, all GPUs of a machine send at the same time, and each sends its own part.
    """
    if collective in (NCCL_TREE, NVLS) and machines > 1:
        return sim.world["gpu_Bps"] * (min(machines, 4) / 2.0 / port_bytes(sim, machines, largest))
    two_levels = machines > 1 and (collective in (HIERARCHICAL, TREE))
    return sim.world["gpu_Bps"] * (largest if two_levels else 1)


@helper
def overlap_norm(compute_s: float, communication_s: float, overlap: float) -> float:
    """p-norm of compute and communication with p = ``overlap`` [s], as gpusched_env.problem.performance.overlapped."""
    longer = max(compute_s, communication_s)
    if overlap == np.inf:
        return longer
    if overlap == 1.0:
        return compute_s + communication_s
    ratio = min(compute_s, communication_s) / longer
    return longer * power(1.0 + power(ratio, overlap), 1.0 / overlap)


@helper
def micro_s(pace: Any, compute_share: float) -> float:
    """Return the time of the last sub-step of an iteration, which communicates [s].

    With one sub-step, this is the time of the iteration.
    """
    if compute_share == 1.0:
        return pace["iteration_s"]
    return overlap_norm(pace["compute_s"] * compute_share, pace["communication_s"], pace["overlap"])


@helper
def join_by_ring(
    sim: Run, number: int, slowest: int, low: int, high: int, machines: int, largest: int
) -> tuple[float, float, float]:
    """Add the ring of a gang to the links. The ring visits machines in ascending order, so it enters each rack once.

    Returns the communication time that does not depend on rates [s], the bytes per ring edge, and their rate alone
    [byte/s]. The nodes of the gang are in ``low`` to ``high``, ``taken`` GPUs each, which become 0.
    """
    w = sim.world
    r = sim.replicas[number]
    gang = r["gpus"]
    pace = sim.paces[r["job_class"], r["tier"], slowest]
    cap = np.inf
    step_s = 0.0
    previous = high
    edge = 0
    for node in range(low, high + 1):
        taken = sim.nodes[node]["taken"]
        if taken == 0:
            continue
        sim.nodes[node]["taken"] = 0
        if machines > 1:
            latency_s = cross_edge(sim, number, previous, node, edge, 1.0)
            step_s = max(step_s, latency_s)
            cap = min(cap, w["nic_Bps"] * min(taken, w["nics"]) / w["nics"])
        if sim.nodes[node]["bus"] >= 0 and (taken > 1 or machines > 1):
            cross(sim, number, sim.nodes[node]["bus"], 1.0)
        previous = node
        edge += 1
    choice = pace["collective"]
    solo = solo_rate(sim, number, cap, False)
    gradient = 0.0 if gang == 1 else pace["gradient_bytes"]
    if choice in (BEST, NCCL):
        best = np.inf
        # tuples of one length, for the compiler
        for candidate in (RING, HIERARCHICAL, TREE) if choice == BEST else (RING, RING, NCCL_TREE):
            rate = min(solo, port_rate(sim, candidate, machines, largest))
            fixed, wire = price(sim, number, candidate, largest, gradient, step_s)
            if (fixed + wire / rate) * ALIKE < best:
                best = fixed + wire / rate
                choice = candidate
    solo = min(solo, port_rate(sim, choice, machines, largest))
    fixed, wire = price(sim, number, choice, largest, gradient, step_s)
    depth_s = w["nic_depth_s"] if machines > 1 else w["gpu_depth_s"]
    if gradient == 0.0:
        fixed = 0.0
    elif depth_s >= 0.0:  # the measured latency, as in gpusched_env.network.collectives
        fixed += step_s if machines > 1 else w["gpu_latency_s"]
        fixed += 2.0 * math.sqrt(depth_s * (wire / solo) * min(1.0, KNEE_BYTES / gradient))
    fixed += gradient * (gang - 1) / gang / w["reduction_Bps"] + w["machine_overhead_s"] * machines
    if pace["measured"]:  # treat all measured communication as transfers, which contention slows down
        fixed = 0.0
        built = solo_rate(sim, number, cap, True)
        wire = pace["communication_s"] * min(built, port_rate(sim, choice, machines, largest))
    return fixed, wire, solo


@helper
def machine_of(sim: Run, plan: Any, stage: int, place: int) -> int:
    """Return the node of a place of a pipeline stage."""
    return sim.ranks[rank_of(plan["order"], plan["tp"] * plan["cp"], plan["dp"], plan["pp"], stage, place)]


@kernel(lazy=True)
def send_on(sim: Run, number: int, stages: int, step: int, load: float, edge: int) -> int:
    """Let each GPU of a gang send ``load`` bytes to the place ``step`` further, ``stages`` stages on.

    Places in a row on the same machines are one edge. ``edge`` counts the edges of the gang, and is returned.
    """
    plan = sim.plans[sim.replicas[number]["job_class"]]
    size = plan["tp"] * plan["cp"] * plan["dp"]
    for stage in range(plan["pp"]):
        source = target = -1
        sent = 0.0
        for place in range(size + 1):
            here = there = -1
            if place < size:
                here = machine_of(sim, plan, stage, place)
                there = machine_of(sim, plan, (stage + stages) % plan["pp"], (place + step) % size)
            if here != source or there != target:
                if source != target and sent > 0.0:
                    cross_edge(sim, number, source, target, edge, sent)
                    edge += 1
                source = here
                target = there
                sent = 0.0
            sent += load
    return edge


@helper
def run_end(sim: Run, plan: Any, stage: int, place: int, end: int) -> int:
    """Return the first place from ``place`` to ``end`` that is on another machine."""
    machine = machine_of(sim, plan, stage, place)
    while place < end and machine_of(sim, plan, stage, place) == machine:
        place += 1
    return place


@kernel(lazy=True)
def send_in_groups(sim: Run, number: int, members: int, load: float, gathers: bool, edge: int) -> int:
    """Let each GPU send ``load`` bytes to the ``members`` places of its group; arguments and result as :func:`send_on`.

    ``gathers`` = the machines of a group form a ring (gpusched_env.network.plans); else each GPU sends to each other.
    """
    plan = sim.plans[sim.replicas[number]["job_class"]]
    size = plan["tp"] * plan["cp"] * plan["dp"]
    for group in range(plan["pp"] * (size // members)):
        stage = group // (size // members)
        first = group % (size // members) * members
        end = first + members
        machines = 0
        place = first
        while place < end:
            machines += 1
            place = run_end(sim, plan, stage, place, end)
        source = first
        while machines > 1 and source < end:
            source_end = run_end(sim, plan, stage, source, end)
            here = machine_of(sim, plan, stage, source)
            target = first if not gathers or source_end == end else source_end
            while target < end:
                target_end = run_end(sim, plan, stage, target, end)
                if gathers:
                    sent = load * members / (members - 1) * (machines - 1) / machines
                else:
                    sent = load / (members - 1) * (source_end - source) * (target_end - target)
                there = machine_of(sim, plan, stage, target)
                if here != there:
                    cross_edge(sim, number, here, there, edge, sent)
                    edge += 1
                target = end if gathers else target_end
            source = source_end
    return edge


@kernel(lazy=True)
def join_by_plan(sim: Run, number: int, low: int, high: int) -> tuple[float, float, float]:
    """Add the parallel groups of a gang on several machines to the links; as :func:`join_by_ring`."""
    w = sim.world
    plan = sim.plans[sim.replicas[number]["job_class"]]
    rank = 0
    for node in range(low, high + 1):
        for _ in range(sim.nodes[node]["taken"]):
            sim.ranks[rank] = node
            rank += 1
    edge = 0
    if plan["tp"] > 1 and plan["tp_bytes"] > 0.0:
        edge = send_in_groups(sim, number, plan["tp"], plan["tp_bytes"], True, edge)
    if plan["ep"] > 1 and plan["ep_bytes"] > 0.0:
        edge = send_in_groups(sim, number, plan["ep"], plan["ep_bytes"], False, edge)
    edge = send_on(sim, number, 0, plan["tp"], plan["dp_bytes"], edge)
    edge = send_on(sim, number, 1, 0, plan["pp_bytes"] / 2.0, edge)
    edge = send_on(sim, number, -1, 0, plan["pp_bytes"] / 2.0, edge)
    most = 0.0
    cap = np.inf
    for node in range(low, high + 1):
        taken = sim.nodes[node]["taken"]
        sim.nodes[node]["taken"] = 0
        use = sim.links[sim.nodes[node]["out"]]["first_use"]
        if taken == 0 or use < 0 or sim.uses[use]["replica"] != number:
            continue
        sent = sim.uses[use]["weight"]
        most = max(most, sent)
        cap = min(cap, w["nic_Bps"] * min(taken, w["nics"]) / w["nics"] / sent)
        if sim.nodes[node]["bus"] >= 0:
            cross(sim, number, sim.nodes[node]["bus"], sent)
    if most == 0.0:
        return 0.0, 0.0, w["nic_Bps"]
    use = sim.replicas[number]["first_use"]
    while use >= 0:
        sim.uses[use]["weight"] /= most
        use = sim.uses[use]["next_of_replica"]
    return 0.0, most, solo_rate(sim, number, cap * most, False)


@kernel(lazy=True)
def begin_flow(sim: Run, number: int, slowest: int) -> None:
    """Add the communication of a gang to the links: by its plan, or else by a ring over its machines."""
    w = sim.world
    r = sim.replicas[number]
    gang = r["gpus"]
    machines = 0
    largest = 0
    low = w["nodes"]
    high = -1
    for i in range(gang):
        node = sim.gpu_node[sim.chosen[i]]
        if sim.nodes[node]["taken"] == 0:
            machines += 1
        sim.nodes[node]["taken"] += 1
        largest = max(largest, sim.nodes[node]["taken"])
        low = min(low, node)
        high = max(high, node)
    pace = sim.paces[sim.jobs[r["job"]]["job_class"], r["tier"], slowest]
    r["compute_s"] = pace["compute_s"] * r["compute_share"]
    r["overlap"] = pace["overlap"]
    r["profile"] = pace["profile"]
    r["machines"] = machines
    r["first_use"] = -1
    r["bottleneck"] = -1
    if machines > 1 and w["planned"] and sim.plans[r["job_class"]]["gpus"] > 0:
        fixed, wire, solo = join_by_plan(sim, number, low, high)
    else:
        fixed, wire, solo = join_by_ring(sim, number, slowest, low, high, machines, largest)
    r["fixed_s"] = fixed
    r["wire_bytes"] = wire
    r["solo_Bps"] = solo
    r["rate_Bps"] = solo
    r["priced_Bps"] = solo
    flags = sim.models[w["contention"]]
    if flags["begins"] > 0:
        begin(w["contention"], sim, number, slowest)
    if flags["keeps_idle_flows"] == 0 and r["wire_bytes"] == 0.0:  # without bytes there is no flow
        end_flow(sim, number)
    r["settled_s"] = iteration_at(sim, number, 1.0)
    r["iteration_s"] = r["settled_s"]
    r["told_s"] = -1.0
    list_flow(sim, number)
    w["uncommitted"] = 1


@kernel
def iteration_at(sim: Run, number: int, slowdown: float) -> float:
    """Return the time of one iteration if its transfers take ``slowdown`` times as long as alone [s]."""
    r = sim.replicas[number]
    communication = r["fixed_s"]
    if r["wire_bytes"] > 0.0:
        if slowdown == np.inf:
            return np.inf
        communication += r["wire_bytes"] / r["solo_Bps"] * slowdown
    return overlap_norm(r["compute_s"], communication, r["overlap"])


@kernel(lazy=True)
def end_flow(sim: Run, number: int) -> None:
    """Remove a gang's ring from the links."""
    w = sim.world
    use = sim.replicas[number]["first_use"]
    while use >= 0:
        u = sim.uses[use]
        link = sim.links[u["link"]]
        following = u["next_of_replica"]
        if u["previous_of_link"] >= 0:
            sim.uses[u["previous_of_link"]]["next_of_link"] = u["next_of_link"]
        else:
            link["first_use"] = u["next_of_link"]
        if u["next_of_link"] >= 0:
            sim.uses[u["next_of_link"]]["previous_of_link"] = u["previous_of_link"]
        link["flows"] -= 1
        touch_link(sim, u["link"])
        u["next_of_replica"] = w["first_free_use"]
        w["first_free_use"] = use
        use = following
    sim.replicas[number]["first_use"] = -1
