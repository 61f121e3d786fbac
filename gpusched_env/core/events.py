"""Kernels of the event loop: start, preempt, lease and advance. All rates are constant between two events."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from gpusched_env.core.handle import helper, kernel
from gpusched_env.core.holding import CANCELLED, FAILED, STARTED, SUCCEEDED, hold_back, pop, tell_dependents
from gpusched_env.core.metering import computes_s, meter
from gpusched_env.core.network.changes import change_links, next_change_s
from gpusched_env.core.network.flows import begin_flow, end_flow, micro_s
from gpusched_env.core.network.settling import beside_company, finish_time, settle, whole_iterations
from gpusched_env.core.next_events import FIRST, LEASE_ENDS, set_due
from gpusched_env.core.placement.placing import reserve
from gpusched_env.core.placement.taking import FREE, UNUSABLE, rack_place, unreserve
from gpusched_env.core.refusals import (
    APPLIED,
    BAD_GANG,
    BAD_SUB_STEPS,
    IS_CHECKPOINTING,
    IS_FINISHED,
    IS_REFUSED,
    IS_RUNNING,
    JUST_STARTED,
    LEASE_IN_PAST,
    LEASE_TOO_LATE,
    NO_JOB,
    NO_PLACE,
    NOT_ARRIVED,
    NOT_RUNNING,
    TOO_FEW_GPUS,
)
from gpusched_env.core.reservations import close_nodes, is_down, mark_gpu, must_leave
from gpusched_env.core.seating import (
    choose_sub_batch,
    class_there,
    enter_partition,
    hold,
    meet_company,
    reserve_given,
    reserve_shared,
)
from gpusched_env.core.shapes import placed, placed_copies
from gpusched_env.core.sharing.seats import has_option, move_down, slowdown_by_company, tell_neighbours
from gpusched_env.core.sizes import set_size, size_row
from gpusched_env.core.state import ACTIVE, CHECKPOINTING, FINISHED, FUTURE, IDLE, REFUSED, RUNNING, WAITING, Run
from gpusched_env.core.waiting import dequeue, enqueue
from gpusched_env.event_log import ARRIVAL, COMPLETE, FAIL, LEASE_END, PREEMPT, RATE, REFUSE, RELEASE, RESUME, START
from gpusched_env.support.units import LATEST_S

# Results of :func:`advance`: what stopped it. LOG_FULL: drain the log, and call again; it also comes after MOST_QUIET
# wake-ups that wrote nothing, so that every caller regains control now and then. TOO_LATE: no event is left up to
# LATEST_S, the latest time of the clock. BAD_WAIT: not from ``advance``, but from a scheduler's compiled loop, which
# waits until a time that ``Wait`` does not allow; the timer has this time.
DECIDE, DONE, STALLED, TIME_LIMIT, LOG_FULL, TOO_LATE, BAD_WAIT = range(7)
MOST_QUIET: Final = 10_000  # wake-ups
MOST_RECORDS: Final = 3  # that an event or a decision writes to the log, changes of rates apart
GO_ON: Final = -1  # nothing stopped it

# Kinds of events that are not events of gangs. Simultaneous events are processed in ascending order of their kinds, so
# these follow the kinds of due.py.
ARRIVES: Final = LEASE_ENDS + 1
ENTERS: Final = LEASE_ENDS + 2
CHANGES: Final = LEASE_ENDS + 3
CLOSES: Final = LEASE_ENDS + 4
WAKES: Final = LEASE_ENDS + 5
NO_EVENT: Final = LEASE_ENDS + 6
IDLE_LIMIT: Final = 100_000  # consecutive decision points at which nothing makes progress and no event can come
STEP_SLACK: Final = 1e-9  # work whose relative distance from a whole number of steps is below this is rounded to it

EXPLICIT: Final = -1  # instead of the number of a placement rule: the GPUs are given in ``chosen``


@kernel
def has_room(sim: Run) -> bool:
    """Return whether the log has room for any decision: MOST_RECORDS, and all GPUs of the cluster."""
    w = sim.world
    return w["events"] + MOST_RECORDS <= sim.events.shape[0] and w["event_gpus"] + w["gpus"] <= sim.event_gpus.shape[0]


@helper
def write_event(sim: Run, kind: int, job: int, replica: int, value: float) -> None:
    """Append a record to the log buffer."""
    w = sim.world
    event = sim.events[w["events"]]
    event["time_s"] = w["clock_s"]
    event["value"] = value
    event["gpu_at"] = -1
    event["kind"] = kind
    event["job"] = job
    event["replica"] = replica
    event["gpu_count"] = 0
    event["tier"] = -1
    event["sub_steps"] = 1
    w["events"] += 1


@helper
def productive_s(sim: Run, replica: int) -> float:
    """Return the time of progress since :func:`touch` was last applied to a replica [s].

    The result is 0 during a restore or a checkpoint, and for row -1.
    """
    if replica < 0 or sim.replicas[replica]["phase"] != ACTIVE:
        return 0.0
    return max(sim.world["clock_s"] - sim.replicas[replica]["since_s"], 0.0)


@helper
def work_left(sim: Run, row: int) -> float:
    """Return the number of iterations that a job has left at the present simulated time."""
    return work_after(sim, row, productive_s(sim, sim.jobs[row]["replica"]))


@helper
def work_after(sim: Run, row: int, elapsed: float) -> float:
    """Return the iterations that a job has left after ``elapsed`` seconds of progress since its last update."""
    job = sim.jobs[row]
    if elapsed > 0.0:
        done = elapsed / sim.replicas[job["replica"]]["iteration_s"]
        step = sim.world["step_iterations"]
        if step > 0.0:  # the time at which a step ends has rounding errors, which must not leave part of a step
            whole = np.rint(done / step) * step
            if abs(done - whole) <= STEP_SLACK * whole:
                done = whole
        return max(job["remaining"] - done, 0.0)
    return job["remaining"]


@kernel
def attained_service(sim: Run, row: int) -> float:
    """Return the attained service of a job at the present time: gang size x seconds with progress [GPU s].

    For an elastic job, it is the sum over the sizes that the job has had.
    """
    job = sim.jobs[row]
    if sim.world["elastic"]:
        at_size_s = job["service_s"] - job["earlier_s"] + productive_s(sim, job["replica"])
        return job["earlier_gpu_s"] + job["gpus"] * at_size_s
    return job["gpus"] * (job["service_s"] + productive_s(sim, job["replica"]))


@helper
def seconds_left(sim: Run, row: int) -> float:
    """Return the run time that a job has left on its ideal placement [s].

    It is computed as a fraction of ``ideal_s``, so that jobs with equal run times tie.
    """
    return work_left(sim, row) / sim.jobs[row]["iterations"] * sim.jobs[row]["ideal_s"]


@kernel(lazy=True)
def save_work(sim: Run, replica: int) -> None:
    """Set the work that the last periodic checkpoint of an active gang has saved; its rate is constant since then."""
    row = sim.replicas[replica]["job"]
    c = sim.recovery[row]
    if c["segment_s"] == np.inf:
        return
    now_s = sim.world["clock_s"]
    segments = math.floor((now_s - c["begin_s"]) / c["segment_s"]) - 1
    for _ in range(2):  # the quotient is rounded
        if c["begin_s"] + (segments + 1) * c["segment_s"] <= now_s:
            segments += 1
    elapsed = c["begin_s"] + segments * c["segment_s"] - sim.replicas[replica]["since_s"]
    if elapsed > 0.0:
        c["saved"] = work_after(sim, row, elapsed)


@helper
def touch(sim: Run, replica: int) -> None:
    """Set the remaining work and the service of a replica's job to their values at the present simulated time."""
    row = sim.replicas[replica]["job"]
    elapsed = productive_s(sim, replica)
    if elapsed > 0.0:
        if sim.world["recovers"]:
            save_work(sim, replica)
        sim.jobs[row]["remaining"] = work_left(sim, row)
        sim.jobs[row]["service_s"] += elapsed
        sim.replicas[replica]["service_s"] = sim.jobs[row]["service_s"]
        sim.replicas[replica]["since_s"] = sim.world["clock_s"]


