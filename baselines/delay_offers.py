"""Delay scheduling, one decision after the other: who is offered GPUs when, and what he accepts.

``next_decision`` finds the next decision of a decision point. Python yields it (``Dally.decide``), or ``play`` carries
it out and plays on: both give the same event log.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gpusched_env.baselines.delay_affinity import may_move, place_by_affinity
from gpusched_env.baselines.delay_keeping import keep, steps_done, stop_next, take_kept
from gpusched_env.baselines.delay_leaks import give_back, leak
from gpusched_env.baselines.delay_placing import (
    ANYWHERE,
    IN_RACK,
    ON_MACHINE,
    ON_SLOT,
    REFUSED,
    choose_gpus,
    count_offer,
    first_rack_with,
    visit,
)
from gpusched_env.baselines.delay_state import MACHINE_WAITS, NETWORK_TIMER, RACK_TIMER, RACK_WAITS
from gpusched_env.baselines.delay_tuning import record
from gpusched_env.baselines.delay_victims import evict_for, nw_of, rate_victims
from gpusched_env.cluster import SLOT
from gpusched_env.portable.keys import rounded_key
from gpusched_env.simulator.binding import rows_of
from gpusched_env.core.events import DECIDE, EXPLICIT, IDLE_LIMIT, LOG_FULL, STALLED, stuck
from gpusched_env.simulator.jit import helper, int64, kernel
from gpusched_env.simulator.moves import advance_by, lease_by, preempt_by, start_by
from gpusched_env.core.state import FINISHED, RUNNING, WAITING

Array = np.ndarray[Any, Any]

# What ``next_decision`` has found; the row is in ``rules.row``, the time in ``rules.until_s``, the GPUs in ``chosen``.
NOTHING, START, LEASE, PREEMPT, WAIT, TUNE, GROW, SORT = range(8)
# What stopped ``play`` beside the codes of ``advance``.
PAUSED, TOO_SMALL, UNSORTED = 100, 101, 102
# Phases of a decision point.
ASLEEP, BEGUN, OBSERVES, OFFERS, WALKS, GRANTED, EVICTS, STOPS, ENDS = range(9)
TIRESIAS, GANDIVA = 1, 2
BY_NW, BY_GPU_TIME, BY_ARRIVAL, BY_FIRST_START = range(4)


@helper
def before(tasks: Array, b: int, one: int, other: int) -> bool:
    """Tell whether a job is asked before another: smaller key, then longer without GPUs, then smaller id."""
    first = tasks[b, one]
    second = tasks[b, other]
    if first["key"] != second["key"]:
        return first["key"] < second["key"]
    if first["last_s"] != second["last_s"]:
        return first["last_s"] < second["last_s"]
    return first["id"] < second["id"]


@helper
def insert(tasks: Array, line: Array, b: int, length: int, row: int) -> None:
    """Put a job into a sorted line of so many jobs."""
    at = length
    while at > 0 and before(tasks, b, row, int64(line[b, at - 1])):
        line[b, at] = line[b, at - 1]
        at -= 1
    line[b, at] = row


@helper
def remove(line: Array, b: int, length: int, row: int) -> None:
    """Take a job out of a line of so many jobs."""
    at = 0
    while line[b, at] != row:
        at += 1
    for i in range(at, length - 1):
        line[b, i] = line[b, i + 1]


@helper
def offer_at(world: Array, rules: Array, offers: Array, b: int, time_s: float) -> None:
    """Queue an offer; those of this instant are counted."""
    if time_s <= world[b]["clock_s"]:
        rules[b]["due"] += 1
    else:
        offers[b, rules[b]["later"]] = time_s
        rules[b]["later"] += 1


@helper
def rank(
    world: Array, jobs: Array, rules: Array, tasks: Array, b: int, row: int, left: float, run_s: float, gpu_s: float,
) -> None:
    """Set Nw and what a job is ordered by, after so much work and so many seconds."""
    task = tasks[b, row]
    if run_s > 0.0:
        seconds = world[b]["clock_s"] - task["arrival_s"] if rules[b]["wall"] else run_s
        # rounded, because jobs without communication have 1 but for rounding, and tie
        task["nw"] = rounded_key((1.0 - left / task["iterations"]) / (seconds / task["ideal_s"]))
    if rules[b]["priority"] == BY_NW:
        task["key"] = task["nw"]
    elif rules[b]["priority"] == BY_GPU_TIME:
        task["key"] = gpu_s
    elif rules[b]["priority"] == BY_FIRST_START:  # the latest first; who has never started comes last
        first_s = jobs[b, row]["first_start_s"]
        task["key"] = -first_s if first_s < np.inf else np.inf
    else:
        task["key"] = row  # rows ascend by arrival


@helper
def close_lease(world: Array, jobs: Array, rules: Array, tasks: Array, b: int, row: int) -> None:
    """Add what a job has done since its start."""
    task = tasks[b, row]
    if task["step_s"] > 0.0:
        for _ in range(task["steps"]):
            task["run_s"] += task["step_s"]
            task["service_gpu_s"] += task["gpus"] * task["step_s"]
            task["left"] -= rules[b]["step_iterations"] * task["gpus"]
    else:
        task["run_s"] = jobs[b, row]["service_s"]
        task["service_gpu_s"] = task["gpus"] * task["run_s"]
        task["left"] = task["iterations"] * (jobs[b, row]["remaining"] / jobs[b, row]["iterations"])
    rank(world, jobs, rules, tasks, b, row, task["left"], task["run_s"], task["service_gpu_s"])


@helper
def plan_lease(world: Array, jobs: Array, replicas: Array, rules: Array, tasks: Array, b: int, row: int) -> float:
    """Find when the lease of a gang that has just started ends; inf if it has none, or its work ends before [s].

    In steps it ends with the step at whose end the lease is over, or the next step seems not to fit (quirk Q2: a step
    counts as if its seconds, too, were shared by the gang). Ends of steps are added up as the authors do.
    """
    r = rules[b]
    task = tasks[b, row]
    task["step_s"] = 0.0
    task["steps"] = 0
    task["early"] = 0
    if not r["leased"]:
        return np.inf
    task["lease_end_s"] = world[b]["clock_s"] + r["lease_s"]
    if r["step_iterations"] == 0.0 or world[b]["contention"] > 0:
        return task["lease_end_s"]
    replica = replicas[b, jobs[b, row]["replica"]]
    task["step_s"] = replica["iteration_s"] * r["step_iterations"]
    ahead_s = task["step_s"] / task["gpus"]
    end_s = replica["since_s"]
    left = task["left"]
    while True:
        end_s += task["step_s"]
        left -= r["step_iterations"] * task["gpus"]
        task["steps"] += 1
        if left <= 0.0:
            return np.inf
        if end_s >= task["lease_end_s"]:
            return end_s
        if r["look_ahead"] and end_s + ahead_s > task["lease_end_s"]:
            task["early"] = 1
            return end_s


@helper
def bids_again(world: Array, jobs: Array, replicas: Array, rules: Array, tasks: Array, b: int, row: int) -> bool:
    """Tell whether a running gang bids (quirk Q1: once in each step), and set what it is ordered by."""
    task = tasks[b, row]
    steps = steps_done(world, jobs, replicas, tasks, b, row)
    if task["won_step"] == steps:
        return False
    left = task["left"]
    run_s = task["run_s"]
    gpu_s = task["service_gpu_s"]
    for _ in range(steps):
        run_s += task["step_s"]
        gpu_s += task["gpus"] * task["step_s"]
        left -= rules[b]["step_iterations"] * task["gpus"]
    rank(world, jobs, rules, tasks, b, row, left, run_s, gpu_s)
    return True


@helper
def end_of_task(world: Array, rules: Array, tasks: Array, offers: Array, leaker: Array, b: int, row: int) -> None:
    """Take note that a job has finished: its GPUs, and those that it has leaked, are offered in a while."""
    task = tasks[b, row]
    freed = int64(task["gpus"]) + int64(task["leaked"])
    give_back(tasks, leaker, b, row, True)
    if not rules[b]["exact"]:
        offer_at(world, rules, offers, b, world[b]["clock_s"] + rules[b]["ckpt_per_gpu_s"] * freed)


@helper
def end_of_lease(
    world: Array, jobs: Array, rules: Array, tasks: Array, queue: Array, offers: Array, leaker: Array, b: int, row: int,
) -> None:
    """Take note that a job has given back its GPUs: it waits again."""
    task = tasks[b, row]
    if rules[b]["rebid"]:
        give_back(tasks, leaker, b, row, False)
    close_lease(world, jobs, rules, tasks, b, row)
    task["last_s"] = world[b]["clock_s"]
    insert(tasks, queue, b, rules[b]["queued"], row)
    rules[b]["queued"] += 1
    if not rules[b]["exact"]:
        delay_s = rules[b]["ckpt_per_gpu_s"] * task["gpus"]
        if task["early"] and rules[b]["alias"]:
            delay_s = 0.0
        offer_at(world, rules, offers, b, world[b]["clock_s"] + delay_s)


@helper
def observe(
    world: Array, jobs: Array, replicas: Array, rules: Array, tasks: Array, queue: Array, held: Array, offers: Array,
    leaker: Array, b: int,
) -> int:
    """Take note of arrivals and of gangs that have stopped; renew or end one lease that is over."""
    w = world[b]
    r = rules[b]
    while r["seen"] < w["next_arrival"]:
        row = int64(r["seen"])
        tasks[b, row]["last_s"] = jobs[b, row]["arrival_s"]
        tasks[b, row]["arrival_s"] = jobs[b, row]["arrival_s"]
        rank(world, jobs, rules, tasks, b, row, 0.0, 0.0, 0.0)
        insert(tasks, queue, b, r["queued"], row)
        r["queued"] += 1
        r["seen"] += 1
        if r["free_before"] > 0 and not r["exact"]:
            r["due"] += 1
    i = 0
    while i < r["held"] and (r["returned"] < w["returns"] or w["leases_over"] > 0):
        row = int64(held[b, i])
        status = jobs[b, row]["status"]
        if status == RUNNING:
            replica = replicas[b, jobs[b, row]["replica"]]
            if replica["lease_over"]:
                r["row"] = row
                r["until_s"] = w["clock_s"] + r["lease_s"]
                tier = -1 if replica["tier"] == SLOT else int64(replica["tier"])
                moves = tasks[b, row]["leaked"] > 0
                if r["renew"] and not moves and w["waiting"] == 0 and tier <= tasks[b, row]["best_tier"]:
                    return LEASE
                return PREEMPT
            i += 1
            continue
        remove(held, b, r["held"], row)
        r["held"] -= 1
        r["returned"] += 1
        tasks[b, row]["won_step"] = -1
        if status == FINISHED:
            end_of_task(world, rules, tasks, offers, leaker, b, row)
        else:
            end_of_lease(world, jobs, rules, tasks, queue, offers, leaker, b, row)
    return NOTHING


@helper
def accepts(rules: Array, tasks: Array, waits_s: Array, now_s: float, b: int, row: int, timer: int) -> bool:
    """Tell whether a job takes a tier: its timer has expired, or it fits on no tighter one."""
    tighter_gpus = rules[b]["machine_gpus"] if timer == RACK_TIMER else rules[b]["rack_gpus"]
    if tasks[b, row]["gpus"] > tighter_gpus:
        return True
    wait_s = waits_s[b, tasks[b, row]["gpus"], timer]
    if timer == NETWORK_TIMER and rules[b]["stacked"]:
        wait_s += waits_s[b, tasks[b, row]["gpus"], RACK_TIMER]
    if rules[b]["exact"]:  # an expiry is an event at this very time
        return now_s >= tasks[b, row]["last_s"] + wait_s
    return now_s - tasks[b, row]["last_s"] >= wait_s


@helper
def place_by_skew(
    rules: Array, tasks: Array, node_order: Array, slot_order: Array, on_offer: Array, b: int, row: int,
) -> tuple[int, int]:
    """Find a tier and a place by the rules of Tiresias in the authors' simulator: no waiting."""
    r = rules[b]
    gang = int64(tasks[b, row]["gpus"])
    slots = slot_order.shape[1]
    nodes = node_order.shape[1]
    racks = on_offer.shape[1] - slots - nodes
    place = visit(node_order, on_offer, b, slots, nodes, gang, int64(r["best_fit"]))
    if place >= 0:
        return int64(ON_MACHINE), int64(place)
    rack = first_rack_with(on_offer, b, slots + nodes, racks, gang, int64(r["best_fit"]))
    low_skew = tasks[b, row]["low_skew"] == 1
    if rack >= 0 and (low_skew or r["free"] >= r["machine_gpus"]):
        return int64(IN_RACK), int64(rack)
    if low_skew or gang > r["rack_gpus"]:
        return int64(ANYWHERE), int64(0)
    return int64(REFUSED), int64(0)


