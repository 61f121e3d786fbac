"""The event loop's kernels: start, preempt, advance. Between two events every rate is constant."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from gpusched_env.event_log import ARRIVAL, COMPLETE, LEASE_END, PREEMPT, RATE, RELEASE, RESUME, START
from gpusched_env.simulator.contention import beside_company, finish_time, settle, whole_iterations
from gpusched_env.simulator.due import FIRST, LEASE_ENDS, set_due
from gpusched_env.simulator.flows import begin_flow, end_flow, micro_s
from gpusched_env.simulator.jit import helper, int64, kernel
from gpusched_env.simulator.link_changes import change_links, next_change_s
from gpusched_env.simulator.placing import SHARE_FIRST_FIT, SHARED_BY, SHARING, fits, look_for, reserve
from gpusched_env.simulator.placing_shared import find_shared
from gpusched_env.simulator.seats import (
    has_option,
    largest_sub_batch,
    leave_seats,
    may_share,
    move_down,
    reserved_seat,
    slowdown_by_company,
    take_seat,
    tell_neighbours,
)
from gpusched_env.simulator.shapes import placed, placed_copies
from gpusched_env.simulator.state import ACTIVE, CHECKPOINTING, FINISHED, FUTURE, IDLE, RUNNING, WAITING
from gpusched_env.simulator.taking import FREE, unable
from gpusched_env.simulator.waiting import dequeue, enqueue

Array = np.ndarray[Any, Any]

# What stopped :func:`moves.advance_by`.
DECIDE, DONE, STALLED, TIME_LIMIT, LOG_FULL = range(5)
GO_ON: Final = -1  # nothing has

# Kinds of next event beside those of gangs (due.py), in the order in which simultaneous events are played.
ARRIVES: Final = LEASE_ENDS + 1
CHANGES: Final = LEASE_ENDS + 2
WAKES: Final = LEASE_ENDS + 3
NO_EVENT: Final = LEASE_ENDS + 4
# Relative: how far from the end of a step its end may be taken for one.
IDLE_LIMIT: Final = 100_000  # decision points in a row at which nothing makes progress and nothing can come
STEP_SLACK: Final = 1e-9

# Why a decision was refused; the index is the code kernels return, 0 = applied.
REFUSALS: Final = (
    "",
    "no such job in this scenario",
    "the job has not arrived yet",
    "the job is running",
    "the job has finished",
    "too few free GPUs",
    "the placement rule finds no place now",
    "an explicit GPU does not exist, is listed twice or is not free",
    "the number of explicit GPUs is not the job's gang size, or that of its copies",
    "the job is not running",
    "the gang is being checkpointed",
    "the gang started at this very instant",
    "a lease must end in the future",
    "the job cannot run on the GPU type of one of these",
    "its model must not share a GPU with one that runs there",
    "a GPU has too little memory left, whatever the sub-batch or at this one",
    "its batch cannot be worked off in so many sub-steps",
)
(
    APPLIED, NO_JOB, NOT_ARRIVED, IS_RUNNING, IS_FINISHED, TOO_FEW_GPUS, NO_PLACE, BAD_GPUS, BAD_GANG, NOT_RUNNING,
    IS_CHECKPOINTING, JUST_STARTED, LEASE_IN_PAST, CANNOT_RUN,
    MAY_NOT_SHARE, NO_MEMORY, BAD_SUB_STEPS,
) = range(len(REFUSALS))  # fmt: skip
# Not a refusal: the caller must drain the log and try again.
BUFFER_FULL: Final = -1
EXPLICIT: Final = -1  # rule number of "these GPUs", given in ``chosen``


@helper
def write_event(
    world: Array, events: Array, b: int, kind: int, job: int, replica: int, value: float, gpu_count: int, tier: int
) -> None:
    """Append a record to the log buffer."""
    w = world[b]
    event = events[b, w["events"]]
    event["time_s"] = w["clock_s"]
    event["value"] = value
    event["gpu_at"] = w["gpus_before"] + w["event_gpus"] if gpu_count > 0 else -1
    event["kind"] = kind
    event["job"] = job
    event["replica"] = replica
    event["gpu_count"] = gpu_count
    event["tier"] = tier
    event["sub_steps"] = 1
    w["events"] += 1


@helper
def productive_s(world: Array, replicas: Array, b: int, replica: int) -> float:
    """Seconds of progress since a replica was last touched; 0 while it restores, checkpoints, or is none (-1) [s]."""
    if replica < 0 or replicas[b, replica]["phase"] != ACTIVE:
        return 0.0
    return max(world[b]["clock_s"] - replicas[b, replica]["since_s"], 0.0)


@helper
def work_left(world: Array, jobs: Array, replicas: Array, b: int, row: int) -> float:
    """Iterations left as of the clock."""
    job = jobs[b, row]
    elapsed = productive_s(world, replicas, b, job["replica"])
    if elapsed > 0.0:
        done = elapsed / replicas[b, job["replica"]]["iteration_s"]
        step = world[b]["step_iterations"]
        if step > 0.0:  # the end of a step is known to some units in the last place: it ends whole steps
            whole = np.rint(done / step) * step
            if abs(done - whole) <= STEP_SLACK * whole:
                done = whole
        return max(job["remaining"] - done, 0.0)
    return job["remaining"]


@helper
def attained_service(world: Array, jobs: Array, replicas: Array, b: int, row: int) -> float:
    """Attained service of a job as of the clock, gang size x productive seconds [GPU s]."""
    job = jobs[b, row]
    return job["gpus"] * (job["service_s"] + productive_s(world, replicas, b, int64(job["replica"])))


@helper
def seconds_left(world: Array, jobs: Array, replicas: Array, b: int, row: int) -> float:
    """Run time left on the ideal placement as of the clock [s]; as a share of the whole, so that equal jobs tie."""
    return work_left(world, jobs, replicas, b, row) / jobs[b, row]["iterations"] * jobs[b, row]["ideal_s"]


@helper
def touch(world: Array, jobs: Array, replicas: Array, b: int, replica: int) -> None:
    """Bring the work of a replica's job up to the clock."""
    row = replicas[b, replica]["job"]
    elapsed = productive_s(world, replicas, b, replica)
    if elapsed > 0.0:
        jobs[b, row]["remaining"] = work_left(world, jobs, replicas, b, row)
        jobs[b, row]["service_s"] += elapsed
        replicas[b, replica]["service_s"] = jobs[b, row]["service_s"]
        replicas[b, replica]["since_s"] = world[b]["clock_s"]