@helper
def clear_lease(sim: Run, number: int) -> None:
    """Remove the lease of a gang; the gang then holds its GPUs without a time limit."""
    sim.world["leases_over"] -= sim.replicas[number]["lease_over"]
    sim.replicas[number]["lease_over"] = 0
    sim.replicas[number]["lease_s"] = np.inf


@helper
def give_back(sim: Run, replica: int) -> None:
    """Free the seats and the row of a replica, and those of its GPUs that no other gang holds."""
    w = sim.world
    recovers = w["recovers"] > 0
    seat = sim.replicas[replica]["first_gpu"]
    while seat >= 0:
        following = sim.gpu_next[seat]
        sim.holder[seat] = FREE
        gpu = seat
        if w["gpu_jobs"] > 1:
            gpu = seat % w["gpus"]
            move_down(sim, seat)
            if not w["pace_until_lease"]:
                tell_neighbours(sim, gpu)
        if sim.holder[gpu] == FREE:
            node = sim.gpu_node[gpu]
            sim.busy[gpu]["busy_s"] += w["clock_s"] - sim.busy[gpu]["since_s"]
            sim.busy[gpu]["since_s"] = np.inf
            sim.free[node] += 1
            sim.free[rack_place(sim, node)] += 1
            w["free_gpus"] += 1
        if recovers and is_down(sim, gpu):
            mark_gpu(sim, gpu, FREE, UNUSABLE, -1)
        seat = following
    w["returns"] += 1
    clear_lease(sim, replica)
    if sim.replicas[replica]["phase"] == CHECKPOINTING:
        w["checkpointing_gpus"] -= sim.replicas[replica]["gpus"]
    sim.replicas[replica]["phase"] = IDLE
    set_due(sim, replica)
    at = 0
    last = w["running"] - 1
    beyond = last
    while at < beyond:  # binary search: the list is sorted by the times of the starts
        middle = (at + beyond) // 2
        if sim.replicas[sim.running[middle]]["sequence"] < sim.replicas[replica]["sequence"]:
            at = middle + 1
        else:
            beyond = middle
    for i in range(at, last):
        sim.running[i] = sim.running[i + 1]
    sim.running[last] = replica  # idle rows are stored after the running ones
    w["running"] = last


