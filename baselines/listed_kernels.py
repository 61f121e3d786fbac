"""The compiled loop of schedulers that are an order of jobs and a walk along it: FIFO, SJF, SRTF, LAS, Tiresias.

It decides what their ``decide`` decides, in the same sequence; tests compare the logs. What it need not do again: look
at jobs that could not start before, while no GPU has come back.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from gpusched_env.simulator.events import (
    APPLIED,
    BUFFER_FULL,
    DECIDE,
    LOG_FULL,
    STALLED,
    advance,
    preempt,
    productive_s,
    start,
    work_left,
)
from gpusched_env.simulator.jit import helper, int64, kernel
from gpusched_env.simulator.placing import ANYWHERE
from gpusched_env.simulator.planning import NEWCOMER, SKIPPED, plan_preemptive
from gpusched_env.simulator.state import ACTIVE, CHECKPOINTING

Array = np.ndarray[Any, Any]

# How jobs are ordered.
ARRIVAL, SIZE, ATTAINED, QUEUES = range(4)
# Where the loop stands between two calls.
ASLEEP, DECIDES, WALKS, STOPS, STARTS, ENDS = range(6)
PAUSED: Final = 6  # outcome beside those of ``advance``: it is the time at which it was asked to stop
_IDLE_LIMIT: Final = 100_000  # decision points in a row at which nothing makes progress and nothing can come
_TOLERANCE: Final = 1e-6  # [GPU s]: demotion times are computed from attained service and back

LIST_DTYPE: Final = np.dtype(
    [
        ("order", "<i8"),  # ARRIVAL, SIZE, ATTAINED, QUEUES
        ("preempts", "<i8"),  # 1 = running jobs may be preempted
        ("strict", "<i8"),  # 1 = the first job that does not fit blocks all behind it
        ("by_gpus", "<i8"),  # 1 = sizes are multiplied by the gang
        ("incumbents", "<i8"),  # 1 = running jobs lead their queue
        ("rule", "<i8"),  # placement rule
        ("skewed_rule", "<i8"),  # that of models with more skew than ``packlimit``
        ("packlimit", "<f8"),
        ("monotone", "<i8"),  # 1 = what does not fit fits no better once others have been placed
        ("round_s", "<f8"),  # [s] of LAS
        ("until_s", "<f8"),  # [s] when to stop
        # where it stands
        ("phase", "<i8"),
        ("at", "<i8"),  # entry of the list that comes next
        ("listed", "<i8"),  # entries of ``order``
        ("walked", "<i8"),  # entries of ``walk``
        ("returns", "<i8"),  # gangs that had given GPUs back then
        ("idle", "<i8"),
        ("reads_round", "<i8"),  # 1 = this decision point is a round of LAS
    ]
)


@helper
def attained_of(world: Array, jobs: Array, replicas: Array, b: int, row: int) -> float:
    """Attained service of a job, gang size x productive seconds [GPU s]."""
    job = jobs[b, row]
    return job["gpus"] * (job["service_s"] + productive_s(world, replicas, b, int64(job["replica"])))


@helper
def size_of(world: Array, jobs: Array, replicas: Array, list_: Array, b: int, row: int) -> float:
    """Sort key of a job: what is left of its run time, or what it has attained."""
    job = jobs[b, row]
    if list_[0]["order"] == SIZE:
        size = work_left(world, jobs, replicas, b, row) / job["iterations"] * job["ideal_s"]
    else:
        size = job["service_s"] + productive_s(world, replicas, b, int64(job["replica"]))
    return size * job["gpus"] if list_[0]["by_gpus"] else size


@helper
def before(keys: Array, ranks: Array, one: int, other: int) -> bool:
    """Tell whether a job comes before another: by key, rank among equals, row."""
    if keys[one] != keys[other]:
        return keys[one] < keys[other]
    if ranks[one] != ranks[other]:
        return ranks[one] < ranks[other]
    return one < other


@helper
def sort_rows(order: Array, scratch: Array, keys: Array, ranks: Array, count: int) -> None:
    """Sort rows by natural merging: what is sorted already costs one look."""
    while True:
        begin = int64(0)
        runs = 0
        while begin < count:
            middle = begin + 1
            while middle < count and before(keys, ranks, int64(order[middle - 1]), int64(order[middle])):
                middle += 1
            end = middle
            if middle < count:
                end = middle + 1
                while end < count and before(keys, ranks, int64(order[end - 1]), int64(order[end])):
                    end += 1
                for i in range(begin, middle):
                    scratch[i] = order[i]
                i = begin
                j = middle
                for at in range(begin, end):
                    if i < middle and (j >= end or before(keys, ranks, int64(scratch[i]), int64(order[j]))):
                        order[at] = scratch[i]
                        i += 1
                    else:
                        order[at] = order[j]
                        j += 1
                    if i == middle:
                        break
            runs += 1
            begin = end
        if runs <= 1:
            return


@helper
def list_jobs(
    world: Array, jobs: Array, replicas: Array, waiting: Array, running: Array, list_: Array, order: Array,
    member: Array, b: int, with_running: bool,
) -> int:
    """List the jobs of this decision point in the order of the last one, newcomers behind; return their number."""
    w = world[b]
    for i in range(w["waiting"]):
        member[waiting[b, i]] = 1
    if with_running:
        for i in range(w["running"]):
            member[replicas[b, running[b, i]]["job"]] = 1
    count = int64(0)
    for i in range(list_[0]["listed"]):
        row = order[i]
        if member[row] == 1:
            member[row] = 0
            order[count] = row
            count += 1
    for i in range(w["waiting"]):
        row = waiting[b, i]
        if member[row] == 1:
            member[row] = 0
            order[count] = row
            count += 1
    if with_running:
        for i in range(w["running"]):
            row = replicas[b, running[b, i]]["job"]
            if member[row] == 1:
                member[row] = 0
                order[count] = row
                count += 1
    list_[0]["listed"] = count
    return count


@helper
def queue_of(thresholds: Array, attained: float) -> int:
    """Queue of a job by its attained service (Tiresias, NSDI 2019, section 3.2)."""
    queue = int64(0)
    for i in range(len(thresholds)):
        if thresholds[i] - _TOLERANCE <= attained:
            queue += 1
    return queue


@helper
def rule_of(jobs: Array, list_: Array, skew: Array, b: int, row: int) -> int:
    """Placement rule of a job."""
    r = list_[0]
    skewed = r["order"] == QUEUES and skew[row] > r["packlimit"] and jobs[b, row]["gpus"] > 1
    return int64(r["skewed_rule"] if skewed else r["rule"])


@helper
def sort_jobs(
    world: Array, jobs: Array, replicas: Array, list_: Array, skew: Array, thresholds: Array, order: Array,
    scratch: Array, keys: Array, ranks: Array, rules: Array, b: int, count: int,
) -> None:
    """Sort the listed jobs, and note the placement rule of each."""
    r = list_[0]
    for i in range(count):
        row = int64(order[i])
        if r["order"] == QUEUES:
            # the queue first, then, if they lead it, those who run
            ranks[row] = jobs[b, row]["first_start_s"]
            keys[row] = 2.0 * queue_of(thresholds, attained_of(world, jobs, replicas, b, row))
            if r["incumbents"] and jobs[b, row]["replica"] < 0:
                keys[row] += 1.0
        else:
            keys[row] = size_of(world, jobs, replicas, list_, b, row)
            ranks[row] = 1.0 if r["order"] == SIZE and jobs[b, row]["replica"] < 0 else 0.0
    sort_rows(order, scratch, keys, ranks, count)
    for i in range(count):
        row = int64(order[i])
        rules[i] = rule_of(jobs, list_, skew, b, row)


@helper
def room_for_all(world: Array, jobs: Array, waiting: Array, list_: Array, skew: Array, b: int) -> bool:
    """Tell whether all waiting jobs find a place on the free GPUs: then nobody is preempted, whatever the order."""
    left = world[b]["free_gpus"]
    for i in range(world[b]["waiting"]):
        row = int64(waiting[b, i])
        left -= jobs[b, row]["gpus"]
        if left < 0 or not list_[0]["monotone"] or rule_of(jobs, list_, skew, b, row) not in ANYWHERE:
            return False
    return True


@helper
def wake_at(world: Array, b: int, time_s: float) -> None:
    """Set the timer, if the time is in the future and comes first."""
    if world[b]["clock_s"] < time_s < world[b]["timer_s"]:
        world[b]["timer_s"] = time_s


@helper
def next_change_of_queue_s(
    world: Array, jobs: Array, replicas: Array, running: Array, thresholds: Array, b: int
) -> float:
    """When the first running job changes its queue [s]."""
    first = np.inf
    for i in range(world[b]["running"]):
        replica = replicas[b, running[b, i]]
        if replica["phase"] != ACTIVE:
            continue
        row = int64(replica["job"])
        attained = attained_of(world, jobs, replicas, b, row)
        queue = queue_of(thresholds, attained)
        if queue < len(thresholds):
            begin = max(replica["since_s"], world[b]["clock_s"])
            first = min(first, begin + (thresholds[queue] - attained) / jobs[b, row]["gpus"])
    return first


@helper
def las_round(world: Array, list_: Array, b: int) -> tuple[bool, float]:
    """Tell whether this instant is a round of LAS, and when the next one is [s]."""
    now_s = world[b]["clock_s"]
    round_s = list_[0]["round_s"]
    rounds = max(math.floor(now_s / round_s) - 1, 0)
    while (rounds + 1) * round_s <= now_s:  # a division may round either way
        rounds += 1
    return rounds * round_s == now_s or world[b]["round_s"] > 0.0, (rounds + 1) * round_s


@kernel
def play_list(
    world: Array, jobs: Array, replicas: Array, nodes: Array, racks: Array, free: Array, holder: Array,
    gpu_next: Array, gpu_node: Array, waiting: Array, running: Array, paces: Array, events: Array,
    event_gpus: Array, chosen: Array, links: Array, uses: Array, routes: Array, pairs: Array, ratios: Array,
    busy: Array, sub_batches: Array, interference: Array, b: int, list_: Array, skew: Array, thresholds: Array,
    order: Array, walk: Array, scratch: Array, keys: Array, ranks: Array, rules: Array, verdict: Array, member: Array,
    failed: Array,
) -> int:
    """Play on until ``until_s`` (PAUSED), the log is full, or ``advance`` ends the run."""
    w = world[b]
    r = list_[0]
    while True:
        if r["phase"] == ASLEEP:
            wake_at(world, b, r["until_s"])
            outcome = advance(
                world, jobs, replicas, nodes, racks, free, holder, gpu_next, gpu_node, waiting, running, paces, events,
                event_gpus, chosen, links, uses, routes, pairs, ratios, busy, sub_batches, interference, b,
            )
            if outcome != DECIDE:
                return outcome
            r["idle"] = r["idle"] + 1 if w["running"] == 0 and w["next_arrival"] == w["jobs"] else 0
            if r["idle"] > _IDLE_LIMIT:
                return STALLED
            r["phase"] = DECIDES
            if w["clock_s"] >= r["until_s"]:
                return PAUSED
        if r["phase"] == DECIDES:
            r["reads_round"] = 0
            r["at"] = 0
            if w["waiting"] == 0:
                r["phase"] = ASLEEP
                continue
            preempts = r["preempts"]
            if r["order"] == ATTAINED:
                at_round, _ = las_round(world, list_, b)
                r["reads_round"] = 1
                preempts = at_round
            if preempts and room_for_all(world, jobs, waiting, list_, skew, b):
                for i in range(w["waiting"]):
                    walk[i] = waiting[b, i]
                r["walked"] = w["waiting"]
                sort_jobs(
                    world, jobs, replicas, list_, skew, thresholds, walk, scratch, keys, ranks, rules, b,
                    int64(w["waiting"]),
                )
                for i in range(len(failed)):
                    failed[i] = 0
                r["phase"] = WALKS
            elif preempts:
                count = list_jobs(
                    world, jobs, replicas, waiting, running, list_, order, member, b, True
                )
                sort_jobs(
                    world, jobs, replicas, list_, skew, thresholds, order, scratch, keys, ranks, rules, b, count
                )
                plan_preemptive(
                    world, jobs, replicas, nodes, racks, free, holder, gpu_next, gpu_node, waiting, running, paces,
                    events, event_gpus, chosen, links, uses, routes, pairs, ratios, busy, sub_batches, interference, b,
                    order[:count], rules[:count], verdict[:count],
                )
                r["phase"] = STOPS
            else:
                count = w["waiting"]
                returned = w["returns"] != r["returns"] or not r["monotone"]
                if w["free_gpus"] == 0:
                    count = 0
                elif r["order"] == ARRIVAL:
                    for i in range(count):
                        walk[i] = waiting[b, i]
                        rules[i] = r["rule"]
                else:
                    count = list_jobs(
                        world, jobs, replicas, waiting, running, list_, order, member, b, False
                    )
                    sort_jobs(
                        world, jobs, replicas, list_, skew, thresholds, order, scratch, keys, ranks, rules, b, count
                    )
                    for i in range(count):
                        walk[i] = order[i]
                r["walked"] = count
                if returned:
                    for i in range(len(failed)):
                        failed[i] = 0
                r["returns"] = w["returns"]
                r["phase"] = WALKS if count > 0 else ENDS
        if r["phase"] == WALKS:
            while r["at"] < r["walked"] and w["free_gpus"] > 0:
                row = int64(walk[r["at"]])
                gang = jobs[b, row]["gpus"]
                if not (r["monotone"] and failed[gang]):
                    code = start(
                        world, jobs, replicas, nodes, racks, free, holder, gpu_next, gpu_node, waiting, running, paces,
                        events, event_gpus, chosen, links, uses, routes, pairs, ratios, busy, sub_batches, interference,
                        b, row, int64(rules[r["at"]]), 0, False, 0,
                    )
                    if code == BUFFER_FULL:
                        return LOG_FULL
                    if code != APPLIED:
                        failed[gang] = 1
                if failed[gang] and r["strict"]:
                    break
                r["at"] += 1
            r["phase"] = ENDS
        if r["phase"] == STOPS:
            while r["at"] < r["listed"]:
                row = int64(order[r["at"]])
                number = jobs[b, row]["replica"]
                if verdict[r["at"]] == SKIPPED and number >= 0 and replicas[b, number]["phase"] != CHECKPOINTING:
                    code = preempt(
                        world, jobs, replicas, nodes, racks, free, holder, gpu_next, gpu_node, waiting, running, paces,
                        events, event_gpus, chosen, links, uses, routes, pairs, ratios, busy, sub_batches, interference,
                        b, row,
                    )
                    if code == BUFFER_FULL:
                        return LOG_FULL
                r["at"] += 1
            r["at"] = 0
            r["phase"] = STARTS
        if r["phase"] == STARTS:
            while r["at"] < r["listed"]:
                if verdict[r["at"]] == NEWCOMER:
                    code = start(
                        world, jobs, replicas, nodes, racks, free, holder, gpu_next, gpu_node, waiting, running, paces,
                        events, event_gpus, chosen, links, uses, routes, pairs, ratios, busy, sub_batches, interference,
                        b, int64(order[r["at"]]), int64(rules[r["at"]]), 0, False, 0,
                    )
                    if code == BUFFER_FULL:
                        return LOG_FULL
                r["at"] += 1
            r["phase"] = ENDS
        if r["phase"] == ENDS:
            if r["reads_round"]:
                _, next_s = las_round(world, list_, b)
                wake_at(world, b, next_s)
            elif r["order"] == QUEUES:
                change_s = next_change_of_queue_s(world, jobs, replicas, running, thresholds, b)
                # a change closer than the clock can tell is still a change
                wake_at(world, b, max(change_s, np.nextafter(w["clock_s"], np.inf)))
            r["phase"] = ASLEEP