@helper
def clear_lease(world: Array, replicas: Array, b: int, number: int) -> None:
    """Let a gang hold its GPUs without a lease."""
    world[b]["leases_over"] -= replicas[b, number]["lease_over"]
    replicas[b, number]["lease_over"] = 0
    replicas[b, number]["lease_s"] = np.inf


@helper
def give_back(
    world: Array, replicas: Array, nodes: Array, free: Array, holder: Array, gpu_next: Array, gpu_node: Array,
    running: Array, busy: Array, due: Array, b: int, replica: int,
) -> None:
    """Free a replica's seats, the GPUs that nobody else holds, and its row."""
    w = world[b]
    seat = int64(replicas[b, replica]["first_gpu"])
    while seat >= 0:
        following = int64(gpu_next[b, seat])
        holder[b, seat] = FREE
        gpu = seat
        if w["gpu_jobs"] > 1:
            gpu = seat % w["gpus"]
            move_down(world, replicas, holder, gpu_next, b, seat)
            if not w["pace_until_lease"]:
                tell_neighbours(world, replicas, holder, b, gpu)
        if holder[b, gpu] == FREE:
            node = gpu_node[b, gpu]
            busy[b, gpu]["busy_s"] += w["clock_s"] - busy[b, gpu]["since_s"]
            busy[b, gpu]["since_s"] = np.inf
            free[b, node] += 1
            free[b, nodes.shape[1] + nodes[b, node]["rack"]] += 1
            w["free_gpus"] += 1
        seat = following
    w["returns"] += 1
    clear_lease(world, replicas, b, replica)
    if replicas[b, replica]["phase"] == CHECKPOINTING:
        w["checkpointing_gpus"] -= replicas[b, replica]["gpus"]
    replicas[b, replica]["phase"] = IDLE
    set_due(world, replicas, due, b, replica)
    at = int64(0)
    last = w["running"] - 1
    beyond = last
    while at < beyond:  # by start, so by halving
        middle = (at + beyond) // 2
        if replicas[b, running[b, middle]]["sequence"] < replicas[b, replica]["sequence"]:
            at = middle + 1
        else:
            beyond = middle
    for i in range(at, last):
        running[b, i] = running[b, i + 1]
    running[b, last] = replica  # the idle rows lie behind the running ones
    w["running"] = last


