"""Delay scheduling as a state machine: when GPUs are offered to which job, and what the job accepts.

``next_decision`` finds the next decision of a decision point. Python code yields this decision (``Dally.decide``), or
``play`` applies it and continues. Both ways give the same event log.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from gpusched_env.baselines.dally.affinity import may_move, place_by_affinity
from gpusched_env.baselines.dally.keeping import MOST_STEPS, keep, steps_done, stop_next, take_kept
from gpusched_env.baselines.dally.leaks import give_back, leak
from gpusched_env.baselines.dally.placing import (
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
from gpusched_env.baselines.dally.state import MACHINE_WAITS, NETWORK_TIMER, RACK_TIMER, RACK_WAITS, Delay
from gpusched_env.baselines.dally.tuning import record
from gpusched_env.baselines.dally.victims import compared, evict_for, nw_of, rate_victims
from gpusched_env.baselines.loop_kernels import waits_until
from gpusched_env.cluster import SLOT
from gpusched_env.core.events import (
    BAD_WAIT,
    DECIDE,
    EXPLICIT,
    IDLE_LIMIT,
    LOG_FULL,
    STALLED,
    advance,
    lease,
    preempt,
    start,
    stuck,
)
from gpusched_env.core.handle import helper, kernel
from gpusched_env.core.holding import entry
from gpusched_env.core.queries import Asked
from gpusched_env.core.shapes import placed
from gpusched_env.core.state import FINISHED, RUNNING, WAITING, Run
from gpusched_env.core.state import REFUSED as CANCELLED

Array = np.ndarray
MOST_STATISTICS: Final = 1 << 27  # statistics events that are counted

# Results of ``next_decision``; the row is in ``rules.row``, the time in ``rules.until_s``, the GPUs in ``chosen``.
NOTHING, START, LEASE, PREEMPT, WAIT, TUNE, GROW, SORT = range(8)
# Results of ``play`` in addition to those of ``advance``.
PAUSED, TOO_SMALL, UNSORTED = 100, 101, 102
# Phases of a decision point.
ASLEEP, BEGUN, OBSERVES, OFFERS, WALKS, GRANTED, EVICTS, STOPS, ENDS = range(9)
DALLY, TIRESIAS, GANDIVA = 0, 1, 2
BY_NW, BY_GPU_TIME, BY_ARRIVAL, BY_FIRST_START = range(4)


@kernel
def before(delay: Delay, one: int, other: int) -> bool:
    """Return whether one job is asked before another: smaller key, then longer time without GPUs, then lower row."""
    first = delay.tasks[one]
    second = delay.tasks[other]
    if first["key"] != second["key"]:
        return first["key"] < second["key"]
    if first["last_s"] != second["last_s"]:
        return first["last_s"] < second["last_s"]
    return first["id"] < second["id"]


@helper
def insert(delay: Delay, line: Array, length: int, row: int) -> None:
    """Insert a job into a sorted array of ``length`` jobs."""
    at = length
    while at > 0 and before(delay, row, line[at - 1]):
        line[at] = line[at - 1]
        at -= 1
    line[at] = row


@helper
def remove(line: Array, length: int, row: int) -> None:
    """Remove a job from an array of ``length`` jobs."""
    at = 0
    while line[at] != row:
        at += 1
    for i in range(at, length - 1):
        line[i] = line[i + 1]


@kernel
def offer_at(sim: Run, delay: Delay, time_s: float) -> None:
    """Schedule an offer; an offer at the present time is due at once."""
    if time_s <= sim.world["clock_s"]:
        delay.rules["due"] += 1
    else:
        delay.offers[delay.rules["later"]] = time_s
        delay.rules["later"] += 1


@kernel
def rank(sim: Run, delay: Delay, row: int, left: float, run_s: float, gpu_s: float) -> None:
    """Set Nw and the sort key of a job from its remaining work, running seconds and GPU-seconds."""
    task = delay.tasks[row]
    if run_s > 0.0:
        seconds = sim.world["clock_s"] - task["arrival_s"] if delay.rules["wall"] else run_s
        # The operations and their order are those of the authors' code: with all its bits, their rounding errors
        # decide between jobs that tie in theory, such as jobs without communication, whose Nw is 1.
        task["nw"] = compared(delay, (1.0 - left / task["iterations"]) / (seconds / task["ideal_s"]))
    if delay.rules["priority"] == BY_NW:
        task["key"] = task["nw"]
    elif delay.rules["priority"] == BY_GPU_TIME:
        task["key"] = gpu_s
    elif delay.rules["priority"] == BY_FIRST_START:  # latest first start first; jobs that never started come last
        first_s = sim.jobs[row]["first_start_s"]
        task["key"] = -first_s if first_s < np.inf else np.inf
    else:
        task["key"] = row  # rows ascend by arrival


@kernel
def close_lease(sim: Run, delay: Delay, row: int) -> None:
    """Add the running seconds and the service of a job since its start to its totals."""
    task = delay.tasks[row]
    if task["step_s"] > 0.0:
        for _ in range(task["steps"]):
            task["run_s"] += task["step_s"]
            task["service_gpu_s"] += task["gpus"] * task["iteration_s"] * delay.rules["step_iterations"]
            task["left"] -= delay.rules["step_iterations"] * task["gpus"]
    else:
        task["run_s"] = sim.jobs[row]["service_s"]
        task["service_gpu_s"] = task["gpus"] * task["run_s"]
        task["left"] = task["iterations"] * (sim.jobs[row]["remaining"] / sim.jobs[row]["iterations"])
    rank(sim, delay, row, task["left"], task["run_s"], task["service_gpu_s"])


@kernel
def plan_lease(sim: Run, delay: Delay, row: int) -> float:
    """Compute when the lease of a gang that has just started ends [s]; inf = no lease, or the job ends first.

    If work is done in steps, the lease ends at the end of the step in which it expires. With quirk Q2, there is also a
    look-ahead. It ends the lease at the end of an earlier step if the next step would not fit into the lease, and it
    takes step length / gang size as the length of the next step. The lengths of steps are added one by one as in the
    authors' code, so that the times agree to the last bit.
    """
    r = delay.rules
    task = delay.tasks[row]
    task["step_s"] = 0.0
    task["steps"] = 0
    task["early"] = 0
    if not r["leased"]:
        return np.inf
    task["lease_end_s"] = sim.world["clock_s"] + r["lease_s"]
    if r["step_iterations"] == 0.0 or sim.world["contention"] > 0:
        return task["lease_end_s"]
    replica = sim.replicas[sim.jobs[row]["replica"]]
    task["iteration_s"] = replica["iteration_s"]
    task["step_s"] = replica["iteration_s"] * r["step_iterations"]
    kind = sim.jobs[row]["job_class"]
    _, pace, slowest = placed(sim, kind, 0, task["gpus"])
    ahead_s = delay.ahead_s[kind, pace, slowest]
    end_s = replica["since_s"]
    left = task["left"]
    if end_s + task["step_s"] == end_s:  # the clock does not resolve steps
        task["step_s"] = 0.0
        return task["lease_end_s"]
    for _ in range(MOST_STEPS):
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
    return task["lease_end_s"]


@kernel
def bids_again(sim: Run, delay: Delay, row: int) -> bool:
    """Return whether a running gang bids for GPUs now (quirk Q1: once in each step), and set the job's sort key."""
    task = delay.tasks[row]
    steps = steps_done(sim, delay, row)
    if task["won_step"] == steps:
        return False
    left = task["left"]
    run_s = task["run_s"]
    gpu_s = task["service_gpu_s"]
    for _ in range(steps):
        run_s += task["step_s"]
        gpu_s += task["gpus"] * task["iteration_s"] * delay.rules["step_iterations"]
        left -= delay.rules["step_iterations"] * task["gpus"]
    rank(sim, delay, row, left, run_s, gpu_s)
    return True