@helper
def remember(
    rules: Array, tasks: Array, samples: Array, counts: Array, demands: Array, waits_s: Array, factors: Array,
    now_s: float, b: int, row: int, tier: int,
) -> None:
    """Record how long a job has waited for the tier that it takes; censored waits for those that it gives up, too."""
    r = rules[b]
    task = tasks[b, row]
    demand = int64(task["demand"])
    wait_s = now_s - task["last_s"]
    if tier <= ON_MACHINE or (r["censored"] and task["gpus"] <= r["machine_gpus"]):
        record(rules, samples, counts, demands, waits_s, factors, b, demand, MACHINE_WAITS, now_s, wait_s)
    if tier == IN_RACK or (tier == ANYWHERE and r["censored"] and task["gpus"] <= r["rack_gpus"]):
        record(rules, samples, counts, demands, waits_s, factors, b, demand, RACK_WAITS, now_s, wait_s)


@helper
def place_by_delay(
    rules: Array, tasks: Array, samples: Array, counts: Array, demands: Array, waits_s: Array, factors: Array,
    slot_order: Array, node_order: Array, on_offer: Array, now_s: float, b: int, row: int,
) -> tuple[int, int]:
    """Find the tightest tier that the job accepts, and a place in it; remember how long it has waited for it."""
    r = rules[b]
    task = tasks[b, row]
    gang = int64(task["gpus"])
    best = int64(r["best_fit"])
    slots = slot_order.shape[1]
    nodes = node_order.shape[1]
    racks = on_offer.shape[1] - slots - nodes
    if gang <= r["most_in_slot"]:
        place = visit(slot_order, on_offer, b, 0, slots, gang, best)
        remember(rules, tasks, samples, counts, demands, waits_s, factors, now_s, b, row, ON_SLOT)
        return int64(ON_SLOT), int64(place)
    if gang <= r["most_in_machine"]:
        place = visit(node_order, on_offer, b, slots, nodes, gang, best)
        remember(rules, tasks, samples, counts, demands, waits_s, factors, now_s, b, row, ON_MACHINE)
        return int64(ON_MACHINE), int64(place)
    if gang <= r["most_in_rack"] and accepts(rules, tasks, waits_s, now_s, b, row, RACK_TIMER):
        place = first_rack_with(on_offer, b, slots + nodes, racks, gang, best)
        remember(rules, tasks, samples, counts, demands, waits_s, factors, now_s, b, row, IN_RACK)
        return int64(IN_RACK), int64(place)
    if accepts(rules, tasks, waits_s, now_s, b, row, NETWORK_TIMER):
        remember(rules, tasks, samples, counts, demands, waits_s, factors, now_s, b, row, ANYWHERE)
        return int64(ANYWHERE), int64(0)
    return int64(REFUSED), int64(0)