@helper
def release(
    world: Array, jobs: Array, replicas: Array, nodes: Array, free: Array, holder: Array, gpu_next: Array,
    gpu_node: Array, waiting: Array, running: Array, events: Array, busy: Array, due: Array, b: int, replica: int,
) -> None:
    """End a checkpoint: the GPUs are free, the job waits again."""
    w = world[b]
    row = replicas[b, replica]["job"]
    give_back(world, replicas, nodes, free, holder, gpu_next, gpu_node, running, busy, due, b, replica)
    job = jobs[b, row]
    job["status"] = WAITING
    job["replica"] = -1
    job["last_stop_s"] = w["clock_s"]
    enqueue(world, waiting, b, row)
    w["waiting_gpus"] += job["gpus"]
    write_event(world, events, b, RELEASE, row, replica, 0.0, 0, -1)


@helper
def start(
    world: Array, jobs: Array, replicas: Array, nodes: Array, racks: Array, free: Array, holder: Array,
    gpu_next: Array, gpu_node: Array, waiting: Array, running: Array, paces: Array, events: Array,
    event_gpus: Array, chosen: Array, links: Array, uses: Array, routes: Array, pairs: Array, ratios: Array,
    busy: Array, sub_batches: Array, interference: Array, due: Array, b: int, row: int, rule: int, explicit: int,
    share: bool, sub_steps: int,
) -> int:
    """Start (or resume) a waiting job by a placement rule, or on the ``explicit`` GPUs in ``chosen``.

    Explicit GPUs may be those of several copies of the gang, one copy after the other: they divide the iterations by
    their speed, so that their rates add up. With ``share`` others may hold them too. ``sub_steps`` 0 = as the rule
    says, else as few as the memory left asks for.
    """
    w = world[b]
    if row < 0 or row >= w["jobs"]:
        return NO_JOB
    job = jobs[b, row]
    if job["status"] != WAITING:
        if job["status"] == FUTURE:
            return NOT_ARRIVED
        return IS_RUNNING if job["status"] == RUNNING else IS_FINISHED
    gang = int64(job["gpus"])
    kind = int64(job["job_class"])
    shares = w["gpu_jobs"] > 1 and (rule in SHARING or (share and rule == EXPLICIT))
    if gang > w["free_gpus"] and not shares:
        return TOO_FEW_GPUS
    if not has_option(sub_batches, b, kind, sub_steps):
        return BAD_SUB_STEPS
    most = max(gang, min(gang * w["max_copies"], w["free_gpus"]))
    if w["events"] == events.shape[1] or w["event_gpus"] + most > event_gpus.shape[1]:
        return BUFFER_FULL
    if rule == EXPLICIT:
        if explicit % gang != 0 or explicit < gang or explicit > gang * w["max_copies"]:
            return BAD_GANG
        if explicit > w["free_gpus"] and not shares:
            return TOO_FEW_GPUS
        taken = explicit
        for i in range(taken):
            if not take_seat(world, nodes, free, holder, gpu_node, b, int64(chosen[b, i]), shares):
                leave_seats(world, nodes, free, holder, gpu_node, chosen, b, 0, i)
                return BAD_GPUS
            if unable(paces, b, kind, int64(nodes[b, gpu_node[b, chosen[b, i]]]["gpu_type"])):
                leave_seats(world, nodes, free, holder, gpu_node, chosen, b, 0, i + 1)
                return CANNOT_RUN
    elif shares:
        taken, sub_batch = find_shared(
            world, jobs, replicas, nodes, racks, free, holder, gpu_next, gpu_node, running, paces, chosen, links,
            busy, sub_batches, interference, b, row, SHARED_BY[rule - SHARE_FIRST_FIT],
        )
        if taken == 0:
            return NO_PLACE
        if sub_steps == 0:
            sub_steps = int64(sub_batches[b, kind, sub_batch, 0]["sub_steps"])
        for i in range(taken):
            take_seat(world, nodes, free, holder, gpu_node, b, int64(chosen[b, i]), True)
    else:
        supply = int64(w["free_gpus"])
        taken = int64(
            reserve(
                world, nodes, racks, free, holder, gpu_node, chosen, links, busy, paces, b, 0, kind, gang, rule, supply
            )
        )
        if taken == 0:
            return NO_PLACE
    option = int64(0)
    if w["sharing"]:
        option = largest_sub_batch(
            world, jobs, replicas, nodes, holder, gpu_node, chosen, sub_batches, b, kind, taken, sub_steps
        )
        welcome = True
        for i in range(taken):
            welcome = welcome and may_share(
                world, jobs, replicas, nodes, holder, gpu_node, interference, b, int64(chosen[b, i]), kind
            )
        if option < 0 or not welcome:
            leave_seats(world, nodes, free, holder, gpu_node, chosen, b, 0, taken)
            return NO_MEMORY if welcome else MAY_NOT_SHARE

    number = int64(running[b, w["running"]])
    tier, pace, slowest = placed(nodes, racks, gpu_node, paces, chosen, b, kind, 0, gang)
    iteration_s = paces[b, kind, pace, slowest]["iteration_s"]
    if taken > gang:
        tier, iteration_s = placed_copies(nodes, racks, gpu_node, paces, chosen, b, kind, gang, taken)
    before = int64(-1)
    for i in range(taken):
        gpu = int64(chosen[b, i])
        seat = reserved_seat(world, holder, b, gpu)
        holder[b, seat] = number
        gpu_next[b, seat] = -1
        if before >= 0:
            gpu_next[b, before] = seat
        else:
            replicas[b, number]["first_gpu"] = seat
        before = seat
        if seat == gpu:
            busy[b, gpu]["since_s"] = w["clock_s"]
            w["free_gpus"] -= 1
        event_gpus[b, w["event_gpus"] + i] = gpu

    resumed = job["first_start_s"] != np.inf
    r = replicas[b, number]
    r["job"] = row
    r["phase"] = ACTIVE
    r["gpus"] = taken
    r["gang"] = gang
    r["job_class"] = kind
    r["service_s"] = job["service_s"]
    r["tier"] = tier
    r["sub_batch"] = option
    r["compute_share"] = 1.0
    r["accumulation_s"] = 0.0
    r["slowdown"] = 1.0
    r["lease_s"] = np.inf
    r["lease_over"] = 0
    r["start_s"] = w["clock_s"]
    r["since_s"] = w["clock_s"] + (w["restore_s"] if resumed else w["start_s"])
    if taken > gang:
        r["since_s"] += w["merge_s"]
    size = sub_batches[b, kind, option, slowest]
    if size["sub_steps"] > 1:
        r["compute_share"] = size["compute_share"]
        iteration_s = micro_s(paces[b, kind, pace, slowest], r["compute_share"])
        part_s = r["compute_share"] * paces[b, kind, pace, slowest]["compute_s"]
        r["accumulation_s"] = (size["sub_steps"] - 1) * part_s
    r["iteration_s"] = iteration_s
    if w["contention"] > 0:
        begin_flow(
            world, jobs, replicas, nodes, gpu_node, paces, chosen, links, uses, routes, pairs, b, number, slowest
        )
    else:
        r["settled_s"] = r["iteration_s"]
    r["solo_s"] = r["iteration_s"] + r["accumulation_s"]
    r["iteration_s"] = r["solo_s"]
    if w["sharing"]:
        r["told_s"] = -1.0
        r["company_changed"] = 1
        if w["contention"] == 0:
            r["bottleneck"] = -1
        for i in range(taken):
            tell_neighbours(world, replicas, holder, b, int64(chosen[b, i]))
    r["iteration_s"] = whole_iterations(world, b, r["iteration_s"])
    r["until_s"] = finish_time(world, b, r["since_s"], job["remaining"], r["iteration_s"])
    r["sequence"] = w["starts"]
    w["starts"] += 1
    set_due(world, replicas, due, b, number)
    write_event(world, events, b, RESUME if resumed else START, row, number, r["since_s"], taken, tier)
    events[b, w["events"] - 1]["sub_steps"] = sub_batches[b, kind, option, 0]["sub_steps"]
    w["event_gpus"] += taken
    w["running"] += 1

    job["status"] = RUNNING
    job["replica"] = number
    if not resumed:
        job["first_start_s"] = w["clock_s"]
    dequeue(world, waiting, b, row)
    w["waiting_gpus"] -= gang
    return APPLIED


