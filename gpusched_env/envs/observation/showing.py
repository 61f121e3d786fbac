"""Kernels that write the observation arrays of jobs, machines, tiers and links: one kernel per array.

A start or a preemption takes no simulated time and changes few rows, so only what has changed is rewritten.
"""

from __future__ import annotations

from typing import Final

from gpusched_env.cluster import MACHINE, SLOT, TIERS
from gpusched_env.core.events import productive_s, seconds_left
from gpusched_env.core.handle import helper, kernel
from gpusched_env.core.network.settling import alone_s, beside_company
from gpusched_env.core.queries import link_load
from gpusched_env.core.state import CHECKPOINTING, Run
from gpusched_env.envs.observation.squashing import squash
from gpusched_env.envs.screen import UNSEEN, Screen

_TIERS: Final = len(TIERS)


@kernel
def attained_by(sim: Run, number: int) -> float:
    """Attained service of a running gang's job at the current time, as in :func:`events.attained_service` [GPU s]."""
    return (sim.replicas[number]["service_s"] + productive_s(sim, number)) * sim.replicas[number]["gang"]


@helper
def showing(row: int, times: int) -> int:
    """Return a key of what a slot shows, which changes with any column that does not depend on time alone.

    ``times`` is the number of preemptions of a waiting job; of a running gang, 2 x number of its start, plus 1 while it
    is being checkpointed.
    """
    return int(times) << 31 | int(row)  # both 32 bits wide in plain Python


@helper
def row_shown(who: int) -> int:
    """Row of the job in a slot's key; of an empty slot, a number that no job has."""
    return who & 0x7FFFFFFF


@kernel
def show_queue(sim: Run, env: Screen, filled: int, stands: bool) -> None:
    """Write the rows of columns.QUEUE.

    ``stands`` = no time has passed. A slot that still shows the same job then needs only its column ``fits``.
    """
    w = sim.world
    out = env.out_queue
    starts = (len(env.rules) + len(env.partners)) * max(env.config["sub_batches"], 1)  # actions of a slot
    for k in range(filled):
        row = env.queue[k]
        fits = 0
        for p in range(k * starts, (k + 1) * starts):
            fits |= env.mask[p]
        out[k, 12] = fits
        if stands and row_shown(env.seen_queue[k]) == row:
            continue
        job = sim.jobs[row]
        out[k, 3] = squash(w["clock_s"] - job["last_stop_s"])
        out[k, 4] = squash(w["clock_s"] - job["arrival_s"])
        who = showing(row, job["preemptions"])
        if env.seen_queue[k] == who:  # the job has only waited: nothing else has changed
            continue
        env.seen_queue[k] = who
        kind = env.classes[job["job_class"]]
        left = seconds_left(sim, row) if env.config["clairvoyant"] else 0.0
        out[k, 0] = 1.0
        out[k, 1] = job["gpus"] / w["gpus"]
        out[k, 2] = min(job["gpus"] / w["node_gpus"], 1.0)
        out[k, 5] = squash(job["service_s"] * job["gpus"] / w["gpus"])
        out[k, 6] = job["preemptions"] / (1.0 + job["preemptions"])
        out[k, 7] = squash(left)
        out[k, 8] = squash(left * job["gpus"] / w["gpus"])
        out[k, 9] = kind["rack_loss"]
        out[k, 10] = kind["network_loss"]
        out[k, 11] = kind["skew"]
    for k in range(filled, env.seen["queue"]):
        env.seen_queue[k] = UNSEEN
        for c in range(out.shape[1]):
            out[k, c] = 0.0
    env.seen["queue"] = filled