@kernel
def end_of_task(sim: Run, delay: Delay, row: int) -> None:
    """Process the end of a job: offer the GPUs that it held or leaked, after the delay for freed GPUs."""
    task = delay.tasks[row]
    freed = task["gpus"] + task["leaked"]
    give_back(delay, row, True)
    if not delay.rules["exact"]:
        offer_at(sim, delay, sim.world["clock_s"] + delay.rules["ckpt_per_gpu_s"] * freed)


@kernel
def end_of_lease(sim: Run, delay: Delay, row: int) -> None:
    """Process the end of a lease: the job has returned its GPUs and waits again."""
    task = delay.tasks[row]
    if delay.rules["rebid"]:
        give_back(delay, row, False)
    close_lease(sim, delay, row)
    task["last_s"] = sim.world["clock_s"]
    insert(delay, delay.queue, delay.rules["queued"], row)
    delay.rules["queued"] += 1
    if not delay.rules["exact"]:
        delay_s = delay.rules["ckpt_per_gpu_s"] * task["gpus"]
        if task["early"] and delay.rules["alias"]:
            delay_s = 0.0
        offer_at(sim, delay, sim.world["clock_s"] + delay_s)


@kernel
def observe(sim: Run, delay: Delay) -> int:
    """Process arrivals and stopped gangs; renew or end one expired lease."""
    w = sim.world
    r = delay.rules
    while r["seen"] < w["entered"]:
        row = entry(sim, r["seen"])
        r["seen"] += 1
        if sim.jobs[row]["status"] == CANCELLED:
            continue
        delay.tasks[row]["last_s"] = sim.jobs[row]["arrival_s"]
        delay.tasks[row]["arrival_s"] = sim.jobs[row]["arrival_s"]
        rank(sim, delay, row, 0.0, 0.0, 0.0)
        insert(delay, delay.queue, r["queued"], row)
        r["queued"] += 1
        if r["free_before"] > 0 and not r["exact"]:
            r["due"] += 1
    i = 0
    while i < r["held"] and (r["returned"] < w["returns"] or w["leases_over"] > 0):
        row = delay.held[i]
        status = sim.jobs[row]["status"]
        if status == RUNNING:
            replica = sim.replicas[sim.jobs[row]["replica"]]
            if replica["lease_over"]:
                r["row"] = row
                r["until_s"] = w["clock_s"] + r["lease_s"]
                tier = -1 if replica["tier"] == SLOT else replica["tier"]
                moves = delay.tasks[row]["leaked"] > 0
                if r["renew"] and not moves and w["waiting"] == 0 and tier <= delay.tasks[row]["best_tier"]:
                    return LEASE
                return PREEMPT
            i += 1
            continue
        remove(delay.held, r["held"], row)
        r["held"] -= 1
        r["returned"] += 1
        delay.tasks[row]["won_step"] = -1
        if status == FINISHED:
            end_of_task(sim, delay, row)
        else:
            end_of_lease(sim, delay, row)
    return NOTHING