@helper
def preempt_refusal(world: Array, jobs: Array, replicas: Array, b: int, row: int) -> int:
    """Say why a job cannot be preempted now; APPLIED if it can."""
    if row < 0 or row >= world[b]["jobs"]:
        return NO_JOB
    if jobs[b, row]["status"] != RUNNING:
        return IS_FINISHED if jobs[b, row]["status"] == FINISHED else NOT_RUNNING
    r = replicas[b, jobs[b, row]["replica"]]
    if r["phase"] == CHECKPOINTING:
        return IS_CHECKPOINTING
    # Without this an agent could start and preempt for ever in no time.
    return JUST_STARTED if r["start_s"] == world[b]["clock_s"] else APPLIED


@helper
def preempt(
    world: Array, jobs: Array, replicas: Array, nodes: Array, racks: Array, free: Array, holder: Array,
    gpu_next: Array, gpu_node: Array, waiting: Array, running: Array, paces: Array, events: Array,
    event_gpus: Array, chosen: Array, links: Array, uses: Array, routes: Array, pairs: Array, ratios: Array,
    busy: Array, sub_batches: Array, interference: Array, due: Array, b: int, row: int,
) -> int:
    """Checkpoint a running job; its GPUs are free after ``checkpoint_s``, at once if that is 0."""
    refusal = preempt_refusal(world, jobs, replicas, b, row)
    if refusal != APPLIED:
        return refusal
    if world[b]["events"] + 2 > events.shape[1]:
        return BUFFER_FULL
    stop(
        world, jobs, replicas, nodes, free, holder, gpu_next, gpu_node, waiting, running, events, links, uses, busy,
        due, b, row,
    )
    return APPLIED


