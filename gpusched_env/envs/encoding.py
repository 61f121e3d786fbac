"""The kernels of the environment that fill the windows, the mask and the observation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from gpusched_env.cluster import NETWORK, RACK
from gpusched_env.envs.pieces import copy_by, mark_by, settle_by, show_links_by
from gpusched_env.envs.sharing_actions import mark_partners, mark_sizes
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
)
from gpusched_env.envs.slots import ANY_JOB, RANKED_DTYPE, fill_partners, fill_queue, fill_running
from gpusched_env.errors import ScenarioError
from gpusched_env.instance import Instance
from gpusched_env.network import LINK_TIERS
from gpusched_env.simulator import RULE_NUMBER, Simulation
from gpusched_env.simulator.binding import STATE_PARAMETERS, Parameter, bound_array, bound_here, bound_row, state_here
from gpusched_env.core.network.settling import settle
from gpusched_env.core.events import DECIDE, rule_holds
from gpusched_env.simulator.jit import helper, int64, kernel
from gpusched_env.core.placement.placing import ANYWHERE, SHARE_FIRST_FIT, SHARED_BY, SHARING, look_for
from gpusched_env.core.placement.shared import find_shared
from gpusched_env.core.placement.taking import unable_somewhere

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
# Rows of the table of :func:`one_action.play` beyond those of a state.
(
    CONFIG, CLASSES, SHOWN_LINKS, RULES, DELAYS, QUEUE_SLOTS, RUNNING_SLOTS, PARTNER_SLOTS, KEYS, RANKED, FIRST_GANGS,
    FIRST_KEYS, MASK, SEEN, SEEN_FREE, SEEN_QUEUE, SEEN_RUNNING, TIER_SUMS, OUT_QUEUE, OUT_RUNNING, OUT_NODES,
    OUT_LINKS, OUT_CLUSTER, OUT_FLOWS, COPY_QUEUE, COPY_RUNNING, COPY_NODES, COPY_LINKS, COPY_CLUSTER, COPY_FLOWS,
    COPY_MASK, BEYOND_PLAY,
) = range(len(STATE_PARAMETERS), len(STATE_PARAMETERS) + 32)  # fmt: skip
INT8, INT32, INT64 = np.dtype(np.int8), np.dtype(np.int32), np.dtype(np.int64)
FLOAT32, FLOAT64 = np.dtype(np.float32), np.dtype(np.float64)
PLAY_PARAMETERS: Final = (
    *STATE_PARAMETERS,
    Parameter(CONFIG_DTYPE, 1, True),
    Parameter(CLASS_DTYPE, 2),
    Parameter(SHOWN_LINK_DTYPE, 2),
    Parameter(INT32, 1, True),  # rules
    Parameter(FLOAT64, 1, True),  # delays
    Parameter(INT32, 1),  # queue
    Parameter(INT32, 1),  # victims
    Parameter(INT32, 1),  # partners
    Parameter(FLOAT64, 1),  # keys
    Parameter(RANKED_DTYPE, 1, True),
    Parameter(INT32, 1),  # first gangs, and their keys
    Parameter(FLOAT64, 1),
    Parameter(INT8, 1),  # mask
    Parameter(SEEN_DTYPE, 1, True),
    Parameter(INT32, 2, True),  # free GPUs of machines and racks as last shown
    Parameter(INT64, 1),  # who was shown last in queue and running slots, showing.row_shown
    Parameter(INT64, 1),
    Parameter(FLOAT64, 2),  # of tiers
    Parameter(FLOAT32, 2),  # queue, running, nodes, links, cluster, flows
    Parameter(FLOAT32, 2),
    Parameter(FLOAT32, 2),
    Parameter(FLOAT32, 2),
    Parameter(FLOAT32, 1),
    Parameter(FLOAT32, 2),
    Parameter(FLOAT32, 3, True),  # copies of these and of the mask; without rows where nobody wants them
    Parameter(FLOAT32, 3, True),
    Parameter(FLOAT32, 3, True),
    Parameter(FLOAT32, 3, True),
    Parameter(FLOAT32, 2, True),
    Parameter(FLOAT32, 3, True),
    Parameter(INT8, 2, True),
)


@helper
def mark_by_count(
    jobs: Array, supply: int, b: int, rules: int, queue: Array, filled: int, before: int, mask: Array
) -> int:
    """Mark starts where any free GPUs will do, by each rule; return their number.

    ``filled`` slots have a job, and ``before`` had: behind those nothing is marked.
    """
    choices = 0
    for k in range(filled):
        fits = 1 if jobs[b, queue[k]]["gpus"] <= supply else 0
        choices += fits * rules
        mask[k * rules] = fits
        for p in range(1, rules):
            mask[k * rules + p] = fits
    for i in range(filled * rules, before * rules):
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
            if rule in SHARING and world[b]["gpu_jobs"] > 1:
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
    world: Array, config: Array, b: int, victims: Array, first_gangs: Array, starts: int, choices: int, mask: Array
) -> bool:
    """Mark the feasible actions behind the ``starts``; return whether there is a choice beside one wait."""
    w = world[b]
    at = starts
    useful = w["waiting"] > 0 or config[0]["migration"]
    for v in range(len(victims)):
        feasible = int64(useful and victims[v] >= 0) & first_gangs[v]  # its lowest bit, slots.entry_of
        mask[at] = feasible
        choices += feasible
        at += 1
    # With nothing running, nobody to come and no timer, waiting for an event would last for ever.
    may_wait = w["running"] > 0 or w["next_arrival"] < w["jobs"] or w["timer_s"] < np.inf
    waits = len(mask) - at
    mask[at] = 1 if may_wait else 0
    for i in range(at + 1, len(mask)):
        mask[i] = 1
    return choices > 0 or waits > 1


@helper
def copy_row(source: Array, target: Array) -> None:
    """Copy an array that has no gaps."""
    numbers, copies = source.reshape(source.size), target.reshape(source.size)
    for i in range(len(numbers)):
        copies[i] = numbers[i]


@kernel
def settle_links(table: Any, number: int, _j: int, _k: int, _l: int, _m: int, _n: int, _: float) -> int:
    """Find the rates of gangs under the flows as they are now."""
    state = state_here(table, number)
    settle(state[0], state[2], state[15], state[16], state[19], int64(0))
    return int64(0)


@kernel
def mark(table: Any, number: int, _j: int, _k: int, _l: int, _m: int, _n: int, _: float) -> int:
    """Fill the partner slots and mark the starts that the simulator would accept; return their number."""
    b = int64(0)
    (
        world, jobs, replicas, nodes, racks, free, holder, gpu_next, gpu_node, _waiting, running, paces, _events,
        _event_gpus, chosen, links, _uses, _routes, _pairs, _ratios, busy, sub_batches, interference, _due,
    ) = state_here(table, number)  # fmt: skip
    config = bound_array(table, CONFIG, CONFIG_DTYPE, 1)
    rules = bound_array(table, RULES, INT32, 1)
    queue = bound_row(table, QUEUE_SLOTS, INT32, 1, number)
    partners = bound_row(table, PARTNER_SLOTS, INT32, 1, number)
    keys = bound_row(table, KEYS, FLOAT64, 1, number)
    mask = bound_row(table, MASK, INT8, 1, number)
    order = config[0]["running_order"]
    fill_partners(world, jobs, replicas, holder, gpu_next, running, order, b, partners, keys)
    return int64(
        mark_starts(
            world, jobs, replicas, nodes, racks, free, holder, gpu_next, gpu_node, running, paces, chosen, links, busy,
            sub_batches, interference, b, config, rules, queue, partners, mask,
        )
    )


@kernel
def show_all_links(table: Any, number: int, _j: int, _k: int, _l: int, _m: int, _n: int, _: float) -> int:
    """Write what the observation shows of links and of the gangs' flows."""
    b = int64(0)
    state = state_here(table, number)
    world, jobs, replicas, links, uses = state[0], state[1], state[2], state[15], state[16]
    victims = bound_row(table, RUNNING_SLOTS, INT32, 1, number)
    shown_links = bound_row(table, SHOWN_LINKS, SHOWN_LINK_DTYPE, 2, number)
    show_links(replicas, links, uses, b, shown_links, bound_row(table, OUT_LINKS, FLOAT32, 2, number))
    out_flows = bound_row(table, OUT_FLOWS, FLOAT32, 2, number)
    show_flows(world, jobs, replicas, links, uses, b, victims, shown_links, out_flows)
    return int64(0)