@kernel
def show_running(sim: Run, env: Screen, filled: int, stands: bool, changed: int) -> None:
    """Write the rows of columns.RUNNING; ``stands`` as for :func:`show_queue`.

    Where gangs do not slow each other down, a decision changes only the row of its own job, ``changed``, and the
    column ``preemptible``.
    """
    w = sim.world
    out = env.out_running
    first_action = len(env.mask) - 1 - len(env.delays) - len(env.victims)
    steady = w["contention"] == 0 and w["sharing"] == 0 and w["changes"] == 0
    for v in range(filled):
        row = env.victims[v]
        out[v, 10] = env.mask[first_action + v]
        if stands and steady and row_shown(env.seen_running[v]) == row and row != changed:
            continue
        job = sim.jobs[row]
        number = job["replica"]
        r = sim.replicas[number]
        left = seconds_left(sim, row) if env.config["clairvoyant"] else 0.0
        out[v, 2] = squash(w["clock_s"] - r["start_s"])
        out[v, 3] = squash(attained_by(sim, number) / w["gpus"])
        out[v, 5] = squash(left)
        out[v, 6] = squash(left * job["gpus"] / w["gpus"])
        stops = 1 if r["phase"] == CHECKPOINTING else 0
        who = showing(row, r["sequence"] * 2 + stops)
        if steady and env.seen_running[v] == who:  # it kept running or checkpointing: nothing else has changed
            continue
        env.seen_running[v] = who
        ideal_s = env.classes[job["job_class"]]["ideal_iteration_s"]
        out[v, 0] = 1.0
        out[v, 1] = job["gpus"] / w["gpus"]
        out[v, 4] = job["preemptions"] / (1.0 + job["preemptions"])
        out[v, 7] = shown_tier(r["tier"]) / (_TIERS - 1.0)
        out[v, 8] = max(1.0 - ideal_s / beside_company(sim, number), 0.0)
        out[v, 9] = stops
    for v in range(filled, env.seen["running"]):
        env.seen_running[v] = UNSEEN
        for c in range(out.shape[1]):
            out[v, c] = 0.0
    env.seen["running"] = filled


@helper
def shown_tier(tier: int) -> int:
    """Return the tier as observations show it: a slot counts as its machine."""
    return MACHINE if tier == SLOT else tier


@kernel
def add_to_tier(sim: Run, env: Screen, number: int) -> None:
    """Add a gang to the sums of its tier: GPUs, gangs, losses."""
    r = sim.replicas[number]
    t = shown_tier(r["tier"])
    ideal_s = env.classes[r["job_class"]]["ideal_iteration_s"]
    env.tier_sums[t, 0] += r["gpus"]
    env.tier_sums[t, 1] += 1.0
    env.tier_sums[t, 2] += max(1.0 - ideal_s / beside_company(sim, number), 0.0)  # copies can be faster than ideal


@kernel
def show_tiers(sim: Run, env: Screen, stands: bool) -> None:
    """Write the rows of columns.TIER_LINKS.

    ``stands`` as for :func:`show_queue`. If it is True and only one gang has started, that gang is added to the sums.
    """
    w = sim.world
    sums = env.tier_sums
    came, left = w["starts"] - env.seen["starts"], w["returns"] - env.seen["returns"]
    if stands and w["sharing"] == 0 and came <= 1 and left == 0:
        if came == 1:
            add_to_tier(sim, env, sim.running[w["running"] - 1])
    else:
        for t in range(_TIERS):
            for c in range(sums.shape[1]):
                sums[t, c] = 0.0
        for i in range(w["running"]):
            add_to_tier(sim, env, sim.running[i])
    env.seen["starts"] = w["starts"]
    env.seen["returns"] = w["returns"]
    for t in range(_TIERS):
        gpus, gangs, loss = sums[t, 0], sums[t, 1], sums[t, 2]
        env.out_links[t, 0] = gpus / (w["gpus"] * w["gpu_jobs"])
        env.out_links[t, 1] = gangs / (1.0 + gangs)
        env.out_links[t, 2] = loss / gangs if gangs > 0.0 else 0.0