@kernel(lazy=True)
def requeue(sim: Run, replica: int) -> None:
    """Free the GPUs of a replica, and return its job to the waiting list, at the size that the job requests."""
    w = sim.world
    row = sim.replicas[replica]["job"]
    give_back(sim, replica)
    job = sim.jobs[row]
    if w["elastic"]:
        set_size(sim, row, size_row(sim, row, job["asked"]))
    if w["choices"] > 0:
        enter_partition(sim, row, sim.choices[sim.first_choice[row]]["job_class"])
    job["status"] = WAITING
    job["replica"] = -1
    job["last_stop_s"] = w["clock_s"]
    if w["restart_all_s"] >= 0.0:
        sim.ready[row] = sim.replicas[replica]["since_s"]
    enqueue(sim, row)
    w["waiting_gpus"] += job["gpus"]


@kernel(lazy=True)
def release(sim: Run, replica: int) -> None:
    """End a checkpoint: free the GPUs of the replica, and return its job to the waiting list."""
    row = sim.replicas[replica]["job"]
    requeue(sim, replica)
    write_event(sim, RELEASE, row, replica, 0.0)


@helper
def set_end(sim: Run, number: int, since_s: float) -> None:
    """Compute when an active gang ends: when its work is done, or when it is killed at the time limit of its job.

    ``since_s`` is the time up to which its progress has been counted, or from which it counts [s].
    """
    r = sim.replicas[number]
    job = sim.jobs[r["job"]]
    r["until_s"] = finish_time(sim, since_s, job["remaining"], r["iteration_s"])
    if job["limit_s"] < np.inf:
        r["until_s"] = min(r["until_s"], since_s + max(job["limit_s"] - job["service_s"], 0.0))
    if sim.world["recovers"]:
        r["until_s"] = min(r["until_s"], since_s + max(sim.recovery[r["job"]]["fails_s"] - job["service_s"], 0.0))


@kernel(lazy=True)
def fails_now(sim: Run, replica: int) -> bool:
    """Return whether an active gang that ends now fails by itself: its work is not done, nor its limit reached."""
    r = sim.replicas[replica]
    job = sim.jobs[r["job"]]
    left_s = max(sim.recovery[r["job"]]["fails_s"] - job["service_s"], 0.0)
    early = finish_time(sim, r["since_s"], job["remaining"], r["iteration_s"]) > r["until_s"]
    return r["since_s"] + left_s <= r["until_s"] and early and left_s < max(job["limit_s"] - job["service_s"], 0.0)


@kernel(lazy=True)
def work_at_limit(sim: Run, replica: int) -> float:
    """Return the iterations that a gang has left if it is killed at its limit now; 0 = its work is done."""
    r = sim.replicas[replica]
    job = sim.jobs[r["job"]]
    done_s = finish_time(sim, r["since_s"], job["remaining"], r["iteration_s"])
    return work_left(sim, r["job"]) if done_s > r["until_s"] else 0.0


@kernel(lazy=True)
def delay_progress(sim: Run, number: int, since_s: float) -> None:
    """Let the progress of a gang that has started just now begin at ``since_s``; its start is the latest event."""
    r = sim.replicas[number]
    r["since_s"] = since_s
    if sim.world["recovers"]:
        sim.recovery[r["job"]]["begin_s"] = since_s
    set_end(sim, number, since_s)
    set_due(sim, number)
    sim.events[sim.world["events"] - 1]["value"] = since_s


@kernel(lazy=True)
def split_batch(sim: Run, number: int, pace: int, slowest: int) -> float:
    """Set what the sub-steps of a gang cost, and return the time of the one that ends with communication [s]."""
    r = sim.replicas[number]
    size = sim.sub_batches[r["job_class"], r["sub_batch"], slowest]
    times = sim.paces[r["job_class"], pace, slowest]
    r["compute_share"] = size["compute_share"]
    r["accumulation_s"] = (size["sub_steps"] - 1) * (r["compute_share"] * times["compute_s"])
    return micro_s(times, r["compute_share"])


@helper
def with_checkpoints(sim: Run, row: int, iteration_s: float) -> float:
    """Return the time of an iteration of a job with its share of the periodic checkpoints [s]."""
    return iteration_s * sim.recovery[row]["stretch"] if sim.world["recovers"] else iteration_s


@kernel(lazy=True)
def recover(sim: Run, row: int, since_s: float) -> None:
    """Let the checkpoints of a job whose gang starts count from ``since_s``; it has lost nothing yet."""
    c = sim.recovery[row]
    c["begin_s"] = since_s
    c["saved"] = sim.jobs[row]["remaining"]
    c["failed"] = 0


@helper
def set_rate(sim: Run, number: int, pace: int, slowest: int, iteration_s: float) -> None:
    """Compute the time of one iteration of a gang that starts.

    Parameters
    ----------
    number : row of its replica, whose ``chosen`` GPUs it holds
    pace, slowest : indices into ``paces``, as :func:`placed` returns them
    iteration_s : time of one iteration of the whole batch, alone on the cluster [s]
    """
    w = sim.world
    r = sim.replicas[number]
    r["compute_share"] = 1.0
    r["accumulation_s"] = 0.0
    r["slowdown"] = 1.0
    if sim.sub_batches[r["job_class"], r["sub_batch"], slowest]["sub_steps"] > 1:
        iteration_s = split_batch(sim, number, pace, slowest)
    r["iteration_s"] = iteration_s
    if w["contention"] > 0:
        begin_flow(sim, number, slowest)
    else:
        r["settled_s"] = iteration_s
        if w["meters"] > 0:
            r["compute_s"] = computes_s(sim, number, pace)
    r["solo_s"] = r["iteration_s"] + r["accumulation_s"]
    r["iteration_s"] = whole_iterations(sim, with_checkpoints(sim, r["job"], r["solo_s"]))
    if w["sharing"]:
        meet_company(sim, number)


