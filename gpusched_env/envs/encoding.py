"""Kernels of the environment: fill the windows, the mask and the observation; play one action."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from gpusched_env.cluster import MACHINE, NETWORK, RACK, SLOT, TIERS
from gpusched_env.envs.columns import LONGEST_S
from gpusched_env.envs.encoder import WINDOW_ORDERS
from gpusched_env.envs.sharing_actions import chosen_steps, mark_partners, mark_sizes, open_gpus
from gpusched_env.errors import ScenarioError
from gpusched_env.instance import Instance
from gpusched_env.network import LINK_TIERS
from gpusched_env.simulator import RULE_NUMBER, Simulation
from gpusched_env.simulator.contention import alone_s, beside_company, settle
from gpusched_env.simulator.events import (
    APPLIED,
    DECIDE,
    EXPLICIT,
    LOG_FULL,
    advance,
    lease,
    preempt,
    preempt_refusal,
    productive_s,
    rule_holds,
    start,
    work_left,
)
from gpusched_env.simulator.jit import helper, int64, kernel
from gpusched_env.simulator.network_queries import link_load
from gpusched_env.simulator.placing import ANYWHERE, SHARE_FIRST_FIT, SHARED_BY, look_for
from gpusched_env.simulator.placing_beside import find_beside
from gpusched_env.simulator.placing_shared import find_shared
from gpusched_env.simulator.state import CHECKPOINTING
from gpusched_env.simulator.taking import unable_somewhere

Array = np.ndarray[Any, Any]

ARRIVAL_ORDER, START_ORDER, SHORTEST, LONGEST, LEAST_ATTAINED, MOST_ATTAINED = range(len(WINDOW_ORDERS))

CONFIG_DTYPE: Final = np.dtype(
    [
        ("queue_order", "<i8"),  # WINDOW_ORDERS
        ("running_order", "<i8"),
        ("clairvoyant", "<i8"),
        ("migration", "<i8"),
        ("skip_forced_waits", "<i8"),
        ("sub_batches", "<i8"),  # that a start may name; 0 = starts name none
        ("pair_benefit", "<i8"),
        ("lease_s", "<f8"),  # [s] for which a start holds its GPUs before the agent is asked again; inf = no leases
    ]
)
CLASS_DTYPE: Final = np.dtype(
    [
        ("ideal_iteration_s", "<f8"),
        ("rack_loss", "<f8"),
        ("network_loss", "<f8"),
        ("skew", "<f8"),
    ]
)
SHOWN_LINK_DTYPE: Final = np.dtype([("capacity", "<f8"), ("tier", "<f8")])  # as columns.LINKS shows them
_LOG_LONGEST: Final = math.log1p(LONGEST_S / 60.0)

# Results of :func:`play` beyond those of advance.
INFEASIBLE: Final = 8
NEARLY_FULL: Final = 16
# Actions beyond those of the action space.
NO_ACTION: Final = -1
RESUME: Final = -2


@helper
def squash(seconds: float) -> float:
    """Map [0 s, 30 d] to [0, 1] by the logarithm."""
    return min(math.log1p(max(seconds, 0.0) / 60.0) / _LOG_LONGEST, 1.0)


@helper
def seconds_left(world: Array, jobs: Array, replicas: Array, b: int, row: int) -> float:
    """Run time left on the ideal placement as of the clock [s]; as a share of the whole, so that equal jobs tie."""
    return work_left(world, jobs, replicas, b, row) / jobs[b, row]["iterations"] * jobs[b, row]["ideal_s"]


@helper
def attained(world: Array, jobs: Array, replicas: Array, b: int, row: int) -> float:
    """Attained service as of the clock [GPU s]."""
    job = jobs[b, row]
    return (job["service_s"] + productive_s(world, replicas, b, job["replica"])) * job["gpus"]


@helper
def window_key(world: Array, jobs: Array, replicas: Array, b: int, row: int, order: int) -> float:
    """Sort key of a window; smaller comes first."""
    if order == SHORTEST or order == LONGEST:
        seconds = seconds_left(world, jobs, replicas, b, row)
        return seconds if order == SHORTEST else -seconds
    if order == LEAST_ATTAINED:
        return attained(world, jobs, replicas, b, row)
    if order == MOST_ATTAINED:
        return -attained(world, jobs, replicas, b, row)
    return 0.0


@helper
def insert(slots: Array, keys: Array, filled: int, row: int, key: float) -> int:
    """Keep the smallest keys in ascending order, of equal ones the first come; return how many are filled."""
    at = filled
    if filled == len(slots):
        if key >= keys[filled - 1]:
            return filled
        at = filled - 1
    while at > 0 and keys[at - 1] > key:
        slots[at] = slots[at - 1]
        keys[at] = keys[at - 1]
        at -= 1
    slots[at] = row
    keys[at] = key
    return min(filled + 1, len(slots))


@helper
def fill_windows(
    world: Array, jobs: Array, replicas: Array, holder: Array, gpu_next: Array, waiting: Array, running: Array,
    config: Array, b: int, queue: Array, victims: Array, partners: Array, keys: Array,
) -> None:
    """Choose the jobs that the queue, running and partner slots show; -1 = empty slot."""
    filled = 0
    order = config[0]["queue_order"]
    for i in range(world[b]["waiting"]):
        if len(queue) == 0 or (order == ARRIVAL_ORDER and filled == len(queue)):
            break
        row = waiting[b, i]
        key = window_key(world, jobs, replicas, b, row, order)
        filled = insert(queue, keys, filled, row, key)
    for i in range(filled, len(queue)):
        queue[i] = -1
    filled = 0
    order = config[0]["running_order"]
    for i in range(world[b]["running"]):
        if len(victims) == 0 or (order == START_ORDER and filled == len(victims)):
            break
        row = replicas[b, running[b, i]]["job"]
        key = float(row) if order == ARRIVAL_ORDER else window_key(world, jobs, replicas, b, row, order)
        filled = insert(victims, keys, filled, row, key)
    for i in range(filled, len(victims)):
        victims[i] = -1
    if len(partners) == 0:
        return
    filled = 0
    for i in range(world[b]["running"]):
        number = int64(running[b, i])
        if order == START_ORDER and filled == len(partners):
            break
        if open_gpus(world, replicas, holder, gpu_next, b, number) > 0:
            row = replicas[b, number]["job"]
            key = float(row) if order == ARRIVAL_ORDER else window_key(world, jobs, replicas, b, row, order)
            filled = insert(partners, keys, filled, row, key)
    for i in range(filled, len(partners)):
        partners[i] = -1


@helper
def mark_starts(
    world: Array, jobs: Array, replicas: Array, nodes: Array, racks: Array, free: Array, holder: Array, gpu_next: Array,
    gpu_node: Array, running: Array, paces: Array, chosen: Array, links: Array, busy: Array, sub_batches: Array,
    interference: Array, b: int, config: Array, rules: Array, queue: Array, partners: Array, mask: Array,
) -> int:
    """Mark the starts that the simulator would accept; return their number."""
    sharing = world[b]["sharing"] > 0
    supply = world[b]["free_gpus"]
    sizes = int64(config[0]["sub_batches"])
    columns = max(sizes, 1)
    at = int64(0)
    choices = 0
    for k in range(len(queue)):
        row = int64(queue[k])
        gang = int64(jobs[b, row]["gpus"]) if row >= 0 else int64(0)
        kind = int64(jobs[b, row]["job_class"]) if row >= 0 else int64(0)
        for p in range(len(rules)):
            rule = int64(rules[p])
            option = int64(-1)
            found = int64(0)
            if row >= 0 and rule >= SHARE_FIRST_FIT and world[b]["gpu_jobs"] > 1:
                found, option = find_shared(
                    world, jobs, replicas, nodes, racks, free, holder, gpu_next, gpu_node, running, paces, chosen,
                    links, busy, sub_batches, interference, b, row, SHARED_BY[rule - SHARE_FIRST_FIT],
                )
            elif row >= 0 and gang <= supply:
                if not sharing and rule in ANYWHERE and not unable_somewhere(paces, b, kind):
                    found = gang
                else:
                    found = int64(
                        look_for(
                            world, nodes, racks, free, holder, gpu_node, chosen, links, busy, paces, b, kind, gang, rule
                        )
                    )
            if sharing:
                choices += mark_sizes(
                    world, jobs, replicas, nodes, holder, gpu_node, chosen, sub_batches, b, row, found, option, sizes,
                    at, mask,
                )
            else:
                mask[at] = 1 if found > 0 else 0
                choices += int64(mask[at])
            at += columns
        if len(partners) > 0:
            choices += mark_partners(
                world, jobs, replicas, nodes, free, holder, gpu_next, gpu_node, paces, sub_batches, interference, b,
                queue, int64(k), partners, sizes, at, (len(rules) + len(partners)) * columns, mask,
            )
            at += len(partners) * columns
    return choices


@helper
def mark_others(
    world: Array, jobs: Array, replicas: Array, config: Array, b: int, victims: Array, starts: int, choices: int,
    mask: Array,
) -> bool:
    """Mark the feasible actions behind the ``starts``; return whether there is a choice beside one wait."""
    w = world[b]
    at = starts
    for v in range(len(victims)):
        row = victims[v]
        useful = w["waiting"] > 0 or config[0]["migration"]
        feasible = row >= 0 and useful and preempt_refusal(world, jobs, replicas, b, row) == APPLIED
        mask[at] = 1 if feasible else 0
        choices += int64(mask[at])
        at += 1
    # With nothing running, nobody to come and no timer, waiting for an event would last for ever.
    may_wait = w["running"] > 0 or w["next_arrival"] < w["jobs"] or w["timer_s"] < np.inf
    waits = len(mask) - at
    mask[at] = 1 if may_wait else 0
    for i in range(at + 1, len(mask)):
        mask[i] = 1
    return choices > 0 or waits > 1


@helper
def show_queue(
    world: Array, jobs: Array, replicas: Array, config: Array, classes: Array, b: int, queue: Array, mask: Array,
    starts: int, out: Array,
) -> None:
    """Write the rows of columns.QUEUE; ``starts`` actions are a slot's."""
    w = world[b]
    for k in range(len(queue)):
        row = queue[k]
        if row < 0:
            for c in range(out.shape[1]):
                out[k, c] = 0.0
            continue
        job = jobs[b, row]
        kind = classes[0, job["job_class"]]
        left = 0.0
        if config[0]["clairvoyant"]:
            left = seconds_left(world, jobs, replicas, b, row)
        fits_somehow = 0
        for p in range(starts):
            fits_somehow |= mask[k * starts + p]
        out[k, 0] = 1.0
        out[k, 1] = job["gpus"] / w["gpus"]
        out[k, 2] = min(job["gpus"] / w["node_gpus"], 1.0)
        out[k, 3] = squash(w["clock_s"] - job["last_stop_s"])
        out[k, 4] = squash(w["clock_s"] - job["arrival_s"])
        out[k, 5] = squash(job["service_s"] * job["gpus"] / w["gpus"])
        out[k, 6] = job["preemptions"] / (1.0 + job["preemptions"])
        out[k, 7] = squash(left)
        out[k, 8] = squash(left * job["gpus"] / w["gpus"])
        out[k, 9] = kind["rack_loss"]
        out[k, 10] = kind["network_loss"]
        out[k, 11] = kind["skew"]
        out[k, 12] = fits_somehow