@helper
def lease(
    world: Array, jobs: Array, replicas: Array, nodes: Array, racks: Array, free: Array, holder: Array,
    gpu_next: Array, gpu_node: Array, waiting: Array, running: Array, paces: Array, events: Array,
    event_gpus: Array, chosen: Array, links: Array, uses: Array, routes: Array, pairs: Array, ratios: Array,
    busy: Array, sub_batches: Array, interference: Array, due: Array, b: int, row: int, until_s: float,
) -> int:
    """Let a running gang hold its GPUs until a time, in rounds until the first round then; inf = no lease."""
    refusal = preempt_refusal(world, jobs, replicas, b, row)
    if refusal != APPLIED and refusal != JUST_STARTED:
        return refusal
    if not until_s > world[b]["clock_s"]:
        return LEASE_IN_PAST
    round_s = world[b]["round_s"]
    if round_s > 0.0 and until_s < np.inf:
        number_of_round = math.ceil(until_s / round_s) - 1
        while number_of_round * round_s < until_s:  # a division may round either way
            number_of_round += 1
        until_s = number_of_round * round_s
    number = int64(jobs[b, row]["replica"])
    clear_lease(world, replicas, b, number)
    replicas[b, number]["lease_s"] = until_s
    set_due(world, replicas, due, b, number)
    if world[b]["pace_until_lease"] and world[b]["gpu_jobs"] > 1:
        replicas[b, number]["company_changed"] = 1
        world[b]["uncommitted"] = 1
    return APPLIED


@helper
def stop(
    world: Array, jobs: Array, replicas: Array, nodes: Array, free: Array, holder: Array, gpu_next: Array,
    gpu_node: Array, waiting: Array, running: Array, events: Array, links: Array, uses: Array, busy: Array,
    due: Array, b: int, row: int,
) -> None:
    """Preempt a job that may be preempted; the log must have room for two records."""
    w = world[b]
    number = jobs[b, row]["replica"]
    clear_lease(world, replicas, b, int64(number))
    touch(world, jobs, replicas, b, number)
    jobs[b, row]["preemptions"] += 1
    w["preemptions"] += 1
    write_event(world, events, b, PREEMPT, row, number, jobs[b, row]["remaining"], 0, -1)
    if w["contention"] > 0:
        end_flow(world, replicas, links, uses, b, int64(number))
    if w["checkpoint_s"] > 0.0:
        replicas[b, number]["phase"] = CHECKPOINTING
        w["checkpointing_gpus"] += replicas[b, number]["gpus"]
        replicas[b, number]["until_s"] = w["clock_s"] + w["checkpoint_s"]
        set_due(world, replicas, due, b, int64(number))
    else:
        release(
            world, jobs, replicas, nodes, free, holder, gpu_next, gpu_node, waiting, running, events, busy, due, b,
            number,
        )


@helper
def expired(world: Array, replicas: Array, running: Array, b: int) -> int:
    """Find the first gang, by start, whose lease has ended and about which nobody has decided."""
    at = 0
    while replicas[b, running[b, at]]["lease_over"] == 0:
        at += 1
    return int64(running[b, at])