@helper
def begin_offer(
    world: Array, jobs: Array, replicas: Array, nodes: Array, free: Array, holder: Array, rules: Array,
    tasks: Array, queue: Array, order: Array, held: Array, leaker: Array, gpu_slot: Array, slot_order: Array,
    node_order: Array, on_offer: Array, b: int,
) -> None:
    """Put all free GPUs on offer, and line up who is asked: who waits, who runs with quirk Q1, or may move."""
    r = rules[b]
    others = r["rebid"] or r["policy"] == GANDIVA
    if others or r["queued"] > 0:  # counting is a look at every GPU: not for nobody
        count_offer(world, nodes, free, holder, rules, leaker, gpu_slot, slot_order, node_order, on_offer, b)
    for i in range(r["queued"]):
        order[b, i] = queue[b, i]
    r["ordered"] = r["queued"]
    if others:
        for i in range(r["held"]):
            row = int64(held[b, i])
            if r["rebid"]:
                bids = bids_again(world, jobs, replicas, rules, tasks, b, row)
            else:
                bids = may_move(world, jobs, replicas, rules, tasks, b, row)
                rank(world, jobs, rules, tasks, b, row, 0.0, 0.0, 0.0)
            if bids:
                insert(tasks, order, b, r["ordered"], row)
                r["ordered"] += 1
    r["cursor"] = 0
    r["retuned"] = 0
    if r["ordered"] > 0:
        r["made"] += 1