@kernel
def copy(table: Any, number: int, row: int, _k: int, _l: int, _m: int, _n: int, _: float) -> int:
    """Copy mask and observation to row ``row`` of the arrays for copies."""
    copy_row(bound_row(table, OUT_QUEUE, FLOAT32, 2, number), bound_row(table, COPY_QUEUE, FLOAT32, 2, row))
    copy_row(bound_row(table, OUT_RUNNING, FLOAT32, 2, number), bound_row(table, COPY_RUNNING, FLOAT32, 2, row))
    copy_row(bound_row(table, OUT_NODES, FLOAT32, 2, number), bound_row(table, COPY_NODES, FLOAT32, 2, row))
    copy_row(bound_row(table, OUT_LINKS, FLOAT32, 2, number), bound_row(table, COPY_LINKS, FLOAT32, 2, row))
    copy_row(bound_row(table, OUT_CLUSTER, FLOAT32, 1, number), bound_row(table, COPY_CLUSTER, FLOAT32, 1, row))
    out_flows = bound_row(table, OUT_FLOWS, FLOAT32, 2, number)
    if out_flows.shape[0] > 0:
        copy_row(out_flows, bound_row(table, COPY_FLOWS, FLOAT32, 2, row))
    copy_row(bound_row(table, MASK, INT8, 1, number), bound_row(table, COPY_MASK, INT8, 1, row))
    return int64(0)