@kernel
def accepts(delay: Delay, now_s: float, row: int, timer: int) -> bool:
    """Return whether a job accepts a tier: the timer has expired, or the job fits on no tighter tier."""
    tighter_gpus = delay.rules["machine_gpus"] if timer == RACK_TIMER else delay.rules["rack_gpus"]
    if delay.tasks[row]["gpus"] > tighter_gpus:
        return True
    wait_s = delay.waits_s[delay.tasks[row]["gpus"], timer]
    if timer == NETWORK_TIMER and delay.rules["stacked"]:
        wait_s += delay.waits_s[delay.tasks[row]["gpus"], RACK_TIMER]
    if delay.rules["exact"]:  # the expiry is an event at exactly this sum
        return now_s >= delay.tasks[row]["last_s"] + wait_s
    return now_s - delay.tasks[row]["last_s"] >= wait_s


@kernel
def place_by_skew(delay: Delay, row: int) -> tuple[int, int]:
    """Find a tier and a place without waiting, as Tiresias in the authors' simulator does."""
    r = delay.rules
    gang = delay.tasks[row]["gpus"]
    slots = delay.slot_order.shape[0]
    nodes = delay.node_order.shape[0]
    racks = delay.on_offer.shape[0] - slots - nodes
    place = visit(delay, delay.node_order, slots, nodes, gang, r["best_fit"])
    if place >= 0:
        return ON_MACHINE, place
    rack = first_rack_with(delay, slots + nodes, racks, gang, r["best_fit"])
    low_skew = delay.tasks[row]["low_skew"] == 1
    if rack >= 0 and (low_skew or r["free"] >= r["machine_gpus"]):
        return IN_RACK, rack
    if low_skew or gang > r["rack_gpus"]:
        return ANYWHERE, 0
    return REFUSED, 0


@kernel
def remember(delay: Delay, now_s: float, row: int, tier: int) -> None:
    """Record the wait of a job for the tier that it takes.

    In the mode "censored", the wait is also recorded for the tighter tiers for which the job stopped waiting.
    """
    r = delay.rules
    task = delay.tasks[row]
    demand = task["demand"]
    wait_s = now_s - task["last_s"]
    if tier <= ON_MACHINE or (r["censored"] and task["gpus"] <= r["machine_gpus"]):
        record(delay, demand, MACHINE_WAITS, now_s, wait_s)
    if tier == IN_RACK or (tier == ANYWHERE and r["censored"] and task["gpus"] <= r["rack_gpus"]):
        record(delay, demand, RACK_WAITS, now_s, wait_s)


