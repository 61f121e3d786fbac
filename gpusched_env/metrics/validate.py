"""The validator, which checks that an event log is a schedule that the rules of its problem allow."""

from __future__ import annotations

from typing import Final

import numpy as np

from gpusched_env.errors import ScheduleError
from gpusched_env.event_log import (
    ARRIVAL,
    COMPLETE,
    EVENT_DTYPE,
    EVENT_KINDS,
    FAIL,
    LEASE_END,
    LEASE_SLACK,
    PREEMPT,
    RATE,
    REFUSE,
    RELEASE,
    RESIZE,
    RESUME,
    START,
    EventLog,
)
from gpusched_env.metrics.dependencies import check_entries
from gpusched_env.metrics.refusal import refusal, refuse
from gpusched_env.metrics.validate_failures import check_failures
from gpusched_env.metrics.validate_gangs import check_cap, check_gangs, check_nodes
from gpusched_env.metrics.validate_sharing import check_rates, check_sub_steps
from gpusched_env.metrics.validate_work import check_completeness, check_costs, check_work
from gpusched_env.problem.instance import Instance

# State machine of a job: MAY_FOLLOW has the events that may follow each event, DOING the state of the job after it.
NOTHING: Final = len(EVENT_KINDS)  # the state before the first event of a job
WHILE_RUNNING: Final = (RATE, LEASE_END, PREEMPT, RESIZE, COMPLETE, FAIL)
MAY_FOLLOW: Final = {
    NOTHING: (ARRIVAL,),
    ARRIVAL: (START, REFUSE),
    START: WHILE_RUNNING,
    RESUME: WHILE_RUNNING,
    RATE: WHILE_RUNNING,
    LEASE_END: WHILE_RUNNING,
    PREEMPT: (RELEASE, FAIL),
    RESIZE: (RESUME,),
    RELEASE: (RESUME,),
    COMPLETE: (),
    REFUSE: (),
    FAIL: (RELEASE,),
}
DOING: Final = {
    NOTHING: "has not arrived",
    ARRIVAL: "waits for its first start",
    START: "is running",
    RESUME: "is running",
    RATE: "is running",
    LEASE_END: "is running",
    PREEMPT: "is being checkpointed",
    RESIZE: "is being resized",
    RELEASE: "waits to resume",
    COMPLETE: "has finished",
    REFUSE: "was refused",
    FAIL: "has failed",
}


def validate(instance: Instance, log: EventLog, complete: bool = True) -> None:
    """Check a whole log against its problem; return None if the log is valid.

    Parameters
    ----------
    instance : the problem; its semantics (rounds, checkpoint and restore times, time limit) are checked too
    log : the log to check; nothing in it is trusted
    complete : True = the run must have ended, so every job has finished or was refused, or the time limit was
        reached; False = the log may also be of an unfinished run

    Raises
    ------
    ScheduleError : the first violation; the message gives the event number, the event and the reason

    Notes
    -----
    These are the checks, in this order:

    1. Records are well formed, and time never goes back.
    2. The events of each job come in a valid order. Held jobs enter the queue when they may.
    3. Each gang has the size that its job demands, or a size of an elastic job. It holds GPUs that no other gang holds,
       and has the tier that its event gives. If jobs share GPUs: a GPU has at most the allowed number of gangs, no
       forbidden pair and enough memory, and the rates are right. It holds only nodes of its job's partition, and none
       that is reserved for others.
       Gangs fail if a node of theirs crashes or their attempt ends, and no gang starts on a node that is down.
    4. Restores, checkpoints and resizes take the time that the semantics give.
    5. Each job does its number of iterations, and those that failures undo: all since the last checkpoint, with a
       relative tolerance of 1e-9 plus the resolution of the clock. If jobs are killed at their limits: no job runs
       longer than its limit, and killed jobs run as long as that.
    6. No arrival, completion, release or cancellation is missing.
    7. If gangs share links or GPUs, the log is what the simulator makes of its decisions, bit for bit, so no rate is
       missing, doubled, late or wrong.

    Checks 1 to 6 are vectorised; they take about a second for a million events. Check 7 makes the decisions again, one
    by one in Python.

    A lease is a decision that a log does not tell: it has only the ends of leases. So a log without one of its
    ``lease-end`` events, or with one at another time or one more, is as a rule a valid log of other leases. It is
    refused if no lease can end there: while the gang does not run, at the moment of its start, of another end of a
    lease or of its completion, or between two rounds. Likewise a gang that was preempted, or started, later may have
    been so by another decision.
    """
    check_records(instance, log)
    check_lives(instance, log)
    table = check_gangs(instance, log, complete)
    if instance.node_sets is not None:
        check_nodes(instance, instance.node_sets, log, table)
    if len(instance.capped):
        check_cap(instance, log, table)
    if instance.sharing is not None and instance.topology is None:
        check_rates(instance, log, table)
    failed_free_s = check_failures(instance, log, table)
    check_costs(instance, log, table, failed_free_s)
    check_work(instance, log, table)
    check_completeness(instance, log, table, failed_free_s, complete)
    if instance.tells_rates:
        from gpusched_env.simulator.past import first_difference  # here, because it imports the compiler

        if (at := first_difference(instance, log, complete)) is not None:
            raise refusal(log, at, "this or the next event is not what the simulator makes of the decisions in the log")