@helper
def next_round(world: Array, b: int) -> int:
    """Number the first round that has not been played and does not lie in the past."""
    w = world[b]
    number = max(w["next_tick"], int(np.floor(w["clock_s"] / w["round_s"])) - 1)
    while number * w["round_s"] < w["clock_s"]:  # a division may round either way
        number += 1
    return number


@helper
def elapse(world: Array, b: int, until_s: float) -> None:
    """Move the clock and the integrals over time."""
    w = world[b]
    seconds = until_s - w["clock_s"]
    if seconds > 0.0:
        w["job_seconds"] += seconds * (w["next_arrival"] - w["finished"])
        w["slowdown_seconds"] += seconds * w["slowdown_weight"]
        w["busy_gpu_seconds"] += seconds * (w["gpus"] - w["free_gpus"])
        w["clock_s"] = until_s


@helper
def arrive(world: Array, jobs: Array, waiting: Array, events: Array, b: int) -> None:
    """Let the next job enter the queue."""
    w = world[b]
    row = w["next_arrival"]
    job = jobs[b, row]
    job["status"] = WAITING
    job["job_seconds"] = w["job_seconds"]
    enqueue(world, waiting, b, row)
    w["waiting_gpus"] += job["gpus"]
    w["next_arrival"] += 1
    w["slowdown_weight"] += 1.0 / job["ideal_s"]
    write_event(world, events, b, ARRIVAL, row, -1, 0.0, 0, -1)


@helper
def complete(
    world: Array, jobs: Array, replicas: Array, nodes: Array, free: Array, holder: Array, gpu_next: Array,
    gpu_node: Array, running: Array, events: Array, links: Array, uses: Array, busy: Array, due: Array, b: int,
    replica: int,
) -> None:
    """Finish a job: its work is done to the last iteration."""
    w = world[b]
    row = replicas[b, replica]["job"]
    job = jobs[b, row]
    touch(world, jobs, replicas, b, replica)
    job["remaining"] = 0.0
    give_back(world, replicas, nodes, free, holder, gpu_next, gpu_node, running, busy, due, b, replica)
    if w["contention"] > 0:
        end_flow(world, replicas, links, uses, b, replica)
    job["status"] = FINISHED
    job["replica"] = -1
    job["finish_s"] = w["clock_s"]
    w["finished"] += 1
    in_system = w["next_arrival"] - w["finished"]
    w["slowdown_weight"] = w["slowdown_weight"] - 1.0 / job["ideal_s"] if in_system > 0 else 0.0
    jct = w["clock_s"] - job["arrival_s"]
    if jct > 0.0:  # work too short for the clock's resolution takes no time
        contenders = (w["job_seconds"] - job["job_seconds"]) / jct
        share = max(1.0, job["gpus"] * contenders / w["gpus"])
        w["fairness_sum"] += jct / (job["ideal_s"] * share)
    write_event(world, events, b, COMPLETE, row, replica, 0.0, 0, -1)


@helper
def commit_rates(
    world: Array, jobs: Array, replicas: Array, nodes: Array, holder: Array, gpu_next: Array, gpu_node: Array,
    running: Array, events: Array, interference: Array, due: Array, b: int,
) -> None:
    """Let every gang run at its settled rate from now on, and log those that change; the log must have room for all."""
    w = world[b]
    w["uncommitted"] = 0
    for i in range(w["running"]):
        number = int64(running[b, i])
        r = replicas[b, number]
        if w["sharing"] and r["company_changed"]:
            r["company_changed"] = 0
            r["slowdown"] = slowdown_by_company(
                world, jobs, replicas, nodes, holder, gpu_next, gpu_node, interference, b, number
            )
        iteration_s = whole_iterations(world, b, beside_company(replicas, b, number))
        if r["phase"] != ACTIVE or r["told_s"] == iteration_s:
            continue
        touch(world, jobs, replicas, b, number)
        r["told_s"] = iteration_s
        r["iteration_s"] = iteration_s
        since_s = max(r["since_s"], w["clock_s"])
        r["until_s"] = finish_time(world, b, since_s, jobs[b, r["job"]]["remaining"], r["iteration_s"])
        set_due(world, replicas, due, b, number)
        write_event(world, events, b, RATE, int64(r["job"]), number, r["iteration_s"], 0, int64(r["tier"]))
        events[b, w["events"] - 1]["gpu_at"] = r["bottleneck"]