@helper
def start_refusal(sim: Run, row: int) -> int:
    """Return the index into REFUSALS of the reason why a job does not wait; APPLIED = it waits."""
    if row < 0 or row >= sim.world["jobs"]:
        return NO_JOB
    status = sim.jobs[row]["status"]
    if status == WAITING:
        return APPLIED
    if status == FUTURE:
        return NOT_ARRIVED
    if status == REFUSED:
        return IS_REFUSED
    return IS_RUNNING if status == RUNNING else IS_FINISHED


@helper
def reserve_explicit(sim: Run, row: int, explicit: int, shares: bool) -> tuple[int, int, int]:
    """Reserve the GPUs ``chosen[:explicit]`` for a job; return a refusal, the job's class there, and their number."""
    w = sim.world
    gang = sim.jobs[row]["gpus"]
    kind = sim.jobs[row]["job_class"]
    if explicit % gang != 0 or explicit < gang or explicit > gang * w["max_copies"]:
        return BAD_GANG, kind, 0
    if explicit > w["free_gpus"] and not shares:
        return TOO_FEW_GPUS, kind, 0
    if w["choices"] > 0:
        kind = class_there(sim, row, explicit)
    return reserve_given(sim, kind, gang, explicit, shares), kind, explicit


@helper
def reserve_by_rule(sim: Run, row: int, rule: int, sub_steps: int) -> tuple[int, int]:
    """Reserve the GPUs that a placement rule finds; return their number (0 = none) and the job's sub-steps there."""
    w = sim.world
    job = sim.jobs[row]
    gang = job["gpus"]
    if w["gpu_jobs"] > 1 and sim.rules[rule]["shares"] > 0:
        taken, chosen_steps = reserve_shared(sim, row, sim.rules[rule]["shares"])
        return taken, chosen_steps if sub_steps == 0 else sub_steps
    taken = reserve(sim, 0, job["job_class"], gang, rule, w["free_gpus"])
    if taken > gang and job["sizes"] > 1:  # a job of several sizes runs in one copy
        unreserve(sim, gang, taken)
        taken = gang
    return taken, sub_steps


@helper
def reshard_s(sim: Run, row: int, kind: int) -> float:
    """Return how much longer a job does not progress if it runs as class ``kind`` next, with another plan [s]."""
    job = sim.jobs[row]
    differs = sim.world["reshard_s"] > 0.0 and sim.divisions[kind] != sim.division[row]
    return sim.world["reshard_s"] if differs and job["first_start_s"] != np.inf else 0.0


@helper
def begin_gang(sim: Run, row: int, kind: int, taken: int, option: int) -> int:
    """Let a job run on the reserved GPUs ``chosen[:taken]``; return the row of its replica.

    Parameters
    ----------
    kind : its class there
    option : index of its sub-batch
    """
    w = sim.world
    job = sim.jobs[row]
    gang = job["gpus"]
    number = sim.running[w["running"]]
    tier, pace, slowest = placed(sim, kind, 0, gang)
    iteration_s = sim.paces[kind, pace, slowest]["iteration_s"]
    compute_s = 0.0
    if taken > gang:
        tier, iteration_s, compute_s = placed_copies(sim, kind, gang, taken)
    hold(sim, number, taken)
    r = sim.replicas[number]
    r["job"] = row
    r["phase"] = ACTIVE
    r["gpus"] = taken
    r["gang"] = gang
    r["job_class"] = kind
    r["service_s"] = job["service_s"]
    r["tier"] = tier
    r["sub_batch"] = option
    r["lease_s"] = np.inf
    r["lease_over"] = 0
    r["start_s"] = w["clock_s"]
    again = False
    if job["first_start_s"] == np.inf:
        r["since_s"] = w["clock_s"] + w["start_s"]
        if w["latencies"]:
            r["since_s"] += sim.latencies[row]
    elif w["recovers"] and sim.recovery[row]["failed"]:
        r["since_s"] = w["clock_s"] + w["recovery_s"]
    else:
        again = w["restart_all_s"] >= 0.0 and job["last_stop_s"] == w["clock_s"]
        r["since_s"] = w["clock_s"] + (w["restart_all_s"] if again else w["restore_s"])
    if taken > gang:
        r["since_s"] += w["merge_s"]
    if w["reshard_s"] > 0.0:
        r["since_s"] += reshard_s(sim, row, kind)
        sim.division[row] = sim.divisions[kind]
    if again:
        r["since_s"] = max(r["since_s"], sim.ready[row])
    if w["recovers"]:
        recover(sim, row, r["since_s"])
    set_rate(sim, number, pace, slowest, iteration_s)
    if taken > gang:
        r["compute_s"] = compute_s
    set_end(sim, number, r["since_s"])
    r["sequence"] = w["starts"]
    w["starts"] += 1
    set_due(sim, number)
    return number


@helper
def write_start(sim: Run, number: int) -> None:
    """Append the start or the resumption of a gang, and its GPUs, to the log buffers."""
    w = sim.world
    r = sim.replicas[number]
    resumed = sim.jobs[r["job"]]["first_start_s"] != np.inf
    write_event(sim, RESUME if resumed else START, r["job"], number, r["since_s"])
    event = sim.events[w["events"] - 1]
    event["gpu_at"] = w["gpus_before"] + w["event_gpus"]
    event["gpu_count"] = r["gpus"]
    event["tier"] = r["tier"]
    event["sub_steps"] = sim.sub_batches[r["job_class"], r["sub_batch"], 0]["sub_steps"]
    w["event_gpus"] += r["gpus"]


