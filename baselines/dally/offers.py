"""Offers of GPUs: which jobs are asked, on which tier each of them accepts GPUs, and what follows for the timers."""

from __future__ import annotations

from gpusched_env.baselines.dally.affinity import may_move, place_by_affinity
from gpusched_env.baselines.dally.keeping import keep
from gpusched_env.baselines.dally.leaks import leak
from gpusched_env.baselines.dally.leases import bids_again
from gpusched_env.baselines.dally.placing import (
    ANYWHERE,
    IN_RACK,
    ON_MACHINE,
    ON_SLOT,
    REFUSED,
    choose_gpus,
    count_offer,
    visit,
)
from gpusched_env.baselines.dally.ranking import insert, rank
from gpusched_env.baselines.dally.state import GROW, MACHINE_WAITS, NETWORK_TIMER, RACK_TIMER, RACK_WAITS, SORT, Delay
from gpusched_env.baselines.dally.tuning import record
from gpusched_env.baselines.dally.victims import evict_for, rate_victims
from gpusched_env.core.driver import ASSIST, NOTHING, START, Choice
from gpusched_env.core.handle import helper, kernel
from gpusched_env.core.state import WAITING, Run

DALLY, TIRESIAS, GANDIVA = range(3)


@helper
def ask_python(delay: Delay, what: int) -> int:
    """Return ASSIST; ``what`` = GROW, SORT or TUNE."""
    delay.rules["asks"] = what
    return ASSIST


@helper
def decide_start(choice: Choice, delay: Delay, row: int) -> int:
    """Write a start of a job on the chosen GPUs, and return START."""
    choice.made["row"] = row
    choice.made["gpus"] = delay.tasks[row]["gpus"]
    delay.rules["starts"] = 1
    return START


@helper
def is_full(delay: Delay, row: int) -> bool:
    """Return whether a history of the demand class of a job has no room for another wait."""
    counts = delay.counts[delay.tasks[row]["demand"]]
    return max(counts[MACHINE_WAITS], counts[RACK_WAITS]) == delay.samples.shape[2]


@kernel
def remember(delay: Delay, now_s: float, row: int, tier: int) -> None:
    """Record the wait of a job for the tier that it takes."""
    task = delay.tasks[row]
    demand = task["demand"]
    wait_s = now_s - task["last_s"]
    if tier <= ON_MACHINE:
        record(delay, demand, MACHINE_WAITS, now_s, wait_s)
    if tier == IN_RACK:
        record(delay, demand, RACK_WAITS, now_s, wait_s)


@kernel
def write_verdict(sim: Run, delay: Delay, row: int, tier: int) -> None:
    """Record what a job that was asked has accepted."""
    verdict = delay.verdicts[delay.rules["verdicts"]]
    verdict["time_s"] = sim.world["clock_s"]
    verdict["waited_s"] = sim.world["clock_s"] - delay.tasks[row]["last_s"]
    verdict["rack_wait_s"] = delay.waits_s[delay.tasks[row]["gpus"], RACK_TIMER]
    verdict["network_wait_s"] = delay.waits_s[delay.tasks[row]["gpus"], NETWORK_TIMER]
    verdict["job"] = row
    verdict["tier"] = tier
    delay.rules["verdicts"] += 1


# --- what a job accepts


@kernel
def accepts(delay: Delay, now_s: float, row: int, timer: int) -> bool:
    """Return whether a job accepts a tier: the timer has expired, or the job fits on no tighter tier."""
    tighter_gpus = delay.rules["machine_gpus"] if timer == RACK_TIMER else delay.rules["rack_gpus"]
    if delay.tasks[row]["gpus"] > tighter_gpus:
        return True
    wait_s = delay.waits_s[delay.tasks[row]["gpus"], timer]
    if delay.rules["exact"]:  # the expiry is an event at exactly this sum
        return now_s >= delay.tasks[row]["last_s"] + wait_s
    return now_s - delay.tasks[row]["last_s"] >= wait_s


@kernel
def place_by_delay(delay: Delay, now_s: float, row: int) -> tuple[int, int]:
    """Find the tightest tier that the job accepts, and a place on it."""
    r = delay.rules
    gang = delay.tasks[row]["gpus"]
    slots = delay.slot_order.shape[0]
    if gang <= r["most_in_slot"]:
        return ON_SLOT, visit(delay, delay.slot_order, 0, gang)
    if gang <= r["most_in_machine"]:
        return ON_MACHINE, visit(delay, delay.node_order, slots, gang)
    if gang <= r["most_in_rack"] and accepts(delay, now_s, row, RACK_TIMER):
        return IN_RACK, visit(delay, delay.rack_order, slots + delay.node_order.shape[0], gang)
    if accepts(delay, now_s, row, NETWORK_TIMER):
        return ANYWHERE, 0
    return REFUSED, 0


