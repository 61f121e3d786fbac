"""Kernels of the environment: fill the windows, the mask and the observation; play one action."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from gpusched_env.cluster import NETWORK, RACK
from gpusched_env.envs.moves import advance_by, beside_by, lease_by, preempt_by, start_by
from gpusched_env.envs.sharing_actions import chosen_steps, mark_partners, mark_sizes
from gpusched_env.envs.showing import (
    CLASS_DTYPE,
    SEEN_DTYPE,
    SHOWN_LINK_DTYPE,
    show_cluster,
    show_flows,
    show_links,
    show_machines,
    show_queue,
    show_running,
    show_tiers,
    slots_filled,
)
from gpusched_env.envs.slots import ANY_JOB, RANKED_DTYPE, fill_partners, fill_queue, fill_running
from gpusched_env.errors import ScenarioError
from gpusched_env.instance import Instance
from gpusched_env.network import LINK_TIERS
from gpusched_env.simulator import RULE_NUMBER, Simulation
from gpusched_env.simulator.binding import STATE_PARAMETERS, Parameter, bound_array, bound_row, bound_state
from gpusched_env.simulator.contention import settle
from gpusched_env.simulator.events import DECIDE, EXPLICIT, LOG_FULL, rule_holds
from gpusched_env.simulator.jit import helper, int64, kernel
from gpusched_env.simulator.placing import ANYWHERE, SHARE_FIRST_FIT, SHARED_BY, look_for
from gpusched_env.simulator.placing_shared import find_shared
from gpusched_env.simulator.state import CHECKPOINTING
from gpusched_env.simulator.taking import unable_somewhere

Array = np.ndarray[Any, Any]

CONFIG_DTYPE: Final = np.dtype(
    [
        ("queue_order", "<i8"),  # WINDOW_ORDERS
        ("running_order", "<i8"),
        ("clairvoyant", "<i8"),
        ("migration", "<i8"),
        ("skip_forced_waits", "<i8"),
        ("sub_batches", "<i8"),  # that a start may name; 0 = starts name none
        ("pair_benefit", "<i8"),
        ("anywhere", "<i8"),  # 1 = all placement rules take any free GPUs
        ("lease_s", "<f8"),  # [s] for which a start holds its GPUs before the agent is asked again; inf = no leases
    ]
)
# Rows of the table of :func:`play` beyond those of a state.
(
    CONFIG, CLASSES, SHOWN_LINKS, RULES, DELAYS, QUEUE_SLOTS, RUNNING_SLOTS, PARTNER_SLOTS, KEYS, RANKED, FIRST_GANGS,
    FIRST_KEYS, MASK, SEEN, SEEN_FREE, SEEN_QUEUE, SEEN_RUNNING, TIER_SUMS, OUT_QUEUE, OUT_RUNNING, OUT_NODES,
    OUT_LINKS, OUT_CLUSTER, OUT_FLOWS, COPY_QUEUE, COPY_RUNNING, COPY_NODES, COPY_LINKS, COPY_CLUSTER, COPY_FLOWS,
    COPY_MASK, BEYOND_PLAY,
) = range(len(STATE_PARAMETERS), len(STATE_PARAMETERS) + 32)  # fmt: skip
_INT8, _INT32 = np.dtype(np.int8), np.dtype(np.int32)
_FLOAT32, _FLOAT64 = np.dtype(np.float32), np.dtype(np.float64)
PLAY_PARAMETERS: Final = (
    *STATE_PARAMETERS,
    Parameter(CONFIG_DTYPE, 1, True),
    Parameter(CLASS_DTYPE, 2),
    Parameter(SHOWN_LINK_DTYPE, 2),
    Parameter(_INT32, 1, True),  # rules
    Parameter(_FLOAT64, 1, True),  # delays
    Parameter(_INT32, 1),  # queue
    Parameter(_INT32, 1),  # victims
    Parameter(_INT32, 1),  # partners
    Parameter(_FLOAT64, 1),  # keys
    Parameter(RANKED_DTYPE, 1, True),
    Parameter(_INT32, 1),  # first gangs, and their keys
    Parameter(_FLOAT64, 1),
    Parameter(_INT8, 1),  # mask
    Parameter(SEEN_DTYPE, 1, True),
    Parameter(_INT32, 2, True),  # free GPUs of machines and racks as last shown
    Parameter(_INT32, 1),  # jobs of queue and running slots as last shown
    Parameter(_INT32, 1),
    Parameter(_FLOAT64, 2),  # of tiers
    Parameter(_FLOAT32, 2),  # queue, running, nodes, links, cluster, flows
    Parameter(_FLOAT32, 2),
    Parameter(_FLOAT32, 2),
    Parameter(_FLOAT32, 2),
    Parameter(_FLOAT32, 1),
    Parameter(_FLOAT32, 2),
    Parameter(_FLOAT32, 3, True),  # copies of these and of the mask; without rows where nobody wants them
    Parameter(_FLOAT32, 3, True),
    Parameter(_FLOAT32, 3, True),
    Parameter(_FLOAT32, 3, True),
    Parameter(_FLOAT32, 2, True),
    Parameter(_FLOAT32, 3, True),
    Parameter(_INT8, 2, True),
)
# Results of :func:`play` beyond those of advance.
INFEASIBLE: Final = 8
NEARLY_FULL: Final = 16
# Actions beyond those of the action space.
NO_ACTION: Final = -1
RESUME: Final = -2


@helper
def mark_by_count(jobs: Array, supply: int, b: int, rules: int, queue: Array, mask: Array) -> int:
    """Mark starts where any free GPUs will do, by each rule; return their number."""
    filled = slots_filled(queue)
    choices = 0
    for k in range(filled):
        fits = 1 if jobs[b, queue[k]]["gpus"] <= supply else 0
        choices += fits * rules
        for p in range(rules):
            mask[k * rules + p] = fits
    for i in range(max(filled * rules, 0), len(queue) * rules):  # max: as in empty_from
        mask[i] = 0
    return choices


@helper
def mark_starts(
    world: Array, jobs: Array, replicas: Array, nodes: Array, racks: Array, free: Array, holder: Array, gpu_next: Array,
    gpu_node: Array, running: Array, paces: Array, chosen: Array, links: Array, busy: Array, sub_batches: Array,
    interference: Array, b: int, config: Array, rules: Array, queue: Array, partners: Array, mask: Array,
) -> int:
    """Mark the starts that the simulator would accept; return their number."""
    sharing = world[b]["sharing"] > 0
    supply = world[b]["free_gpus"]
    if config[0]["anywhere"] and not sharing and world[b]["gpu_jobs"] == 1 and paces.shape[3] == 1:
        return mark_by_count(jobs, supply, b, len(rules), queue, mask)
    sizes = int64(config[0]["sub_batches"])
    columns = max(sizes, 1)
    at = int64(0)
    choices = 0
    for k in range(len(queue)):
        row = int64(queue[k])
        if row < 0:  # and so are all slots behind it
            break
        gang = int64(jobs[b, row]["gpus"])
        kind = int64(jobs[b, row]["job_class"])
        for p in range(len(rules)):
            rule = int64(rules[p])
            option = int64(-1)
            found = int64(0)
            if rule >= SHARE_FIRST_FIT and world[b]["gpu_jobs"] > 1:
                found, option = find_shared(
                    world, jobs, replicas, nodes, racks, free, holder, gpu_next, gpu_node, running, paces, chosen,
                    links, busy, sub_batches, interference, b, row, SHARED_BY[rule - SHARE_FIRST_FIT],
                )
            elif gang <= supply:
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
    for i in range(at, len(queue) * (len(rules) + len(partners)) * columns):
        mask[i] = 0
    return choices


@helper
def mark_others(
    world: Array, jobs: Array, replicas: Array, config: Array, b: int, victims: Array, starts: int, choices: int,
    mask: Array,
) -> bool:
    """Mark the feasible actions behind the ``starts``; return whether there is a choice beside one wait."""
    w = world[b]
    at = starts
    useful = w["waiting"] > 0 or config[0]["migration"]
    for v in range(len(victims)):
        feasible = False
        if useful and victims[v] >= 0:  # of a running job preempt_refusal looks only at these
            r = replicas[b, jobs[b, victims[v]]["replica"]]
            feasible = r["phase"] != CHECKPOINTING and r["start_s"] != w["clock_s"]
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
def act(
    table: Any, world: Array, jobs: Array, sub_batches: Array, config: Array, rules: Array, delays: Array, queue: Array,
    victims: Array, partners: Array, b: int, action: int,
) -> int:
    """Carry out a feasible action; return the job that it has started or preempted, ANY_JOB if it waits."""
    w = world[b]
    sizes = int64(config[0]["sub_batches"])
    columns = max(sizes, 1)
    slot_starts = (len(rules) + len(partners)) * columns
    starts = len(queue) * slot_starts
    if action < starts:
        row = int64(queue[action // slot_starts])
        place = action % slot_starts // columns
        size = action % columns
        steps = chosen_steps(sub_batches, b, int64(jobs[b, row]["job_class"]), sizes, size)
        beside = place >= len(rules)
        rule = int64(EXPLICIT)
        found = int64(0)
        if beside:
            option = size if sizes > 0 else int64(-1)
            partner = int64(partners[place - len(rules)])
            both = beside_by(table, b, row, partner, option, int64(0), int64(0), 0.0)
            found = both & 0xFFFFFFFF
            steps = int64(sub_batches[b, jobs[b, row]["job_class"], both >> 32, 0]["sub_steps"])
        else:
            rule = int64(rules[place])
        start_by(table, b, row, rule, found, int64(beside), steps, 0.0)
        if config[0]["lease_s"] < np.inf:
            until_s = w["clock_s"] + config[0]["lease_s"]
            lease_by(table, b, row, int64(0), int64(0), int64(0), int64(0), until_s)
        return row
    if action < starts + len(victims):
        row = int64(victims[action - starts])
        preempt_by(table, b, row, int64(0), int64(0), int64(0), int64(0), 0.0)
        return row
    delay = action - starts - len(victims) - 1
    if delay >= 0:
        w["timer_s"] = min(w["timer_s"], w["clock_s"] + delays[delay])
    return int64(ANY_JOB)


@helper
def renew_leases(table: Any, world: Array, replicas: Array, running: Array, lease_s: float, b: int) -> None:
    """Let the gangs go on whose lease has ended."""
    w = world[b]
    for i in range(w["running"]):
        r = replicas[b, running[b, i]]
        if r["lease_over"]:
            until_s = w["clock_s"] + lease_s
            lease_by(table, b, int64(r["job"]), int64(0), int64(0), int64(0), int64(0), until_s)


@helper
def copy_row(source: Array, target: Array) -> None:
    """Copy an array that has no gaps."""
    numbers, copies = source.reshape(source.size), target.reshape(source.size)
    for i in range(len(numbers)):
        copies[i] = numbers[i]


@kernel
def play(table: Any, b: int, action: int, row: int, _k: int, _m: int, _n: int, _: float) -> int:
    """Play one action on the windows of the last call, skip forced waits, and write mask and observation.

    ``action`` NO_ACTION only looks and RESUME advances again after a full log. Mask and observation are copied to row
    ``row`` of the arrays for copies, if they have it. Returns an outcome of advance, LOG_FULL (drain the log, then
    RESUME) or INFEASIBLE (nothing changed, nothing is written); NEARLY_FULL is added when the log should be drained.
    """
    (
        world, jobs, replicas, nodes, racks, free, holder, gpu_next, gpu_node, waiting, running, paces, events,
        event_gpus, chosen, links, uses, _routes, _pairs, ratios, busy, sub_batches, interference,
    ) = bound_state(table)  # fmt: skip
    config = bound_array(table, CONFIG, CONFIG_DTYPE, 1)
    rules = bound_array(table, RULES, _INT32, 1)
    delays = bound_array(table, DELAYS, _FLOAT64, 1)
    queue = bound_row(table, QUEUE_SLOTS, _INT32, 1, b)
    victims = bound_row(table, RUNNING_SLOTS, _INT32, 1, b)
    partners = bound_row(table, PARTNER_SLOTS, _INT32, 1, b)
    keys = bound_row(table, KEYS, _FLOAT64, 1, b)
    ranked = bound_array(table, RANKED, RANKED_DTYPE, 1)
    first_gangs = bound_row(table, FIRST_GANGS, _INT32, 1, b)
    first_keys = bound_row(table, FIRST_KEYS, _FLOAT64, 1, b)
    mask = bound_row(table, MASK, _INT8, 1, b)
    w = world[b]
    slot_starts = (len(rules) + len(partners)) * max(int64(config[0]["sub_batches"]), 1)
    starts = len(queue) * slot_starts
    lease_s = config[0]["lease_s"]
    outcome = int64(DECIDE)
    step_time = action == RESUME
    changed = int64(ANY_JOB)
    if action >= 0:
        if mask[action] == 0:
            return int64(INFEASIBLE)
        changed = act(table, world, jobs, sub_batches, config, rules, delays, queue, victims, partners, b, action)
        step_time = changed == ANY_JOB
    while True:
        if step_time:
            # to wait is to let them go on; after a full log, of those that have ended nobody has been asked yet
            if lease_s < np.inf and w["leases_over"] and action != RESUME:
                renew_leases(table, world, replicas, running, lease_s, b)
            outcome = advance_by(table, b, int64(0), int64(0), int64(0), int64(0), int64(0), 0.0)
            if outcome == LOG_FULL:
                return int64(LOG_FULL)
            action = int64(NO_ACTION)
            changed = int64(ANY_JOB)
        settle(world, replicas, links, uses, ratios, b)
        fill_queue(world, jobs, replicas, waiting, config[0]["queue_order"], b, queue, keys)
        order = config[0]["running_order"]
        fill_running(
            world, jobs, replicas, running, order, b, changed, ranked, first_gangs, first_keys, victims
        )
        fill_partners(world, jobs, replicas, holder, gpu_next, running, order, b, partners, keys)
        choices = mark_starts(
            world, jobs, replicas, nodes, racks, free, holder, gpu_next, gpu_node, running, paces, chosen, links, busy,
            sub_batches, interference, b, config, rules, queue, partners, mask,
        )
        choice = mark_others(world, jobs, replicas, config, b, victims, starts, choices, mask)
        if outcome != DECIDE or choice or not config[0]["skip_forced_waits"] or mask[starts + len(victims)] == 0:
            break
        step_time = True
    classes = bound_row(table, CLASSES, CLASS_DTYPE, 2, b)
    out_queue = bound_row(table, OUT_QUEUE, _FLOAT32, 2, b)
    out_running = bound_row(table, OUT_RUNNING, _FLOAT32, 2, b)
    out_nodes = bound_row(table, OUT_NODES, _FLOAT32, 2, b)
    out_links = bound_row(table, OUT_LINKS, _FLOAT32, 2, b)
    out_cluster = bound_row(table, OUT_CLUSTER, _FLOAT32, 1, b)
    out_flows = bound_row(table, OUT_FLOWS, _FLOAT32, 2, b)
    seen = bound_array(table, SEEN, SEEN_DTYPE, 1)
    seen_free = bound_array(table, SEEN_FREE, _INT32, 2)
    seen_queue = bound_row(table, SEEN_QUEUE, _INT32, 1, b)
    seen_running = bound_row(table, SEEN_RUNNING, _INT32, 1, b)
    clairvoyant = int64(config[0]["clairvoyant"])
    stands = changed != ANY_JOB
    show_queue(
        world, jobs, replicas, clairvoyant, classes, b, queue, mask, slot_starts, stands, seen, seen_queue, out_queue
    )
    show_running(
        world, jobs, replicas, clairvoyant, classes, b, victims, mask, starts, stands, changed, seen, seen_running,
        out_running,
    )
    show_machines(world, nodes, racks, free, b, seen_free, seen, out_nodes)
    show_cluster(world, free, b, len(queue), seen, out_cluster)
    if w["contention"] > 0:
        shown_links = bound_row(table, SHOWN_LINKS, SHOWN_LINK_DTYPE, 2, b)
        show_links(replicas, links, uses, b, shown_links, out_links)
        show_flows(world, jobs, replicas, links, uses, b, victims, shown_links, out_flows)
    else:
        tier_sums = bound_row(table, TIER_SUMS, _FLOAT64, 2, b)
        show_tiers(world, replicas, running, classes, b, stands, seen, tier_sums, out_links)
    copy_mask = bound_array(table, COPY_MASK, _INT8, 2)
    if row < copy_mask.shape[0]:
        copy_row(out_queue, bound_row(table, COPY_QUEUE, _FLOAT32, 2, row))
        copy_row(out_running, bound_row(table, COPY_RUNNING, _FLOAT32, 2, row))
        copy_row(out_nodes, bound_row(table, COPY_NODES, _FLOAT32, 2, row))
        copy_row(out_links, bound_row(table, COPY_LINKS, _FLOAT32, 2, row))
        copy_row(out_cluster, bound_row(table, COPY_CLUSTER, _FLOAT32, 1, row))
        if out_flows.shape[0] > 0:
            copy_row(out_flows, bound_row(table, COPY_FLOWS, _FLOAT32, 2, row))
        copy_row(mask, copy_mask[row])
    if 2 * w["events"] > events.shape[1] or 2 * w["event_gpus"] > event_gpus.shape[1]:
        outcome += NEARLY_FULL
    return int64(outcome)


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