@helper
def leave_queue(sim: Run, row: int, number: int) -> None:
    """Let a job whose gang has begun leave the waiting list; it is the job of replica ``number`` now."""
    w = sim.world
    job = sim.jobs[row]
    w["running"] += 1
    job["status"] = RUNNING
    job["replica"] = number
    if job["first_start_s"] == np.inf:
        job["first_start_s"] = w["clock_s"]
        if w["holds"]:
            tell_dependents(sim, row, STARTED)
    dequeue(sim, row)
    w["waiting_gpus"] -= job["gpus"]


@kernel
def start(sim: Run, row: int, rule: int, explicit: int, share: bool, sub_steps: int) -> int:
    """Start or resume a waiting job by a placement rule, or on the first ``explicit`` GPUs in ``chosen``.

    The log must have room (:func:`has_room`).

    Explicit GPUs may be those of several copies of the gang, listed copy by copy. The copies divide the iterations in
    proportion to their speeds, so their rates add up. They lie in one of the job's partitions; a placement rule knows
    only the first one.

    Parameters
    ----------
    row : row of the job
    rule : number of the placement rule, or EXPLICIT
    explicit : number of GPUs in ``chosen`` if ``rule`` is EXPLICIT
    share : whether other gangs may hold some of the explicit GPUs
    sub_steps : number of gradient-accumulation sub-steps. 0 = the number that the rule chooses; if the rule chooses
        none, the smallest number for which the memory suffices

    Returns
    -------
    index into REFUSALS; APPLIED = the job was started
    """
    w = sim.world
    refusal = start_refusal(sim, row)
    if refusal != APPLIED:
        return refusal
    job = sim.jobs[row]
    gang = job["gpus"]
    kind = job["job_class"]
    shares = w["gpu_jobs"] > 1 and (share if rule == EXPLICIT else sim.rules[rule]["shares"] > 0)
    if gang > w["free_gpus"] and not shares:
        return TOO_FEW_GPUS
    if not has_option(sim, kind, sub_steps):
        return BAD_SUB_STEPS
    if rule == EXPLICIT:
        refusal, kind, taken = reserve_explicit(sim, row, explicit, shares)
    else:
        taken, sub_steps = reserve_by_rule(sim, row, rule, sub_steps)
        refusal = APPLIED if taken > 0 else NO_PLACE
    option = 0
    if refusal == APPLIED and w["sharing"]:
        refusal, option = choose_sub_batch(sim, kind, taken, sub_steps)
    if refusal != APPLIED:
        return refusal
    if kind != job["job_class"]:
        enter_partition(sim, row, kind)
    number = begin_gang(sim, row, kind, taken, option)
    write_start(sim, number)
    leave_queue(sim, row, number)
    return APPLIED


@kernel
def preempt_refusal(sim: Run, row: int) -> int:
    """Return the index into REFUSALS of the reason why a job cannot be preempted now; APPLIED = it can be preempted."""
    if row < 0 or row >= sim.world["jobs"]:
        return NO_JOB
    if sim.jobs[row]["status"] != RUNNING:
        return IS_FINISHED if sim.jobs[row]["status"] == FINISHED else NOT_RUNNING
    r = sim.replicas[sim.jobs[row]["replica"]]
    if r["phase"] == CHECKPOINTING:
        return IS_CHECKPOINTING
    # Otherwise an agent could start and preempt a gang forever, and simulated time would not advance.
    return JUST_STARTED if r["start_s"] == sim.world["clock_s"] else APPLIED


@kernel
def preempt(sim: Run, row: int) -> int:
    """Checkpoint a running job, whose GPUs are free after ``checkpoint_s``; the log must have room (:func:`has_room`).

    Returns an index into REFUSALS; APPLIED = the checkpoint has begun.
    """
    refusal = preempt_refusal(sim, row)
    if refusal != APPLIED:
        return refusal
    stop(sim, row)
    return APPLIED


@kernel
def round_from(time_s: float, round_s: float) -> int:
    """Return the number of the first round that begins at a time or later.

    The quotient is rounded by far less than a round, as times are at most LATEST_S and rounds at least
    SHORTEST_ROUND_S.
    """
    number = int(np.floor(time_s / round_s)) - 1
    for _ in range(3):
        if number * round_s < time_s:
            number += 1
    return number


@kernel(lazy=True)
def lease(sim: Run, row: int, until_s: float) -> int:
    """Grant a running gang a lease until ``until_s`` [s]; inf = no lease. Returns an index into REFUSALS.

    If the scenario has rounds, the lease ends at the first round at or after ``until_s``.
    """
    refusal = preempt_refusal(sim, row)
    if refusal != APPLIED and refusal != JUST_STARTED:
        return refusal
    if not until_s > sim.world["clock_s"]:
        return LEASE_IN_PAST
    if until_s < np.inf:
        if until_s > LATEST_S:
            return LEASE_TOO_LATE
        round_s = sim.world["round_s"]
        if round_s > 0.0:
            until_s = round_from(until_s, round_s) * round_s
    number = sim.jobs[row]["replica"]
    clear_lease(sim, number)
    sim.replicas[number]["lease_s"] = until_s
    set_due(sim, number)
    if sim.world["pace_until_lease"] and sim.world["gpu_jobs"] > 1:
        sim.replicas[number]["company_changed"] = 1
        sim.world["uncommitted"] = 1
    return APPLIED