@helper
def show_running(
    world: Array, jobs: Array, replicas: Array, config: Array, classes: Array, b: int, victims: Array, mask: Array,
    first_action: int, out: Array,
) -> None:
    """Write the rows of columns.RUNNING."""
    w = world[b]
    for v in range(len(victims)):
        row = victims[v]
        if row < 0:
            for c in range(out.shape[1]):
                out[v, c] = 0.0
            continue
        job = jobs[b, row]
        kind = classes[0, job["job_class"]]
        r = replicas[b, job["replica"]]
        left = 0.0
        if config[0]["clairvoyant"]:
            left = seconds_left(world, jobs, replicas, b, row)
        out[v, 0] = 1.0
        out[v, 1] = job["gpus"] / w["gpus"]
        out[v, 2] = squash(w["clock_s"] - r["start_s"])
        out[v, 3] = squash(attained(world, jobs, replicas, b, row) / w["gpus"])
        out[v, 4] = job["preemptions"] / (1.0 + job["preemptions"])
        out[v, 5] = squash(left)
        out[v, 6] = squash(left * job["gpus"] / w["gpus"])
        out[v, 7] = shown_tier(r["tier"]) / (len(TIERS) - 1.0)
        out[v, 8] = max(1.0 - kind["ideal_iteration_s"] / beside_company(replicas, b, int64(job["replica"])), 0.0)
        out[v, 9] = 1.0 if r["phase"] == CHECKPOINTING else 0.0
        out[v, 10] = mask[first_action + v]