@kernel
def place_by_delay(delay: Delay, now_s: float, row: int) -> tuple[int, int]:
    """Find the tightest tier that the job accepts, and a place on it."""
    r = delay.rules
    task = delay.tasks[row]
    gang = task["gpus"]
    best = r["best_fit"]
    slots = delay.slot_order.shape[0]
    nodes = delay.node_order.shape[0]
    racks = delay.on_offer.shape[0] - slots - nodes
    if gang <= r["most_in_slot"]:
        return ON_SLOT, visit(delay, delay.slot_order, 0, slots, gang, best)
    if gang <= r["most_in_machine"]:
        return ON_MACHINE, visit(delay, delay.node_order, slots, nodes, gang, best)
    if gang <= r["most_in_rack"] and accepts(delay, now_s, row, RACK_TIMER):
        return IN_RACK, first_rack_with(delay, slots + nodes, racks, gang, best)
    if accepts(delay, now_s, row, NETWORK_TIMER):
        return ANYWHERE, 0
    return REFUSED, 0


@kernel
def begin_offer(sim: Run, delay: Delay) -> None:
    """Offer all free GPUs, and list the jobs to ask: waiting jobs, and running jobs that bid or may move."""
    r = delay.rules
    others = r["rebid"] or r["policy"] == GANDIVA
    if others or r["queued"] > 0:  # counting visits every GPU, so it is done only if a job is asked
        count_offer(sim, delay)
    for i in range(r["queued"]):
        delay.order[i] = delay.queue[i]
    r["ordered"] = r["queued"]
    if others:
        for i in range(r["held"]):
            row = delay.held[i]
            if r["rebid"]:
                bids = bids_again(sim, delay, row)
            else:
                bids = may_move(sim, delay, row)
                rank(sim, delay, row, 0.0, 0.0, 0.0)
            if bids:
                insert(delay, delay.order, r["ordered"], row)
                r["ordered"] += 1
    r["cursor"] = 0
    r["retuned"] = 0
    if r["ordered"] > 0:
        r["made"] += 1


@kernel
def walk_offer(sim: Run, delay: Delay) -> int:
    """Ask one job after another until one starts.

    GPUs that are leaked (quirk Q1) or kept for a move need no decision, so the loop continues after these.
    """
    r = delay.rules
    now_s = sim.world["clock_s"]
    while r["cursor"] < r["ordered"] and r["free"] > 0:
        row = delay.order[r["cursor"]]
        task = delay.tasks[row]
        gang = task["gpus"]
        waits = sim.jobs[row]["status"] == WAITING
        if gang > r["free"] or (waits and task["leaked"] > 0 and not r["rebid"]):  # GPUs are kept for it already
            r["cursor"] += 1
            continue
        room = delay.samples.shape[2]
        if delay.counts[task["demand"], MACHINE_WAITS] == room or delay.counts[task["demand"], RACK_WAITS] == room:
            return GROW
        if 0 < delay.verdicts.shape[0] == r["verdicts"]:
            return GROW
        if r["sorted"] and r["unsorted"]:
            return SORT
        r["cursor"] += 1
        if delay.verdicts.shape[0] > 0:
            verdict = delay.verdicts[r["verdicts"]]
            verdict["time_s"] = now_s
            verdict["waited_s"] = now_s - task["last_s"]
            verdict["rack_wait_s"] = delay.waits_s[gang, RACK_TIMER]
            verdict["network_wait_s"] = delay.waits_s[gang, NETWORK_TIMER]
            verdict["job"] = row
            verdict["tier"] = REFUSED
        if r["policy"] == TIRESIAS:
            tier, place = place_by_skew(delay, row)
        elif r["policy"] == GANDIVA:
            tier, place = place_by_affinity(sim, delay, row)
        else:
            tier, place = place_by_delay(delay, now_s, row)
        if delay.verdicts.shape[0] > 0:
            delay.verdicts[r["verdicts"]]["tier"] = tier
            r["verdicts"] += 1
        if tier == REFUSED:
            continue
        choose_gpus(sim, delay, gang, tier, place)
        if waits:
            r["row"] = row
            r["tier"] = tier
            return START
        if r["policy"] == GANDIVA:
            task["stops"] = 1
            for i in range(gang):
                keep(delay, row, sim.chosen[i])
            continue
        if r["policy"] == DALLY:
            remember(delay, now_s, row, tier)
        leak(sim, delay, row)
    return NOTHING