@kernel
def stop(sim: Run, row: int) -> None:
    """Preempt a job for which ``preempt_refusal`` returns APPLIED; the log must have room for two records."""
    w = sim.world
    number = sim.jobs[row]["replica"]
    clear_lease(sim, number)
    touch(sim, number)
    sim.jobs[row]["preemptions"] += 1
    w["preemptions"] += 1
    write_event(sim, PREEMPT, row, number, sim.jobs[row]["remaining"])
    if w["contention"] > 0:
        end_flow(sim, number)
    if w["checkpoint_s"] > 0.0:
        sim.replicas[number]["phase"] = CHECKPOINTING
        w["checkpointing_gpus"] += sim.replicas[number]["gpus"]
        sim.replicas[number]["until_s"] = w["clock_s"] + w["checkpoint_s"]
        set_due(sim, number)
    else:
        release(sim, number)


@kernel(lazy=True)
def crash(sim: Run, row: int, detection_s: float) -> None:
    """Let a gang fail: its work is that of its last checkpoint, and its GPUs are free after ``detection_s`` [s].

    The checkpoint of a preemption that is not over is lost. The log must have room for two records.
    """
    w = sim.world
    number = sim.jobs[row]["replica"]
    r = sim.replicas[number]
    clear_lease(sim, number)
    touch(sim, number)
    sim.jobs[row]["remaining"] = sim.recovery[row]["saved"]
    sim.recovery[row]["failed"] = 1
    w["fails"] += 1
    write_event(sim, FAIL, row, number, sim.jobs[row]["remaining"])
    if r["phase"] == ACTIVE:
        sim.jobs[row]["preemptions"] += 1
        w["preemptions"] += 1
        if w["contention"] > 0:
            end_flow(sim, number)
        if detection_s > 0.0:
            r["phase"] = CHECKPOINTING
            w["checkpointing_gpus"] += r["gpus"]
    if detection_s > 0.0:
        r["until_s"] = w["clock_s"] + detection_s
        set_due(sim, number)
    else:
        release(sim, number)


@kernel(lazy=True)
def end_attempt(sim: Run, replica: int) -> bool:
    """Let the attempt of a job end if it fails by itself now; return False if the job itself ends."""
    row = sim.replicas[replica]["job"]
    c = sim.recovery[row]
    if not fails_now(sim, replica) or c["attempts_left"] == 1:
        return False
    c["attempts_left"] -= c["attempts_left"] > 0
    touch(sim, replica)
    c["fails_s"] = np.inf
    if c["next_failure"] < c["end_of_failures"]:
        c["fails_s"] = sim.jobs[row]["service_s"] + sim.failures[c["next_failure"]]
        c["next_failure"] += 1
    crash(sim, row, 0.0)
    return True


@helper
def stays(sim: Run, number: int) -> bool:
    """Return whether a gang does not restart with all others: it is on a drained node, or has failed."""
    return sim.replicas[number]["phase"] != ACTIVE or (sim.world["node_sets"] > 0 and must_leave(sim, number, True))


@kernel(lazy=True)
def restart_next(sim: Run) -> int:
    """Stop the gang that started first, and start it again on its GPUs; return GO_ON, or LOG_FULL.

    All gangs restart after a decision point if something has happened since they did so last, but those on drained
    nodes run on. Each call restarts one, which is then the last that has started, until the first one has started now.
    """
    w = sim.world
    if not has_room(sim):
        return LOG_FULL
    at = 0
    while at < w["running"] and stays(sim, sim.running[at]):
        at += 1
    r = sim.replicas[sim.running[at]]
    happened = w["entered"] + w["finished"] + w["starts"] + w["preemptions"]
    over = at == w["running"] or r["start_s"] == w["clock_s"]
    if over or (w["restarting"] == 1 and happened == w["calm"]):
        w["restarting"] = 0
        w["calm"] = happened
        return GO_ON
    w["restarting"] = 2
    row = r["job"]
    gang = r["gang"]
    lease_s = r["lease_s"]
    count = 0
    seat = r["first_gpu"]
    while seat >= 0:
        sim.chosen[count] = seat
        count += 1
        seat = sim.gpu_next[seat]
    stop(sim, row)
    if w["elastic"]:
        set_size(sim, row, size_row(sim, row, gang))
    if start(sim, row, EXPLICIT, count, False, 0) == APPLIED:
        sim.replicas[sim.jobs[row]["replica"]]["lease_s"] = lease_s
        set_due(sim, sim.jobs[row]["replica"])
    return GO_ON


@kernel
def expired(sim: Run) -> int:
    """Find the gang with the earliest start among those whose lease has ended and has not been renewed."""
    at = 0
    while sim.replicas[sim.running[at]]["lease_over"] == 0:
        at += 1
    return sim.running[at]


@kernel
def next_round(sim: Run) -> int:
    """Return the number of the first round that has not been processed and is not in the past."""
    return max(sim.world["next_tick"], round_from(sim.world["clock_s"], sim.world["round_s"]))