@helper
def stuck(world: Array, replicas: Array, running: Array, b: int) -> bool:
    """Tell whether no job will come or finish unless the scheduler does something."""
    w = world[b]
    if w["next_arrival"] < w["jobs"]:
        return False
    for i in range(w["running"]):
        if w["slot_s"] <= 0.0 or replicas[b, running[b, i]]["until_s"] < math.inf:
            return False
    return True


@helper
def happen(
    world: Array, jobs: Array, replicas: Array, nodes: Array, racks: Array, free: Array, holder: Array,
    gpu_next: Array, gpu_node: Array, waiting: Array, running: Array, paces: Array, events: Array,
    event_gpus: Array, chosen: Array, links: Array, uses: Array, routes: Array, pairs: Array, ratios: Array,
    busy: Array, sub_batches: Array, interference: Array, due: Array, b: int,
) -> int:
    """Play the next event, or what comes before it; return GO_ON, or what stops :func:`moves.advance_by`."""
    w = world[b]
    if w["events"] == events.shape[1]:
        return LOG_FULL
    settle(world, replicas, links, uses, ratios, b)
    first = due[b, FIRST]
    replica = int64(first["number"])
    at = first["due_s"]
    phase = int64(first["kind"] if at < np.inf else NO_EVENT)
    if w["next_arrival"] < w["jobs"] and jobs[b, w["next_arrival"]]["arrival_s"] < at:
        at = jobs[b, w["next_arrival"]]["arrival_s"]
        replica = -1
        phase = ARRIVES
    if next_change_s(world, links, b) < at:
        at = next_change_s(world, links, b)
        replica = -1
        phase = CHANGES
    if w["round_s"] > 0.0:
        if w["waiting"] + w["running"] > 0 and next_round(world, b) * w["round_s"] < at:
            at = next_round(world, b) * w["round_s"]
            phase = WAKES
    elif w["timer_s"] < at:
        at = w["timer_s"]
        phase = WAKES

    if w["deciding"] and at > w["clock_s"]:
        w["deciding"] = 0
        w["timer_s"] = np.inf  # a wait ends at the next decision point
        return DECIDE
    if w["leases_over"] and at > w["clock_s"]:
        if w["events"] + 2 > events.shape[1]:
            return LOG_FULL
        row = int64(replicas[b, expired(world, replicas, running, b)]["job"])
        stop(
            world, jobs, replicas, nodes, free, holder, gpu_next, gpu_node, waiting, running, events, links, uses,
            busy, due, b, row,
        )
        if w["round_s"] == 0.0 and w["checkpoint_s"] == 0.0:
            w["deciding"] = 1
        return GO_ON
    if w["uncommitted"] and at > w["clock_s"]:
        if w["events"] + w["running"] > events.shape[1]:
            return LOG_FULL
        commit_rates(
            world, jobs, replicas, nodes, holder, gpu_next, gpu_node, running, events, interference, due, b
        )
        return GO_ON
    if at == np.inf and w["finished"] == w["jobs"]:
        return DONE
    if at == np.inf and w["time_limit_s"] == np.inf:
        return STALLED
    if at > w["time_limit_s"]:
        elapse(world, b, w["time_limit_s"])
        return TIME_LIMIT
    elapse(world, b, at)
    if phase == WAKES:
        w["deciding"] = 1
        w["timer_s"] = np.inf
        if w["round_s"] > 0.0:
            w["next_tick"] = next_round(world, b) + 1
        return GO_ON
    if phase == LEASE_ENDS:
        replicas[b, replica]["lease_s"] = np.inf
        replicas[b, replica]["lease_over"] = 1
        set_due(world, replicas, due, b, replica)
        w["leases_over"] += 1
        write_event(world, events, b, LEASE_END, int64(replicas[b, replica]["job"]), replica, 0.0, 0, -1)
    elif phase == ARRIVES:
        arrive(world, jobs, waiting, events, b)
    elif phase == CHANGES:
        change_links(
            world, jobs, replicas, nodes, racks, gpu_next, gpu_node, running, paces, chosen, links, uses, routes,
            pairs, b,
        )
    elif phase == ACTIVE:
        complete(
            world, jobs, replicas, nodes, free, holder, gpu_next, gpu_node, running, events, links, uses, busy, due, b,
            replica,
        )
    else:
        release(
            world, jobs, replicas, nodes, free, holder, gpu_next, gpu_node, waiting, running, events, busy, due, b,
            replica,
        )
    if w["round_s"] == 0.0:
        w["deciding"] = 1
    if w["finished"] == w["jobs"]:
        return DONE
    return GO_ON