@helper
def walk_offer(
    world: Array, jobs: Array, replicas: Array, nodes: Array, racks: Array, holder: Array, gpu_node: Array,
    paces: Array, chosen: Array, rules: Array, tasks: Array, order: Array, samples: Array, counts: Array,
    demands: Array, waits_s: Array, factors: Array, leaker: Array, gpu_slot: Array, slot_gpu: Array, slot_order: Array,
    node_order: Array, on_offer: Array, affinity: Array, verdicts: Array, b: int,
) -> int:
    """Ask one job after the other until one starts; GPUs that quirk Q1 leaks, or moves claim, need no decision."""
    r = rules[b]
    now_s = world[b]["clock_s"]
    while r["cursor"] < r["ordered"] and r["free"] > 0:
        row = int64(order[b, r["cursor"]])
        task = tasks[b, row]
        gang = int64(task["gpus"])
        waits = jobs[b, row]["status"] == WAITING
        if gang > r["free"] or (waits and task["leaked"] > 0 and not r["rebid"]):  # it waits for GPUs kept for it
            r["cursor"] += 1
            continue
        room = samples.shape[3]
        if counts[b, task["demand"], MACHINE_WAITS] == room or counts[b, task["demand"], RACK_WAITS] == room:
            return GROW
        if 0 < verdicts.shape[1] == r["verdicts"]:
            return GROW
        if r["sorted"] and r["unsorted"]:
            return SORT
        r["cursor"] += 1
        if verdicts.shape[1] > 0:
            verdict = verdicts[b, r["verdicts"]]
            verdict["time_s"] = now_s
            verdict["waited_s"] = now_s - task["last_s"]
            verdict["rack_wait_s"] = waits_s[b, gang, RACK_TIMER]
            verdict["network_wait_s"] = waits_s[b, gang, NETWORK_TIMER]
            verdict["job"] = row
            verdict["tier"] = REFUSED
        if r["policy"] == TIRESIAS:
            tier, place = place_by_skew(rules, tasks, node_order, slot_order, on_offer, b, row)
        elif r["policy"] == GANDIVA:
            tier, place = place_by_affinity(
                jobs, nodes, racks, rules, tasks, affinity, slot_order, node_order, on_offer, b, row
            )
        else:
            tier, place = place_by_delay(
                rules, tasks, samples, counts, demands, waits_s, factors, slot_order, node_order, on_offer, now_s, b,
                row,
            )
        if verdicts.shape[1] > 0:
            verdicts[b, r["verdicts"]]["tier"] = tier
            r["verdicts"] += 1
        if tier == REFUSED:
            continue
        choose_gpus(
            world, nodes, racks, holder, gpu_node, chosen, rules, leaker, gpu_slot, slot_gpu, slot_order, node_order,
            on_offer, b, gang, tier, place,
        )
        if waits:
            r["row"] = row
            return START
        if r["policy"] == GANDIVA:
            task["stops"] = 1
            for i in range(gang):
                keep(tasks, leaker, b, row, int64(chosen[b, i]))
            continue
        leak(world, jobs, replicas, nodes, racks, gpu_node, paces, chosen, rules, tasks, leaker, b, row)
    return NOTHING