def check_records(instance: Instance, log: EventLog) -> None:
    """Refuse malformed records, and times that decrease."""
    events = log.events
    if events.dtype != EVENT_DTYPE or events.ndim != 1:
        raise ScheduleError("the events must be a one-dimensional array of EVENT_DTYPE")
    kind, time = events["kind"], events["time_s"]
    # With slots, an iteration longer than a slot never ends, so its logged time is infinite; so may be that of a
    # gang to which higher levels leave nothing of a link.
    may_stand = instance.semantics.slot_s > 0 or instance.network.contention.model == "strict-priority"
    stands_still = (kind == RATE) & (events["value"] == np.inf) & may_stand
    finite = np.isfinite(time) & (np.isfinite(events["value"]) | stands_still)
    first = None
    for bad, reason in (
        ((kind < 0) | (kind >= len(EVENT_KINDS)), "unknown kind of event"),
        ((events["job"] < 0) | (events["job"] >= len(instance.workload)), "no such job in this instance"),
        (~finite, "its time or value is not a finite number"),
        (time < 0, "its time is negative"),
        (np.diff(time, prepend=time[:1]) < 0, "time goes back"),
        (time > instance.semantics.time_limit_s, "it lies beyond the time limit"),
    ):
        if bad.any() and (first is None or int(np.argmax(bad)) < first[0]):
            first = (int(np.argmax(bad)), reason)
    if first is not None:
        raise refusal(log, *first)

    places = (kind == START) | (kind == RESUME)
    refuse(log, ~places & (events["gpu_count"] != 0), "it places no gang, so gpu_count must be 0")
    rates = kind == RATE
    refuse(log, ~places & ~rates & (events["gpu_at"] != -1), "it places no gang, so gpu_at must be -1")
    refuse(log, ~places & ~rates & (events["tier"] != -1), "it places no gang, so tier must be -1")
    if not instance.tells_rates:
        refuse(log, rates, "without a topology or sharing there are no rate events: rates follow from the placement")
    links = 0 if instance.topology is None else len(instance.links)
    refuse(log, rates & ((events["gpu_at"] < -1) | (events["gpu_at"] >= links)), "no such link")
    refuse(log, rates & (events["value"] <= 0), "an iteration must take time")
    check_sub_steps(instance, log)
    without = (kind == ARRIVAL) | (kind == REFUSE)
    refuse(log, (events["replica"] == -1) != without, "arrivals and refusals, and only they, have replica -1")
    says_left = (kind == PREEMPT) | (kind == RESIZE) | (kind == FAIL)
    if instance.semantics.kill_at_limit or instance.recovery is not None:  # a killed job leaves work
        refuse(log, (kind == COMPLETE) & (events["value"] < 0), "the work that it leaves must not be negative")
        says_left |= kind == COMPLETE
    refuse(log, (kind == FAIL) & (instance.recovery is None), "nothing fails in this instance")
    cancels = (kind == REFUSE) & (events["value"] == 1) & (instance.holds is not None)
    refuse(log, ~places & ~rates & ~says_left & ~cancels & (events["value"] != 0), "its value must be 0")
    round_s = instance.semantics.round_s
    if round_s > 0:
        decided = places | (kind == PREEMPT) | (kind == RESIZE) | (kind == LEASE_END) | (kind == REFUSE)
        decided &= ~cancels
        refuse(log, decided & (np.rint(time / round_s) * round_s != time), f"it is not on a round of {round_s} s")