@helper
def shown_tier(tier: int) -> int:
    """Tier as observations show it: a slot is a part of its machine."""
    return MACHINE if tier == SLOT else tier


@helper
def show_tiers(
    world: Array, jobs: Array, replicas: Array, running: Array, classes: Array, b: int, out: Array,
) -> None:
    """Write the rows of columns.TIER_LINKS."""
    w = world[b]
    for t in range(len(TIERS)):
        gpus = 0
        gangs = 0
        loss = 0.0
        for i in range(w["running"]):
            r = replicas[b, running[b, i]]
            if shown_tier(r["tier"]) == t:
                gpus += r["gpus"]
                gangs += 1
                ideal_s = classes[0, jobs[b, r["job"]]["job_class"]]["ideal_iteration_s"]
                loss += max(1.0 - ideal_s / beside_company(replicas, b, int64(running[b, i])), 0.0)  # of copies < 0
        out[t, 0] = gpus / (w["gpus"] * w["gpu_jobs"])
        out[t, 1] = gangs / (1.0 + gangs)
        out[t, 2] = loss / gangs if gangs > 0 else 0.0


@helper
def show_links(replicas: Array, links: Array, uses: Array, b: int, shown: Array, out: Array) -> None:
    """Write the rows of columns.LINKS."""
    for number in range(out.shape[0]):
        link = links[b, number]
        bound = 0
        use = link["first_use"]
        while use >= 0:
            if replicas[b, uses[b, use]["replica"]]["bottleneck"] == number:
                bound += 1
            use = uses[b, use]["next_of_link"]
        out[number, 0] = min(link_load(replicas, links, uses, b, number) / link["capacity"], 1.0)
        out[number, 1] = link["flows"] / (1.0 + link["flows"])
        out[number, 2] = bound / (1.0 + bound)
        out[number, 3] = shown[0, number]["capacity"] * (link["capacity"] / link["built_Bps"])
        out[number, 4] = shown[0, number]["tier"]