@helper
def elapse(sim: Run, until_s: float) -> None:
    """Set the clock to ``until_s``, and update the integrals over time."""
    w = sim.world
    seconds = until_s - w["clock_s"]
    if seconds > 0.0:
        if w["meters"] > 0 and w["entered"] > 0:
            meter(sim, until_s)
        w["job_seconds"] += seconds * (w["entered"] - w["finished"])
        w["slowdown_seconds"] += seconds * w["slowdown_weight"]
        w["busy_gpu_seconds"] += seconds * (w["gpus"] - w["free_gpus"] - w["down_gpus"])
        w["clock_s"] = until_s


@helper
def enter(sim: Run, row: int) -> None:
    """Put a job into the waiting list: it arrives."""
    w = sim.world
    job = sim.jobs[row]
    job["status"] = WAITING
    job["job_seconds"] = w["job_seconds"]
    enqueue(sim, row)
    w["waiting_gpus"] += job["gpus"]
    w["entered"] += 1
    w["slowdown_weight"] += 1.0 / job["ideal_s"]
    write_event(sim, ARRIVAL, row, -1, 0.0)


@helper
def arrive(sim: Run) -> None:
    """Process the submission of the next job: it arrives, unless it is held."""
    w = sim.world
    row = w["next_arrival"]
    w["next_arrival"] += 1
    if w["holds"]:
        if hold_back(sim, row):
            return
        sim.entries[w["entered"]] = row
    enter(sim, row)


@kernel(lazy=True)
def let_in(sim: Run) -> None:
    """Let the next held job enter the queue; if a dependency of it can never be satisfied, it leaves at once."""
    w = sim.world
    row = pop(sim)
    sim.jobs[row]["arrival_s"] = w["clock_s"]
    sim.jobs[row]["last_stop_s"] = w["clock_s"]
    sim.entries[w["entered"]] = row
    enter(sim, row)
    if sim.holds[row]["cancelled"]:
        withdraw(sim, row, 1.0)


@kernel(lazy=True)
def withdraw(sim: Run, row: int, value: float) -> None:
    """Let a waiting job that has never run leave the system; ``value`` is that of the ``refuse`` event."""
    w = sim.world
    dequeue(sim, row)
    w["waiting_gpus"] -= sim.jobs[row]["gpus"]
    sim.jobs[row]["status"] = REFUSED
    w["finished"] += 1
    in_system = w["entered"] - w["finished"]
    w["slowdown_weight"] = w["slowdown_weight"] - 1.0 / sim.jobs[row]["ideal_s"] if in_system > 0 else 0.0
    write_event(sim, REFUSE, row, -1, value)
    if w["holds"]:
        tell_dependents(sim, row, CANCELLED)


@helper
def complete(sim: Run, replica: int) -> None:
    """Process the completion of a replica's job; its work left is exactly 0 unless it is killed or gives up."""
    w = sim.world
    row = sim.replicas[replica]["job"]
    job = sim.jobs[row]
    left = work_at_limit(sim, replica) if job["limit_s"] < np.inf else 0.0
    if w["recovers"] and fails_now(sim, replica):
        left = work_left(sim, row)  # it gives up
    touch(sim, replica)
    job["remaining"] = left
    give_back(sim, replica)
    if w["contention"] > 0:
        end_flow(sim, replica)
    job["status"] = FINISHED
    job["replica"] = -1
    job["finish_s"] = w["clock_s"]
    w["finished"] += 1
    in_system = w["entered"] - w["finished"]
    w["slowdown_weight"] = w["slowdown_weight"] - 1.0 / job["ideal_s"] if in_system > 0 else 0.0
    jct = w["clock_s"] - job["arrival_s"]
    if jct > 0.0:  # the JCT is 0 if the job is shorter than the floating-point resolution of the clock
        contenders = (w["job_seconds"] - job["job_seconds"]) / jct
        share = max(1.0, job["asked"] * contenders / w["gpus"])
        w["fairness_sum"] += jct / (min(job["ideal_s"], job["limit_s"]) * share)
    write_event(sim, COMPLETE, row, replica, left)
    if w["holds"]:
        tell_dependents(sim, row, FAILED if left > 0.0 or sim.holds[row]["fails"] else SUCCEEDED)


@kernel(lazy=True)
def commit_rates(sim: Run) -> None:
    """Let every gang run at its settled rate, and log each change; the log must have room for one record per gang."""
    w = sim.world
    w["uncommitted"] = 0
    for i in range(w["running"]):
        number = sim.running[i]
        r = sim.replicas[number]
        if w["sharing"] and r["company_changed"]:
            r["company_changed"] = 0
            r["slowdown"] = slowdown_by_company(sim, number)
        iteration_s = whole_iterations(sim, with_checkpoints(sim, r["job"], beside_company(sim, number)))
        if r["phase"] != ACTIVE or r["told_s"] == iteration_s:
            continue
        touch(sim, number)
        r["told_s"] = iteration_s
        r["iteration_s"] = iteration_s
        since_s = max(r["since_s"], w["clock_s"])
        set_end(sim, number, since_s)
        set_due(sim, number)
        write_event(sim, RATE, r["job"], number, r["iteration_s"])
        sim.events[w["events"] - 1]["tier"] = r["tier"]
        sim.events[w["events"] - 1]["gpu_at"] = r["bottleneck"]


@kernel
def stuck(sim: Run) -> bool:
    """Return whether no job will arrive or finish unless the scheduler makes a decision."""
    w = sim.world
    if w["next_arrival"] < w["jobs"] or min(w["closing_s"], w["eligible_s"]) < np.inf:
        return False
    for i in range(w["running"]):
        if w["slot_s"] <= 0.0 or sim.replicas[sim.running[i]]["until_s"] < math.inf:
            return False
    return True