@kernel
def can_place(
    world: Array, jobs: Array, replicas: Array, nodes: Array, racks: Array, free: Array, holder: Array,
    gpu_next: Array, gpu_node: Array, waiting: Array, running: Array, paces: Array, events: Array,
    event_gpus: Array, chosen: Array, links: Array, uses: Array, routes: Array, pairs: Array, ratios: Array,
    busy: Array, sub_batches: Array, interference: Array, due: Array, b: int, row: int, rule: int,
) -> bool:
    """Tell whether a waiting job could start now by a rule."""
    if row < 0 or row >= world[b]["jobs"] or jobs[b, row]["status"] != WAITING:
        return False
    gang = int64(jobs[b, row]["gpus"])
    kind = int64(jobs[b, row]["job_class"])
    if rule in SHARING and world[b]["gpu_jobs"] > 1:
        found, _ = find_shared(
            world, jobs, replicas, nodes, racks, free, holder, gpu_next, gpu_node, running, paces, chosen, links,
            busy, sub_batches, interference, b, row, SHARED_BY[rule - SHARE_FIRST_FIT],
        )
        return found > 0
    return fits(world, nodes, racks, free, holder, gpu_node, chosen, links, busy, paces, b, kind, gang, rule)


@kernel
def find_place(
    world: Array, jobs: Array, replicas: Array, nodes: Array, racks: Array, free: Array, holder: Array,
    gpu_next: Array, gpu_node: Array, waiting: Array, running: Array, paces: Array, events: Array,
    event_gpus: Array, chosen: Array, links: Array, uses: Array, routes: Array, pairs: Array, ratios: Array,
    busy: Array, sub_batches: Array, interference: Array, due: Array, b: int, row: int, rule: int,
) -> int:
    """Write the GPUs that a waiting job would get now by a rule to ``chosen``; return their number, 0 = no place."""
    if row < 0 or row >= world[b]["jobs"] or jobs[b, row]["status"] != WAITING:
        return 0
    gang = int64(jobs[b, row]["gpus"])
    kind = int64(jobs[b, row]["job_class"])
    if rule in SHARING and world[b]["gpu_jobs"] > 1:
        found, _ = find_shared(
            world, jobs, replicas, nodes, racks, free, holder, gpu_next, gpu_node, running, paces, chosen, links,
            busy, sub_batches, interference, b, row, SHARED_BY[rule - SHARE_FIRST_FIT],
        )
        return found
    return look_for(world, nodes, racks, free, holder, gpu_node, chosen, links, busy, paces, b, kind, gang, rule)


@kernel
def rule_holds(
    world: Array, jobs: Array, replicas: Array, nodes: Array, racks: Array, free: Array, holder: Array,
    gpu_next: Array, gpu_node: Array, waiting: Array, running: Array, paces: Array, events: Array,
    event_gpus: Array, chosen: Array, links: Array, uses: Array, routes: Array, pairs: Array, ratios: Array,
    busy: Array, sub_batches: Array, interference: Array, due: Array, b: int, kind: int, gang: int, rule: int,
) -> bool:
    """Tell whether a gang of a given job class and size could be placed now by a rule."""
    return fits(world, nodes, racks, free, holder, gpu_node, chosen, links, busy, paces, b, kind, gang, rule)


@kernel
def progress(
    world: Array, jobs: Array, replicas: Array, nodes: Array, racks: Array, free: Array, holder: Array,
    gpu_next: Array, gpu_node: Array, waiting: Array, running: Array, paces: Array, events: Array,
    event_gpus: Array, chosen: Array, links: Array, uses: Array, routes: Array, pairs: Array, ratios: Array,
    busy: Array, sub_batches: Array, interference: Array, due: Array, b: int, rows: Array, remaining: Array,
    service_s: Array,
) -> None:
    """Fill iterations left and productive seconds of the jobs ``rows`` as of the clock."""
    for i in range(len(rows)):
        row = rows[i]
        remaining[i] = work_left(world, jobs, replicas, b, row)
        service_s[i] = jobs[b, row]["service_s"] + productive_s(world, replicas, b, jobs[b, row]["replica"])