@helper
def show_flows(
    world: Array, jobs: Array, replicas: Array, links: Array, uses: Array, b: int, victims: Array, shown: Array,
    out: Array,
) -> None:
    """Write the rows of columns.FLOWS; a gang that is being checkpointed sends nothing."""
    for v in range(out.shape[0]):
        for c in range(out.shape[1]):
            out[v, c] = 0.0
        if victims[v] < 0:
            continue
        number = int64(jobs[b, victims[v]]["replica"])
        r = replicas[b, number]
        out[v, 2] = 1.0 - 1.0 / r["machines"]
        if r["phase"] == CHECKPOINTING:
            continue
        out[v, 0] = max(1.0 - alone_s(world, replicas, b, number) / r["settled_s"], 0.0)
        out[v, 1] = max(1.0 - r["compute_s"] / r["settled_s"], 0.0)
        link = int64(r["bottleneck"])
        if link >= 0:
            flows = links[b, link]["flows"]
            out[v, 3] = min(link_load(replicas, links, uses, b, link) / links[b, link]["capacity"], 1.0)
            out[v, 4] = flows / (1.0 + flows)
            out[v, 5] = shown[0, link]["tier"]


@helper
def show_machines(
    world: Array, jobs: Array, replicas: Array, nodes: Array, racks: Array, free: Array, waiting: Array, running: Array,
    b: int, window: int, out_nodes: Array, out_cluster: Array,
) -> None:
    """Write columns.NODES and columns.CLUSTER."""
    w = world[b]
    first_rack = nodes.shape[1]
    empty_nodes = 0
    empty_gpus = 0
    largest = 0
    for n in range(w["nodes"]):
        node = nodes[b, n]
        rack = node["rack"]
        out_nodes[n, 0] = free[b, n] / node["gpus"]
        out_nodes[n, 1] = node["gpus"] / w["node_gpus"]
        out_nodes[n, 2] = free[b, first_rack + rack] / racks[b, rack]["gpus"]
        out_nodes[n, 3] = rack / w["racks"]
        if free[b, n] == node["gpus"]:
            empty_nodes += 1
            empty_gpus += node["gpus"]
        largest = max(largest, free[b, n])

    checkpointing = 0
    for i in range(w["running"]):
        r = replicas[b, running[b, i]]
        if r["phase"] == CHECKPOINTING:
            checkpointing += r["gpus"]
    demand = 0
    for i in range(w["waiting"]):
        demand += jobs[b, waiting[b, i]]["gpus"]
    beyond = max(w["waiting"] - window, 0)
    supply = w["free_gpus"]
    out_cluster[0] = supply / w["gpus"]
    out_cluster[1] = empty_nodes / w["nodes"]
    out_cluster[2] = largest / w["node_gpus"]
    out_cluster[3] = 1.0 - empty_gpus / supply if supply > 0 else 0.0
    out_cluster[4] = w["waiting"] / (32.0 + w["waiting"])
    out_cluster[5] = beyond / (32.0 + beyond)
    out_cluster[6] = demand / (w["gpus"] + demand)
    out_cluster[7] = w["running"] / (w["gpus"] * w["gpu_jobs"])
    out_cluster[8] = w["next_arrival"] / w["jobs"]
    out_cluster[9] = w["finished"] / w["jobs"]
    out_cluster[10] = checkpointing / (w["gpus"] * w["gpu_jobs"])