@kernel
def next_wake(sim: Run, delay: Delay) -> float:
    """Return the time of the next offer, timer expiry or tuning [s]; inf = never."""
    w = sim.world
    r = delay.rules
    at_s = r["next_tune_s"]
    if r["exact"]:
        for i in range(r["queued"]):
            task = delay.tasks[delay.queue[i]]
            gang = task["gpus"]
            rack_s = delay.waits_s[gang, RACK_TIMER]
            network_s = delay.waits_s[gang, NETWORK_TIMER] + (rack_s if r["stacked"] else 0.0)
            if gang <= r["machine_gpus"] and w["clock_s"] < task["last_s"] + rack_s < at_s:
                at_s = task["last_s"] + rack_s
            if gang <= r["rack_gpus"] and w["clock_s"] < task["last_s"] + network_s < at_s:
                at_s = task["last_s"] + network_s
        return at_s
    if r["later"] == 0 and r["held"] == 0 and r["queued"] > 0 and w["entered"] == w["jobs"]:
        retry_s = w["clock_s"]
        if r["statistics"]:  # from 1 s after the first arrival, until the statistics find no other event
            first_s = delay.tasks[0]["arrival_s"] + 1.0
            every_s = 0.1 * r["lease_s"]
            last_s = retry_s
            retry_s = first_s  # added up one by one as in the authors' code, so that times agree to the last bit
            for _ in range(MOST_STATISTICS):
                if retry_s > last_s or retry_s + every_s == retry_s:
                    break
                retry_s += every_s
            retry_s = max(retry_s, last_s)  # of leases so short that they are not counted to the end
            r["statistics"] = 0
        offer_at(sim, delay, retry_s + r["idle_retry_s"])
    for i in range(r["later"]):
        at_s = min(at_s, delay.offers[i])
    return at_s


@kernel
def take_due(sim: Run, delay: Delay) -> None:
    """Remove the scheduled offers whose time has come from the schedule, and count them as due."""
    r = delay.rules
    kept = 0
    for i in range(r["later"]):
        if delay.offers[i] <= sim.world["clock_s"]:
            r["due"] += 1
        else:
            delay.offers[kept] = delay.offers[i]
            kept += 1
    r["later"] = kept


@kernel
def evict(sim: Run, delay: Delay) -> int:
    """Stop running gangs for the first waiting job that gains by it.

    A job gains if it accepts the tier of the GPUs that come free, and no place on this or a tighter tier has enough
    GPUs on offer now.
    """
    r = delay.rules
    now_s = sim.world["clock_s"]
    largest_nw = rate_victims(sim, delay)
    count_offer(sim, delay)
    for i in range(r["queued"]):
        row = delay.queue[i]
        task = delay.tasks[row]
        gang = task["gpus"]
        if (
            task["leaked"] > 0
            or gang <= r["most_in_machine"]
            or gang > sim.world["gpus"]
            or largest_nw < task["nw"] + r["victim_margin"]
        ):
            continue
        room = delay.samples.shape[2]
        if delay.counts[task["demand"], MACHINE_WAITS] == room or delay.counts[task["demand"], RACK_WAITS] == room:
            return GROW
        tier = evict_for(
            sim,
            delay,
            row,
            gang > r["most_in_rack"] and accepts(delay, now_s, row, RACK_TIMER),
            gang > r["free"] and accepts(delay, now_s, row, NETWORK_TIMER),
        )
        if tier != REFUSED:
            remember(delay, now_s, row, tier)
            return NOTHING
    return NOTHING