@kernel
def show_links(sim: Run, env: Screen) -> None:
    """Write the rows of columns.LINKS."""
    out = env.out_links
    for number in range(out.shape[0]):
        link = sim.links[number]
        bound = 0
        use = link["first_use"]
        while use >= 0:
            if sim.replicas[sim.uses[use]["replica"]]["bottleneck"] == number:
                bound += 1
            use = sim.uses[use]["next_of_link"]
        out[number, 0] = min(link_load(sim, number) / link["capacity"], 1.0)
        out[number, 1] = link["flows"] / (1.0 + link["flows"])
        out[number, 2] = bound / (1.0 + bound)
        share = env.shown_links[number]["capacity"]
        if link["capacity"] != link["built_Bps"]:
            share *= link["capacity"] / link["built_Bps"]
        out[number, 3] = share
        out[number, 4] = env.shown_links[number]["tier"]


@kernel
def show_flows(sim: Run, env: Screen) -> None:
    """Write the rows of columns.FLOWS; a gang that is being checkpointed sends nothing."""
    out = env.out_flows
    for v in range(out.shape[0]):
        for c in range(out.shape[1]):
            out[v, c] = 0.0
        if env.victims[v] < 0:
            continue
        number = sim.jobs[env.victims[v]]["replica"]
        r = sim.replicas[number]
        out[v, 2] = 1.0 - 1.0 / r["machines"]
        if r["phase"] == CHECKPOINTING:
            continue
        out[v, 0] = max(1.0 - alone_s(sim, number) / r["settled_s"], 0.0)
        out[v, 1] = max(1.0 - r["compute_s"] / r["settled_s"], 0.0)
        link = r["bottleneck"]
        if link >= 0:
            flows = sim.links[link]["flows"]
            out[v, 3] = min(link_load(sim, link) / sim.links[link]["capacity"], 1.0)
            out[v, 4] = flows / (1.0 + flows)
            out[v, 5] = env.shown_links[link]["tier"]


@kernel
def show_machines(sim: Run, env: Screen) -> None:
    """Write the rows of columns.NODES whose free GPUs, or those of their rack, have changed."""
    for n in range(sim.world["nodes"]):
        before = env.seen_free[n]
        now = sim.free[n]
        if now != before:
            gpus = sim.nodes[n]["gpus"]
            if before == gpus:
                env.seen["machines"] -= 1
                env.seen["gpus"] -= gpus
            if now == gpus:
                env.seen["machines"] += 1
                env.seen["gpus"] += gpus
            env.seen_free[n] = now
            env.out_nodes[n, 0] = now / gpus
    first_rack = sim.nodes.shape[0]
    for r in range(sim.world["racks"]):
        rack_free = sim.free[first_rack + r]
        if rack_free != env.seen_free[first_rack + r]:
            env.seen_free[first_rack + r] = rack_free
            rack = sim.racks[r]
            for n in range(rack["first_node"], rack["first_node"] + rack["nodes"]):
                env.out_nodes[n, 2] = rack_free / rack["gpus"]


@kernel
def show_cluster(sim: Run, env: Screen) -> None:
    """Write columns.CLUSTER; call it after :func:`show_machines`."""
    w = sim.world
    out = env.out_cluster
    largest = 0
    for n in range(w["nodes"]):
        largest = max(largest, sim.free[n])
    beyond = max(w["waiting"] - len(env.queue), 0)
    supply = w["free_gpus"]
    out[0] = supply / w["gpus"]
    out[1] = env.seen["machines"] / w["nodes"]
    out[2] = largest / w["node_gpus"]
    out[3] = 1.0 - env.seen["gpus"] / supply if supply > 0 else 0.0
    out[4] = w["waiting"] / (32.0 + w["waiting"])
    out[5] = beyond / (32.0 + beyond)
    out[6] = w["waiting_gpus"] / (w["gpus"] + w["waiting_gpus"])
    out[7] = w["running"] / (w["gpus"] * w["gpu_jobs"])
    out[8] = w["next_arrival"] / w["jobs"]
    out[9] = w["finished"] / w["jobs"]
    out[10] = w["checkpointing_gpus"] / (w["gpus"] * w["gpu_jobs"])