@kernel
def play(
    world: Array, jobs: Array, replicas: Array, nodes: Array, racks: Array, free: Array, holder: Array,
    gpu_next: Array, gpu_node: Array, waiting: Array, running: Array, paces: Array, events: Array,
    event_gpus: Array, chosen: Array, links: Array, uses: Array, routes: Array, pairs: Array, ratios: Array,
    busy: Array, sub_batches: Array, interference: Array, b: int, config: Array, classes: Array, shown_links: Array,
    rules: Array, delays: Array,
    queue: Array, victims: Array, partners: Array, keys: Array, action: int, mask: Array, out_queue: Array,
    out_running: Array, out_nodes: Array, out_links: Array, out_cluster: Array, out_flows: Array,
) -> int:
    """Play one action on the windows of the last call, skip forced waits, and write mask and observation.

    ``action`` NO_ACTION only looks and RESUME advances again after a full log. Returns an outcome of advance, LOG_FULL
    (drain the log, then RESUME) or INFEASIBLE (nothing changed); NEARLY_FULL is added when the log should be drained.
    """
    w = world[b]
    sizes = int64(config[0]["sub_batches"])
    columns = max(sizes, 1)
    slot_starts = (len(rules) + len(partners)) * columns
    starts = len(queue) * slot_starts
    outcome = DECIDE
    step_time = False
    if action >= 0:
        if mask[action] == 0:
            return INFEASIBLE
        if action < starts:
            row = int64(queue[action // slot_starts])
            place = action % slot_starts // columns
            size = action % columns
            steps = chosen_steps(sub_batches, b, int64(jobs[b, row]["job_class"]), sizes, size)
            beside = place >= len(rules)
            rule = int64(EXPLICIT)
            found = int64(0)
            if beside:
                found, option = find_beside(
                    world, jobs, replicas, nodes, racks, free, holder, gpu_next, gpu_node, waiting, running, paces,
                    events, event_gpus, chosen, links, uses, routes, pairs, ratios, busy, sub_batches, interference, b,
                    row, int64(partners[place - len(rules)]), size if sizes > 0 else int64(-1),
                )
                steps = int64(sub_batches[b, jobs[b, row]["job_class"], option, 0]["sub_steps"])
            else:
                rule = int64(rules[place])
            start(
                world, jobs, replicas, nodes, racks, free, holder, gpu_next, gpu_node, waiting, running, paces,
                events, event_gpus, chosen, links, uses, routes, pairs, ratios, busy, sub_batches, interference, b,
                row, rule, found, beside, steps,
            )
            if config[0]["lease_s"] < np.inf:
                lease(
                    world, jobs, replicas, nodes, racks, free, holder, gpu_next, gpu_node, waiting, running, paces,
                    events, event_gpus, chosen, links, uses, routes, pairs, ratios, busy, sub_batches, interference, b,
                    row, w["clock_s"] + config[0]["lease_s"],
                )
        elif action < starts + len(victims):
            preempt(
                world, jobs, replicas, nodes, racks, free, holder, gpu_next, gpu_node, waiting, running, paces,
                events, event_gpus, chosen, links, uses, routes, pairs, ratios, busy, sub_batches, interference, b,
                int64(victims[action - starts]),
            )
        else:
            step_time = True
            delay = action - starts - len(victims) - 1
            if delay >= 0:
                w["timer_s"] = min(w["timer_s"], w["clock_s"] + delays[delay])
    elif action == RESUME:
        step_time = True
    while True:
        if step_time:
            # to wait is to let them go on; after a full log, of those that have ended nobody has been asked yet
            if config[0]["lease_s"] < np.inf and w["leases_over"] and action != RESUME:
                for i in range(w["running"]):
                    r = replicas[b, running[b, i]]
                    if r["lease_over"]:
                        lease(
                            world, jobs, replicas, nodes, racks, free, holder, gpu_next, gpu_node, waiting, running,
                            paces, events, event_gpus, chosen, links, uses, routes, pairs, ratios, busy, sub_batches,
                            interference, b, int64(r["job"]), w["clock_s"] + config[0]["lease_s"],
                        )
            outcome = advance(
                world, jobs, replicas, nodes, racks, free, holder, gpu_next, gpu_node, waiting, running, paces,
                events, event_gpus, chosen, links, uses, routes, pairs, ratios, busy, sub_batches, interference, b,
            )
            if outcome == LOG_FULL:
                return LOG_FULL
            action = NO_ACTION
        settle(world, replicas, links, uses, ratios, b)
        fill_windows(
            world, jobs, replicas, holder, gpu_next, waiting, running, config, b, queue, victims, partners, keys
        )
        choices = mark_starts(
            world, jobs, replicas, nodes, racks, free, holder, gpu_next, gpu_node, running, paces, chosen, links, busy,
            sub_batches, interference, b, config, rules, queue, partners, mask,
        )
        choice = mark_others(world, jobs, replicas, config, b, victims, starts, choices, mask)
        if outcome != DECIDE or choice or not config[0]["skip_forced_waits"] or mask[starts + len(victims)] == 0:
            break
        step_time = True
    show_queue(world, jobs, replicas, config, classes, b, queue, mask, slot_starts, out_queue)
    show_running(world, jobs, replicas, config, classes, b, victims, mask, starts, out_running)
    show_machines(
        world, jobs, replicas, nodes, racks, free, waiting, running, b, len(queue), out_nodes, out_cluster
    )
    if w["contention"] > 0:
        show_links(replicas, links, uses, b, shown_links, out_links)
        show_flows(world, jobs, replicas, links, uses, b, victims, shown_links, out_flows)
    else:
        show_tiers(world, jobs, replicas, running, classes, b, out_links)
    if 2 * w["events"] > events.shape[1] or 2 * w["event_gpus"] > event_gpus.shape[1]:
        outcome += NEARLY_FULL
    return outcome


def class_table(instance: Instance) -> np.ndarray:
    """CLASS_DTYPE [1, C]: what the observation tells of a job's class."""
    fastest = instance.iteration_s.min(axis=2)
    ideal = instance.ideal_iteration_s
    table = np.zeros((1, len(instance.classes)), CLASS_DTYPE)
    table["ideal_iteration_s"] = ideal
    table["rack_loss"] = np.maximum(1.0 - ideal / fastest[:, RACK], 0.0)
    table["network_loss"] = np.maximum(1.0 - ideal / fastest[:, NETWORK], 0.0)
    table["skew"] = instance.workload.profiles.rows["skew"][instance.classes[:, 0]]
    return table


def link_table(instance: Instance) -> np.ndarray:
    """SHOWN_LINK_DTYPE [1, L]: what the observation tells of a link whatever crosses it; [1, 1] zeros without links."""
    links = instance.links
    table = np.zeros((1, max(len(links), 1)), SHOWN_LINK_DTYPE)
    if len(links):
        table["capacity"] = links["capacity"] / links["capacity"].max()
        table["tier"] = (links["tier"] + 2) / (len(LINK_TIERS) + 1)  # from the bus, -1, to the last tier
    return table


def check_rules(simulation: Simulation, rules: Sequence[str], known: set[tuple[int, int]] | None = None) -> None:
    """Refuse placement rules under which some gang would wait for ever; the simulation stands at its beginning.

    Parameters
    ----------
    known : (profile, gang size) of what has been checked on this cluster; what is checked now is added

    Raises
    ------
    ScenarioError : no rule places some job's gang on the empty cluster
    """
    known = set() if known is None else known
    for kind, (profile, gang) in enumerate(simulation.instance.classes.tolist()):
        if (profile, gang) in known:
            continue
        if not any(rule_holds(*simulation.arguments, kind, gang, RULE_NUMBER[rule]) for rule in rules):
            raise ScenarioError(
                f"rules {tuple(rules)}: none of them places a gang of {gang} GPUs even on the empty cluster; "
                "add a rule that may cross racks, such as 'pack'"
            )
        known.add((profile, gang))