@kernel
def next_decision(sim: Run, delay: Delay) -> int:
    """Find the next decision of a decision point; a decision point begins with phase BEGUN. NOTHING = no more."""
    r = delay.rules
    while True:
        if r["phase"] == BEGUN:
            if sim.world["clock_s"] >= r["next_tune_s"]:
                return TUNE
            r["offered"] = 0
            r["phase"] = OBSERVES
        if r["phase"] == OBSERVES:
            if r["later"] + r["held"] + 1 >= delay.offers.shape[0]:
                return GROW
            found = observe(sim, delay)
            if found != NOTHING:
                return found
            if not r["rebid"]:
                row = take_kept(sim, delay)
                if row >= 0:
                    r["row"] = row
                    r["granted_in"] = OBSERVES
                    r["phase"] = GRANTED
                    return START
            take_due(sim, delay)
            if r["exact"]:
                r["due"] = 1
            r["phase"] = OFFERS
        if r["phase"] == OFFERS:
            if r["due"] == 0:
                r["phase"] = EVICTS
            else:
                r["due"] -= 1
                r["offered"] = 1
                begin_offer(sim, delay)
                r["phase"] = WALKS
        if r["phase"] == GRANTED:
            row = r["row"]
            r["phase"] = r["granted_in"]
            if sim.jobs[row]["status"] == RUNNING:
                if r["phase"] == WALKS and r["policy"] == DALLY:
                    remember(delay, sim.world["clock_s"], row, r["tier"])
                remove(delay.queue, r["queued"], row)
                r["queued"] -= 1
                delay.held[r["held"]] = row
                r["held"] += 1
                delay.tasks[row]["last_s"] = sim.world["clock_s"]
                r["until_s"] = plan_lease(sim, delay, row)
                if r["until_s"] < np.inf:
                    return LEASE
            elif r["phase"] == WALKS:  # the start was refused: its GPUs are still on offer
                count_offer(sim, delay)
        if r["phase"] == WALKS:
            found = walk_offer(sim, delay)
            if found == START:
                r["granted_in"] = WALKS
                r["phase"] = GRANTED
            if found != NOTHING:
                return found
            # a recorded wait may have lowered the timer of a job that was asked earlier in this offer
            if r["exact"] and r["retuned"]:
                r["due"] = 1
            r["phase"] = OFFERS
        if r["phase"] == EVICTS:
            if r["victims"] and r["offered"]:
                found = evict(sim, delay)
                if found != NOTHING:
                    return found
            r["phase"] = STOPS
        if r["phase"] == STOPS:
            stops = r["victims"] or r["policy"] == GANDIVA
            if stops and stop_next(sim, delay):
                r["stopped"] = 1
                return LEASE if r["until_s"] > sim.world["clock_s"] else PREEMPT
            r["phase"] = OBSERVES if r["stopped"] else ENDS
            r["stopped"] = 0
        if r["phase"] == ENDS:
            if not r["exact"]:
                count_offer(sim, delay)
                r["free_before"] = r["free"]
            r["until_s"] = next_wake(sim, delay)
            r["phase"] = ASLEEP
            if r["until_s"] < np.inf:
                return WAIT
        if r["phase"] == ASLEEP:
            return NOTHING


@kernel
def play(sim: Run, delay: Delay) -> int:
    """Simulate until tuning is due (PAUSED), an array is TOO_SMALL, places are UNSORTED, or the run ends."""
    w = sim.world
    r = delay.rules
    while True:
        if r["phase"] == ASLEEP:
            outcome = advance(sim)
            if outcome != DECIDE:
                return outcome
            r["phase"] = BEGUN
            r["idle"] = r["idle"] + 1 if stuck(sim) else 0
            if r["idle"] > IDLE_LIMIT:
                return STALLED
        # the log must have room for any next decision
        if w["events"] + 2 > sim.events.shape[0] or w["event_gpus"] + w["gpus"] > sim.event_gpus.shape[0]:
            return LOG_FULL
        found = next_decision(sim, delay)
        row = r["row"]
        if found == START:
            gang = delay.tasks[row]["gpus"]
            start(sim, row, EXPLICIT, gang, False, 0)
        elif found == LEASE:
            lease(sim, row, r["until_s"])
        elif found == PREEMPT:
            preempt(sim, row)
        elif found == WAIT:
            if not waits_until(sim, r["until_s"]):
                return BAD_WAIT
        elif found == TUNE:
            return PAUSED
        elif found == GROW:
            return TOO_SMALL
        elif found == SORT:
            return UNSORTED


@kernel
def nw_now(sim: Run, delay: Delay, asked: Asked) -> None:
    """Write the present Nw of jobs to ``answers``: work done, in seconds without communication / productive seconds."""
    for i in range(len(asked.rows)):
        asked.answers[0, i] = nw_of(sim, delay, asked.rows[i])