@helper
def next_wake(world: Array, rules: Array, tasks: Array, queue: Array, offers: Array, waits_s: Array, b: int) -> float:
    """Find when the scheduler wants to be asked next: an offer, an expiry or a look at the timers; inf = never [s]."""
    w = world[b]
    r = rules[b]
    at_s = r["next_tune_s"]
    if r["exact"]:
        for i in range(r["queued"]):
            task = tasks[b, queue[b, i]]
            gang = int64(task["gpus"])
            rack_s = waits_s[b, gang, RACK_TIMER]
            network_s = waits_s[b, gang, NETWORK_TIMER] + (rack_s if r["stacked"] else 0.0)
            if gang <= r["machine_gpus"] and w["clock_s"] < task["last_s"] + rack_s < at_s:
                at_s = task["last_s"] + rack_s
            if gang <= r["rack_gpus"] and w["clock_s"] < task["last_s"] + network_s < at_s:
                at_s = task["last_s"] + network_s
        return at_s
    if r["later"] == 0 and r["held"] == 0 and r["queued"] > 0 and w["next_arrival"] == w["jobs"]:
        retry_s = w["clock_s"]
        if r["statistics"]:  # from a second after the first arrival on, until they find nothing else in the queue
            first_s = tasks[b, 0]["arrival_s"] + 1.0
            every_s = 0.1 * r["lease_s"]
            retry_s = first_s + max(np.floor((retry_s - first_s) / every_s) + 1.0, 0.0) * every_s
            r["statistics"] = 0
        offer_at(world, rules, offers, b, retry_s + r["idle_retry_s"])
    for i in range(r["later"]):
        at_s = min(at_s, offers[b, i])
    return at_s