def check_lives(instance: Instance, log: EventLog) -> None:
    """Refuse events that must not follow the previous event of their job, and arrivals at a wrong time."""
    events = log.events
    order = np.argsort(events["job"], kind="stable")
    job, kind, replica = (events[name][order] for name in ("job", "kind", "replica"))
    again = np.zeros(len(order), bool)
    again[1:] = job[1:] == job[:-1]
    before = np.full(len(order), NOTHING, np.int32)
    before[again] = kind[:-1][again[1:]]
    allowed = np.zeros((len(MAY_FOLLOW), len(EVENT_KINDS)), bool)
    for previous, followers in MAY_FOLLOW.items():
        allowed[previous, list(followers)] = True
    wrong = np.flatnonzero(~allowed[before, kind])
    if len(wrong):
        at = wrong[np.argmin(order[wrong])]
        raise refusal(log, int(order[at]), f"the job {DOING[int(before[at])]}")
    check_entries(instance, log)
    _check_leases(instance, log, order[kind != RATE])
    if instance.tells_rates:
        time, places = events["time_s"][order], (kind == START) | (kind == RESUME)
        silent = np.zeros(len(order), bool)
        silent[:-1] = places[:-1] & again[1:] & (kind[1:] != RATE) & (time[1:] > time[:-1])
        refuse(log, _by_event(order, silent), "no rate was logged before it ended, although gangs share links or GPUs")
    moved = np.zeros(len(order), bool)
    holding = np.isin(kind, (*WHILE_RUNNING, RELEASE))
    moved[1:] = again[1:] & holding[1:] & (replica[1:] != replica[:-1])
    refuse(log, _by_event(order, moved), "its replica is not the one that was started")


def _check_leases(instance: Instance, log: EventLog, order: np.ndarray) -> None:
    """Refuse ends of leases at moments at which no lease of the gang can end; ``order`` sorts the events by job."""
    job, kind, time = (log.events[name][order] for name in ("job", "kind", "time_s"))
    ends = np.flatnonzero(kind == LEASE_END)  # the state machine has an event of the same gang before each
    vain = np.zeros(len(log.events), bool)
    vain[order[ends]] = time[ends] <= time[ends - 1]
    refuse(log, vain, "a lease ends later than the gang's start, and than the lease before it")
    ends = ends[ends + 1 < len(order)]
    ends = ends[(job[ends + 1] == job[ends]) & (kind[ends + 1] == COMPLETE)]
    vain[order[ends]] = time[ends + 1] <= time[ends] * (1.0 + LEASE_SLACK)
    refuse(log, vain, "the gang completes when its lease ends, so the lease does not end")


def _by_event(order: np.ndarray, bad: np.ndarray) -> np.ndarray:
    """Reorder the marks ``bad`` from the order of jobs to the order of events."""
    result = np.zeros(len(order), bool)
    result[order] = bad
    return result