@kernel
def look(table: Any, number: int, outcome: int, changed: int, row: int, _m: int, _n: int, _: float) -> int:
    """Fill the windows and the mask of environment ``number`` and write its observation; return 1.

    Where nothing can be done but wait, and that is to be skipped, write no observation and return 0. ``outcome`` is
    what advance has told, ``changed`` the job that an action has started or preempted, ANY_JOB if time has passed.
    Mask and observation are copied to row ``row`` of the arrays for copies, if they have it.
    """
    b = int64(0)
    state = state_here(table, number)
    world, jobs, replicas, nodes, racks, free = state[0], state[1], state[2], state[3], state[4], state[5]
    waiting, running, paces = state[9], state[10], state[11]
    config = bound_array(table, CONFIG, CONFIG_DTYPE, 1)
    rules = bound_array(table, RULES, INT32, 1)
    queue = bound_row(table, QUEUE_SLOTS, INT32, 1, number)
    victims = bound_row(table, RUNNING_SLOTS, INT32, 1, number)
    partners = bound_row(table, PARTNER_SLOTS, INT32, 1, number)
    keys = bound_row(table, KEYS, FLOAT64, 1, number)
    ranked = bound_here(table, RANKED, RANKED_DTYPE, 1, number)
    first_gangs = bound_row(table, FIRST_GANGS, INT32, 1, number)
    first_keys = bound_row(table, FIRST_KEYS, FLOAT64, 1, number)
    mask = bound_row(table, MASK, INT8, 1, number)
    w = world[b]
    slot_starts = (len(rules) + len(partners)) * max(int64(config[0]["sub_batches"]), 1)
    starts = len(queue) * slot_starts
    if w["changed"] > 0 or w["listed"] > 0:  # else it would do nothing, and most steps need not call it
        settle_by(table, number)
    before = int64(ranked[b]["queue_slots"])
    fill_queue(world, jobs, replicas, waiting, config[0]["queue_order"], b, ranked, queue, keys)
    filled = int64(ranked[b]["queue_slots"])
    order = config[0]["running_order"]
    fill_running(world, jobs, replicas, running, order, b, changed, ranked, first_gangs, first_keys, victims)
    one_type = paces.shape[3] == 1
    if config[0]["anywhere"] and w["sharing"] == 0 and w["gpu_jobs"] == 1 and one_type and len(partners) == 0:
        choices = mark_by_count(jobs, int64(w["free_gpus"]), b, len(rules), queue, filled, before, mask)
    else:
        choices = mark_by(table, number)
    choice = mark_others(world, config, b, victims, first_gangs, starts, choices, mask)
    if outcome == DECIDE and not choice and config[0]["skip_forced_waits"] and mask[starts + len(victims)] != 0:
        return int64(0)
    classes = bound_row(table, CLASSES, CLASS_DTYPE, 2, number)
    out_queue = bound_row(table, OUT_QUEUE, FLOAT32, 2, number)
    out_running = bound_row(table, OUT_RUNNING, FLOAT32, 2, number)
    out_nodes = bound_row(table, OUT_NODES, FLOAT32, 2, number)
    out_cluster = bound_row(table, OUT_CLUSTER, FLOAT32, 1, number)
    seen = bound_here(table, SEEN, SEEN_DTYPE, 1, number)
    seen_free = bound_here(table, SEEN_FREE, INT32, 2, number)
    seen_queue = bound_row(table, SEEN_QUEUE, INT64, 1, number)
    seen_running = bound_row(table, SEEN_RUNNING, INT64, 1, number)
    clairvoyant = int64(config[0]["clairvoyant"])
    stands = changed != ANY_JOB
    show_queue(
        world, jobs, replicas, clairvoyant, classes, b, queue, filled, mask, slot_starts, stands, seen, seen_queue,
        out_queue,
    )
    show_running(
        world, jobs, replicas, clairvoyant, classes, b, victims, int64(ranked[b]["running_slots"]), mask, starts,
        stands, changed, seen, seen_running, out_running,
    )
    show_machines(world, nodes, racks, free, b, seen_free, seen, out_nodes)
    show_cluster(world, free, b, len(queue), seen, out_cluster)
    if w["contention"] > 0:
        show_links_by(table, number)
    else:
        out_links = bound_row(table, OUT_LINKS, FLOAT32, 2, number)
        tier_sums = bound_row(table, TIER_SUMS, FLOAT64, 2, number)
        show_tiers(world, replicas, running, classes, b, stands, seen, tier_sums, out_links)
    if row < bound_array(table, COPY_MASK, INT8, 2).shape[0]:
        copy_by(table, number, row)
    return int64(1)


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