@helper
def take_due(world: Array, rules: Array, offers: Array, b: int) -> None:
    """Count the queued offers whose time has come as due."""
    r = rules[b]
    kept = 0
    for i in range(r["later"]):
        if offers[b, i] <= world[b]["clock_s"]:
            r["due"] += 1
        else:
            offers[b, kept] = offers[b, i]
            kept += 1
    r["later"] = kept


@helper
def evict(
    world: Array, jobs: Array, replicas: Array, nodes: Array, racks: Array, free: Array, holder: Array,
    rules: Array, tasks: Array, queue: Array, held: Array, samples: Array, counts: Array, demands: Array,
    waits_s: Array, factors: Array, leaker: Array, gpu_slot: Array, slot_gpu: Array, slot_order: Array,
    node_order: Array, on_offer: Array, b: int,
) -> int:
    """Let gangs stop for the first waiting job to which that gives a tier that it accepts, tighter than now."""
    r = rules[b]
    now_s = world[b]["clock_s"]
    largest_nw = rate_victims(world, jobs, replicas, rules, tasks, held, b)
    count_offer(world, nodes, free, holder, rules, leaker, gpu_slot, slot_order, node_order, on_offer, b)
    for i in range(r["queued"]):
        row = int64(queue[b, i])
        task = tasks[b, row]
        gang = int64(task["gpus"])
        if (
            task["leaked"] > 0
            or gang <= r["most_in_machine"]
            or gang > world[b]["gpus"]
            or largest_nw < task["nw"] + r["victim_margin"]
        ):
            continue
        room = samples.shape[3]
        if counts[b, task["demand"], MACHINE_WAITS] == room or counts[b, task["demand"], RACK_WAITS] == room:
            return GROW
        tier = evict_for(
            world, replicas, nodes, racks, holder, rules, tasks, leaker, slot_gpu, slot_order, node_order, b, row,
            gang > r["most_in_rack"] and accepts(rules, tasks, waits_s, now_s, b, row, RACK_TIMER),
            gang > r["free"] and accepts(rules, tasks, waits_s, now_s, b, row, NETWORK_TIMER),
        )
        if tier != REFUSED:
            remember(rules, tasks, samples, counts, demands, waits_s, factors, now_s, b, row, tier)
            return NOTHING
    return NOTHING