@helper
def process(sim: Run, phase: int, replica: int) -> int:
    """Change the state as the event that is due demands; return GO_ON, DONE, or LOG_FULL after MOST_QUIET wake-ups."""
    w = sim.world
    if phase == WAKES:
        w["deciding"] = 1
        w["timer_s"] = np.inf
        if w["round_s"] > 0.0:
            w["next_tick"] = next_round(sim) + 1
        w["quiet"] += 1
        if w["quiet"] < MOST_QUIET:
            return GO_ON
        w["quiet"] = 0
        return LOG_FULL
    if phase == LEASE_ENDS:
        sim.replicas[replica]["lease_s"] = np.inf
        sim.replicas[replica]["lease_over"] = 1
        set_due(sim, replica)
        w["leases_over"] += 1
        write_event(sim, LEASE_END, sim.replicas[replica]["job"], replica, 0.0)
    elif phase == ARRIVES:
        arrive(sim)
    elif phase == ENTERS:
        let_in(sim)
    elif phase == CHANGES:
        change_links(sim)
    elif phase == CLOSES:
        row, crashes = close_nodes(sim)
        if row >= 0 and crashes:
            crash(sim, row, w["detection_s"])
        elif row >= 0:
            stop(sim, row)
    elif phase == ACTIVE:
        if not w["recovers"] or not end_attempt(sim, replica):
            complete(sim, replica)
    else:
        release(sim, replica)
    if w["round_s"] == 0.0:
        w["deciding"] = 1
    if w["finished"] == w["jobs"]:
        return DONE
    return GO_ON


@helper
def next_event(sim: Run) -> tuple[float, int, int]:
    """Return time [s], kind (NO_EVENT = there is none) and replica (-1 = of no gang) of the next event."""
    w = sim.world
    first = sim.due[FIRST]
    replica = first["number"]
    at = first["due_s"]
    phase = first["kind"] if at < np.inf else NO_EVENT
    if w["next_arrival"] < w["jobs"] and sim.jobs[w["next_arrival"]]["arrival_s"] < at:
        at = sim.jobs[w["next_arrival"]]["arrival_s"]
        replica = -1
        phase = ARRIVES
    if w["eligible_s"] < at:
        at = w["eligible_s"]
        replica = -1
        phase = ENTERS
    if next_change_s(sim) < at:
        at = next_change_s(sim)
        replica = -1
        phase = CHANGES
    if w["closing_s"] < at:
        at = w["closing_s"]
        replica = -1
        phase = CLOSES
    if w["round_s"] > 0.0:
        if w["waiting"] + w["running"] > 0 and next_round(sim) * w["round_s"] < at:
            at = next_round(sim) * w["round_s"]
            replica = -1
            phase = WAKES
    elif w["timer_s"] < at:
        at = w["timer_s"]
        replica = -1
        phase = WAKES
    return at, phase, replica


@helper
def happen(sim: Run) -> int:
    """Process the next event, or one step that must precede it; return GO_ON, or what stops :func:`advance`.

    Before time moves, these steps follow each other: a decision point, the preemption of gangs whose leases have ended,
    and the switch to new rates.
    """
    w = sim.world
    if w["events"] + MOST_RECORDS > sim.events.shape[0]:
        return LOG_FULL
    settle(sim)
    at, phase, replica = next_event(sim)
    if w["deciding"] and at > w["clock_s"]:
        w["deciding"] = 0
        w["timer_s"] = np.inf  # every decision point ends the scheduler's wait
        w["restarting"] = w["restart_all_s"] >= 0.0
        return DECIDE
    if w["leases_over"] and at > w["clock_s"]:
        row = sim.replicas[expired(sim)]["job"]
        stop(sim, row)
        if w["round_s"] == 0.0 and w["checkpoint_s"] == 0.0:
            w["deciding"] = 1
        return GO_ON
    if w["restarting"] and at > w["clock_s"]:
        return restart_next(sim)
    if w["uncommitted"] and at > w["clock_s"]:
        if w["events"] + w["running"] > sim.events.shape[0]:
            return LOG_FULL
        commit_rates(sim)
        return GO_ON
    if at == np.inf and w["finished"] == w["jobs"]:
        return DONE
    if at == np.inf and w["time_limit_s"] == np.inf:
        return STALLED
    if at > min(w["time_limit_s"], LATEST_S):
        if w["time_limit_s"] > LATEST_S:
            return TOO_LATE
        elapse(sim, w["time_limit_s"])
        return TIME_LIMIT
    elapse(sim, at)
    return process(sim, phase, replica)


@kernel
def advance(sim: Run) -> int:
    """Process events up to the next decision point; return DECIDE, or another reason to stop.

    At a decision point the log has room for MOST_RECORDS. There is one decision point after all simultaneous events.
    Simultaneous events are processed in this order: completions, releases, ends of leases and arrivals, each by
    ascending job row; then held jobs that enter the queue, by ascending job row; then changes of links; then outages
    and reservations, ends first; then timers and rounds. Gangs on a node that crashes fail by ascending job row.

    A gang whose lease has ended is preempted if the scheduler has neither renewed the lease nor preempted the gang.
    """
    outcome = GO_ON
    while outcome == GO_ON:
        outcome = happen(sim)
    return outcome