@kernel
def place_by_skew(delay: Delay, row: int) -> tuple[int, int]:
    """Find a tier and a place without waiting, as Tiresias in the authors' simulator does."""
    r = delay.rules
    gang = delay.tasks[row]["gpus"]
    slots = delay.slot_order.shape[0]
    place = visit(delay, delay.node_order, slots, gang)
    if place >= 0:
        return ON_MACHINE, place
    rack = visit(delay, delay.rack_order, slots + delay.node_order.shape[0], gang)
    low_skew = delay.tasks[row]["low_skew"] == 1
    if rack >= 0 and (low_skew or r["free"] >= r["machine_gpus"]):
        return IN_RACK, rack
    if low_skew or gang > r["rack_gpus"]:
        return ANYWHERE, 0
    return REFUSED, 0


@helper
def find_place(sim: Run, delay: Delay, row: int) -> tuple[int, int]:
    """Find the tier and the place that a job accepts by the policy."""
    if delay.rules["policy"] == TIRESIAS:
        return place_by_skew(delay, row)
    if delay.rules["policy"] == GANDIVA:
        return place_by_affinity(sim, delay, row)
    return place_by_delay(delay, sim.world["clock_s"], row)


# --- an offer


@kernel
def begin_offer(sim: Run, delay: Delay) -> None:
    """Offer all free GPUs, and list the jobs to ask: waiting jobs, and running jobs that bid or may move."""
    r = delay.rules
    r["due"] -= 1
    r["offered"] = 1
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


@helper
def win(sim: Run, delay: Delay, row: int, tier: int) -> None:
    """Give the chosen GPUs to a running job that has accepted them; it keeps them for a move, or leaks them (Q1)."""
    if delay.rules["policy"] == GANDIVA:
        delay.tasks[row]["stops"] = 1
        for i in range(delay.tasks[row]["gpus"]):
            keep(delay, row, sim.chosen[i])
        return
    if delay.rules["policy"] == DALLY:
        remember(delay, sim.world["clock_s"], row, tier)
    leak(sim, delay, row)


@helper
def ask_jobs(sim: Run, choice: Choice, delay: Delay) -> int:
    """Ask the jobs of an offer, one after another, until one starts; NOTHING = none does."""
    r = delay.rules
    while r["cursor"] < r["ordered"] and r["free"] > 0:
        row = delay.order[r["cursor"]]
        waits = sim.jobs[row]["status"] == WAITING
        keeps = waits and delay.tasks[row]["leaked"] > 0 and not r["rebid"]  # GPUs are kept for it already
        if delay.tasks[row]["gpus"] > r["free"] or keeps:
            r["cursor"] += 1
            continue
        records = delay.verdicts.shape[0] > 0
        if is_full(delay, row) or (records and r["verdicts"] == delay.verdicts.shape[0]):
            return ask_python(delay, GROW)
        if r["sorted"] and r["unsorted"]:
            return ask_python(delay, SORT)
        r["cursor"] += 1
        tier, place = find_place(sim, delay, row)
        if records:
            write_verdict(sim, delay, row, tier)
        if tier == REFUSED:
            continue
        choose_gpus(sim, delay, delay.tasks[row]["gpus"], tier, place)
        if waits:
            r["tier"] = tier
            return decide_start(choice, delay, row)
        win(sim, delay, row, tier)
    return NOTHING


@kernel
def evict(sim: Run, delay: Delay) -> int:
    """Mark running gangs to stop for the first waiting job that gains by it; return NOTHING or ASSIST."""
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
        if is_full(delay, row):
            return ask_python(delay, GROW)
        rack_too = gang > r["most_in_rack"] and accepts(delay, now_s, row, RACK_TIMER)
        network_too = gang > r["free"] and accepts(delay, now_s, row, NETWORK_TIMER)
        tier = evict_for(sim, delay, row, rack_too, network_too)
        if tier != REFUSED:
            remember(delay, now_s, row, tier)
            return NOTHING
    return NOTHING