@kernel
def next_decision(
    world: Array, jobs: Array, replicas: Array, nodes: Array, racks: Array, free: Array, holder: Array, gpu_next: Array,
    gpu_node: Array, waiting: Array, running: Array, paces: Array, events: Array, event_gpus: Array, chosen: Array,
    links: Array, uses: Array, routes: Array, pairs: Array, ratios: Array, busy: Array, sub_batches: Array,
    interference: Array, due: Array, rules: Array, tasks: Array,
    queue: Array, order: Array, held: Array, offers: Array, samples: Array, counts: Array, demands: Array,
    waits_s: Array, factors: Array, leaker: Array, gpu_slot: Array, slot_gpu: Array, slot_order: Array,
    node_order: Array, on_offer: Array, affinity: Array, verdicts: Array, b: int,
) -> int:
    """Find the next decision of this decision point, which begins where the phase is BEGUN; NOTHING ends it."""
    r = rules[b]
    while True:
        if r["phase"] == BEGUN:
            if world[b]["clock_s"] >= r["next_tune_s"]:
                return TUNE
            r["offered"] = 0
            r["phase"] = OBSERVES
        if r["phase"] == OBSERVES:
            if r["later"] + r["held"] + 1 >= offers.shape[1]:
                return GROW
            found = observe(world, jobs, replicas, rules, tasks, queue, held, offers, leaker, b)
            if found != NOTHING:
                return found
            if not r["rebid"]:
                row = take_kept(rules, tasks, queue, holder, chosen, leaker, b)
                if row >= 0:
                    r["row"] = row
                    r["granted_in"] = OBSERVES
                    r["phase"] = GRANTED
                    return START
            take_due(world, rules, offers, b)
            if r["exact"]:
                r["due"] = 1
            r["phase"] = OFFERS
        if r["phase"] == OFFERS:
            if r["due"] == 0:
                r["phase"] = EVICTS
            else:
                r["due"] -= 1
                r["offered"] = 1
                begin_offer(
                    world, jobs, replicas, nodes, free, holder, rules, tasks, queue, order, held, leaker, gpu_slot,
                    slot_order, node_order, on_offer, b,
                )
                r["phase"] = WALKS
        if r["phase"] == GRANTED:
            row = int64(r["row"])
            r["phase"] = r["granted_in"]
            if jobs[b, row]["status"] == RUNNING:
                remove(queue, b, r["queued"], row)
                r["queued"] -= 1
                held[b, r["held"]] = row
                r["held"] += 1
                tasks[b, row]["last_s"] = world[b]["clock_s"]
                r["until_s"] = plan_lease(world, jobs, replicas, rules, tasks, b, row)
                if r["until_s"] < np.inf:
                    return LEASE
        if r["phase"] == WALKS:
            found = walk_offer(
                world, jobs, replicas, nodes, racks, holder, gpu_node, paces, chosen, rules, tasks, order, samples,
                counts, demands, waits_s, factors, leaker, gpu_slot, slot_gpu, slot_order, node_order, on_offer,
                affinity, verdicts, b,
            )
            if found == START:
                r["granted_in"] = WALKS
                r["phase"] = GRANTED
            if found != NOTHING:
                return found
            # a wait that was recorded may have lowered the timer of a job that had been asked before
            if r["exact"] and r["retuned"]:
                r["due"] = 1
            r["phase"] = OFFERS
        if r["phase"] == EVICTS:
            if r["victims"] and r["offered"]:
                found = evict(
                    world, jobs, replicas, nodes, racks, free, holder, rules, tasks, queue, held, samples, counts,
                    demands, waits_s, factors, leaker, gpu_slot, slot_gpu, slot_order, node_order, on_offer, b,
                )
                if found != NOTHING:
                    return found
            r["phase"] = STOPS
        if r["phase"] == STOPS:
            stops = r["victims"] or r["policy"] == GANDIVA
            if stops and stop_next(world, jobs, replicas, rules, tasks, held, b):
                r["stopped"] = 1
                return LEASE if r["until_s"] > world[b]["clock_s"] else PREEMPT
            r["phase"] = OBSERVES if r["stopped"] else ENDS
            r["stopped"] = 0
        if r["phase"] == ENDS:
            if not r["exact"]:
                count_offer(
                    world, nodes, free, holder, rules, leaker, gpu_slot, slot_order, node_order, on_offer, b
                )
                r["free_before"] = r["free"]
            r["until_s"] = next_wake(world, rules, tasks, queue, offers, waits_s, b)
            r["phase"] = ASLEEP
            if r["until_s"] < np.inf:
                return WAIT
        if r["phase"] == ASLEEP:
            return NOTHING


@kernel
def play(
    world: Array, jobs: Array, replicas: Array, nodes: Array, racks: Array, free: Array, holder: Array, gpu_next: Array,
    gpu_node: Array, waiting: Array, running: Array, paces: Array, events: Array, event_gpus: Array, chosen: Array,
    links: Array, uses: Array, routes: Array, pairs: Array, ratios: Array, busy: Array, sub_batches: Array,
    interference: Array, due: Array, rules: Array, tasks: Array,
    queue: Array, order: Array, held: Array, offers: Array, samples: Array, counts: Array, demands: Array,
    waits_s: Array, factors: Array, leaker: Array, gpu_slot: Array, slot_gpu: Array, slot_order: Array,
    node_order: Array, on_offer: Array, affinity: Array, verdicts: Array, b: int, moves: int,
    number: int,
) -> int:
    """Play on until a look at the timers is due (PAUSED), an array is TOO_SMALL, or ``advance`` ends the run.

    ``moves`` is the table of the simulation, and ``number`` its environment there; here it is ``b``.
    """
    (
        world, jobs, replicas, nodes, racks, free, holder, gpu_next, gpu_node, waiting, running, paces, events,
        event_gpus, chosen, links, uses, routes, pairs, ratios, busy, sub_batches, interference, due, rules, tasks,
        queue, order, held, offers, samples, counts, demands, waits_s, factors, leaker, gpu_slot, slot_gpu,
        slot_order, node_order, on_offer, affinity, verdicts,
    ) = rows_of((
        world, jobs, replicas, nodes, racks, free, holder, gpu_next, gpu_node, waiting, running, paces, events,
        event_gpus, chosen, links, uses, routes, pairs, ratios, busy, sub_batches, interference, due, rules, tasks,
        queue, order, held, offers, samples, counts, demands, waits_s, factors, leaker, gpu_slot, slot_gpu,
        slot_order, node_order, on_offer, affinity, verdicts,
    ))  # fmt: skip
    w = world[b]
    r = rules[b]
    while True:
        if r["phase"] == ASLEEP:
            outcome = advance_by(moves, number)
            if outcome != DECIDE:
                return outcome
            r["phase"] = BEGUN
            r["idle"] = r["idle"] + 1 if stuck(world, replicas, running, b) else 0
            if r["idle"] > IDLE_LIMIT:
                return STALLED
        # whatever is decided next finds room in the log
        if w["events"] + 2 > events.shape[1] or w["event_gpus"] + w["gpus"] > event_gpus.shape[1]:
            return LOG_FULL
        found = next_decision(
            world, jobs, replicas, nodes, racks, free, holder, gpu_next, gpu_node, waiting, running, paces, events,
            event_gpus, chosen, links, uses, routes, pairs, ratios, busy, sub_batches, interference, due, rules, tasks,
            queue, order, held, offers, samples, counts, demands, waits_s, factors, leaker, gpu_slot, slot_gpu,
            slot_order, node_order, on_offer, affinity, verdicts, b,
        )
        row = int64(r["row"])
        if found == START:
            gang = int64(tasks[b, row]["gpus"])
            start_by(moves, number, row, int64(EXPLICIT), gang)
        elif found == LEASE:
            lease_by(moves, number, row, x=r["until_s"])
        elif found == PREEMPT:
            preempt_by(moves, number, row)
        elif found == WAIT:
            if w["clock_s"] < r["until_s"] < w["timer_s"]:
                w["timer_s"] = r["until_s"]
        elif found == TUNE:
            return PAUSED
        elif found == GROW:
            return TOO_SMALL
        elif found == SORT:
            return UNSORTED


@kernel
def nw_now(
    world: Array, jobs: Array, replicas: Array, nodes: Array, racks: Array, free: Array, holder: Array, gpu_next: Array,
    gpu_node: Array, waiting: Array, running: Array, paces: Array, events: Array, event_gpus: Array, chosen: Array,
    links: Array, uses: Array, routes: Array, pairs: Array, ratios: Array, busy: Array, sub_batches: Array,
    interference: Array, due: Array, rules: Array, tasks: Array,
    queue: Array, order: Array, held: Array, offers: Array, samples: Array, counts: Array, demands: Array,
    waits_s: Array, factors: Array, leaker: Array, gpu_slot: Array, slot_gpu: Array, slot_order: Array,
    node_order: Array, on_offer: Array, affinity: Array, verdicts: Array, b: int, rows: Array, nw: Array,
) -> None:
    """Fill the Nw of jobs as of the clock: work done in seconds without communication / productive seconds."""
    for i in range(len(rows)):
        nw[i] = nw_of(world, jobs, replicas, tasks, b, int64(rows[i]))
