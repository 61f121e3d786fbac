"""Part three of the validator: overheads take the right time, work is conserved, and no event is missing."""

from __future__ import annotations

from typing import Final

import numpy as np

from gpusched_env.errors import ScheduleError
from gpusched_env.event_log import COMPLETE, FAIL, PREEMPT, REFUSE, RESIZE, RESUME, EventLog
from gpusched_env.metrics.dependencies import check_no_entry_missing
from gpusched_env.metrics.refusal import refusal
from gpusched_env.metrics.segments import fail_events, productive_s
from gpusched_env.metrics.validate_failures import saved_work
from gpusched_env.metrics.validate_gangs import chosen_pairs
from gpusched_env.problem.instance import Instance

RELATIVE: Final = 1e-9  # tolerance, as a share of a job's iterations
TICKS: Final = 4.0  # tolerance of a time, in units of the distance between neighbouring floats


def check_costs(instance: Instance, log: EventLog, table: np.ndarray, failed_free_s: np.ndarray) -> None:
    """Refuse start-ups, restores, checkpoints, resizes and detections of a wrong length."""
    rules = instance.semantics
    start, free = table["start_event"], table["free_event"]
    resumed = log.events["kind"][start] == RESUME
    gang, job_class = instance.gangs(table["job"], table["gpus"])
    division = instance.divisions[job_class]
    same = resumed & (table["job"] == np.roll(table["job"], 1))
    reshard_s = np.where(same & (division != np.roll(division, 1)), rules.reshard_s, 0.0)
    resized = np.zeros(len(table), bool)
    resized[1:] = (table["stop_event"][:-1] >= 0) & (table["job"][1:] == table["job"][:-1])
    resized[resized] = log.events["kind"][table["stop_event"][:-1][resized[1:]]] == RESIZE
    waited = resized & (table["hold_s"] != np.roll(table["free_s"], 1))
    _refuse_segment(log, table, waited, "start_event", "a resized gang gets its new GPUs at once")
    again = resumed & (table["hold_s"] == np.roll(table["free_s"], 1)) & (table["job"] == np.roll(table["job"], 1))
    again &= rules.restart_all_s is not None
    recovers = resumed & (np.roll(fail_events(log, table), 1) >= 0) & (table["job"] == np.roll(table["job"], 1))
    again &= ~recovers
    resume_s = np.where(again, rules.restart_all_s or 0.0, rules.restore_s)
    resume_s = np.where(recovers, rules.recovery_cost_s, resume_s)
    begin = table["hold_s"] + np.where(resumed, resume_s, rules.start_s)
    if instance.start_latency_s is not None:
        begin += np.where(resumed, 0.0, instance.start_latency_s[table["job"]])
    begin += np.where(table["gpus"] > gang, rules.merge_s, 0.0) + reshard_s
    begin = np.maximum(begin, np.where(again, np.roll(table["progress_s"], 1), 0.0))
    begin = np.where(resized, table["hold_s"] + rules.resize_cost_s + reshard_s, begin)
    late = np.abs(table["progress_s"] - begin) > TICKS * np.spacing(begin)
    reason = f"progress must begin {rules.restore_s} s after a resume, {rules.start_s} s and its latency after a start"
    if instance.sizes.elastic:
        reason += f", {rules.resize_cost_s} s after a resize"
    _refuse_segment(log, table, late, "start_event", reason)
    preempted = (free >= 0) & (free != table["stop_event"])
    fails = np.isfinite(failed_free_s)
    end = np.where(fails, failed_free_s, table["stop_s"] + rules.checkpoint_s)
    wrong = preempted & (np.abs(table["free_s"] - end) > TICKS * np.spacing(end))
    _refuse_segment(
        log, table, wrong, "free_event", f"a checkpoint takes {rules.checkpoint_s} s, a detection {rules.detection_s} s"
    )


def check_work(instance: Instance, log: EventLog, table: np.ndarray) -> None:
    """Check that iterations are conserved, in each segment and over each finished job."""
    job = table["job"]
    total = instance.iterations[job]
    done = productive_s(table) / table["iteration_s"]
    before = iterations_before(instance, log, table)
    # A time near t is exact only up to spacing(t), which corresponds to some iterations. Without this slack, short jobs
    # late in a long run would fail. With slots, a gang stops at the end of the slot in which its work is done, so it
    # may do more iterations in its last slot than in the mean slot.
    clock_s = TICKS * np.spacing(table["stop_s"])
    if instance.semantics.step_iterations:  # the ends of steps are a running sum, and each addition rounds
        clock_s *= 1.0 + done / instance.semantics.step_iterations
    fastest_s = np.minimum(table["compute_s"], table["alone_s"])
    slack = RELATIVE * total + clock_s / table["iteration_s"] + instance.semantics.slot_s / fastest_s
    stopped = table["stop_event"] >= 0
    left = np.where(stopped, log.events["value"][table["stop_event"]], 0.0)
    fails = fail_events(log, table)
    lost = np.zeros(len(table))
    undone = stopped & (fails == table["stop_event"])
    if instance.recovery is not None:
        saved = saved_work(instance, log, table, before)
        off = (fails >= 0) & (np.abs(log.events["value"][fails] - saved) > slack) & (not instance.tells_rates)
        _refuse_segment(log, table, off, "stop_event", "it must have the work of its last checkpoint after the failure")
        lost = np.where(fails >= 0, log.events["value"][fails] - np.where(undone, before - done, left), 0.0)
    off = stopped & ~undone & (np.abs(before - done - left) > slack)
    reason = "iterations are not conserved: left before - done differs from left after"
    _refuse_segment(log, table, off, "stop_event", reason)

    jobs = len(instance.workload)
    sums = np.bincount(job, done, minlength=jobs)
    clock = np.bincount(job, slack - RELATIVE * total, minlength=jobs)
    completes = np.flatnonzero(log.events["kind"] == COMPLETE)
    ended = log.events["job"][completes]
    wanted = instance.iterations[ended] - log.events["value"][completes]  # a killed job leaves some
    wanted += np.bincount(job, lost, minlength=jobs)[ended]
    if instance.semantics.kill_at_limit:
        _check_limits(instance, log, table, completes)
    bad = np.abs(sums[ended] - wanted) > RELATIVE * wanted + clock[ended]
    if bad.any():
        at = int(np.argmax(bad))
        raise refusal(log, int(completes[at]), f"the job did {sums[ended[at]]} of its {wanted[at]} iterations")


def _check_limits(instance: Instance, log: EventLog, table: np.ndarray, completes: np.ndarray) -> None:
    """Refuse jobs that run beyond their limits, and killed jobs that have not run as long as that."""
    jobs = len(instance.workload)
    service_s = np.bincount(table["job"], productive_s(table), minlength=jobs)
    slack_s = np.bincount(table["job"], TICKS * np.spacing(table["stop_s"]), minlength=jobs)
    limit_s = instance.limit_s
    if (sets := instance.node_sets) is not None and sets.choices.several:  # that of the partition of the last start
        starts, pair = chosen_pairs(instance, sets, log)
        row = log.events["job"][starts]
        limit_s = limit_s.copy()
        limit_s[row] = instance.limits_in(row, sets.choices.partition[pair])  # later starts overwrite earlier ones
        last_s = np.zeros(jobs)
        last_s[table["job"]] = productive_s(table)
        limit_s = np.maximum(limit_s, service_s - last_s)  # a job that comes from a partition of a longer limit
    long = service_s > limit_s + slack_s + RELATIVE * np.where(np.isfinite(limit_s), limit_s, 0.0)
    if long.any():
        row = int(np.argmax(long))
        at = int(table["start_event"][table["job"] == row].max())
        raise refusal(log, at, f"the job runs for {service_s[row]} s, and its limit is {limit_s[row]} s")
    rows = log.events["job"][completes]
    gives_up = np.zeros(len(rows), bool) if instance.recovery is None else instance.recovery.attempts[rows] > 0
    early = (
        (log.events["value"][completes] > 0)
        & ~gives_up
        & (service_s[rows] < limit_s[rows] * (1 - RELATIVE) - slack_s[rows])
    )
    if early.any():
        at = int(completes[np.argmax(early)])
        raise refusal(log, at, f"the job was killed before its limit of {limit_s[log.events['job'][at]]} s")


def check_completeness(
    instance: Instance, log: EventLog, table: np.ndarray, failed_free_s: np.ndarray, complete: bool
) -> None:
    """Refuse a log that lacks an event."""
    events, jobs = log.events, instance.workload.jobs
    finished = np.zeros(len(jobs), bool)
    finished[events["job"][(events["kind"] == COMPLETE) | (events["kind"] == REFUSE)]] = True
    limit = instance.semantics.time_limit_s
    horizon = float(events["time_s"][-1]) if len(events) else 0.0
    if complete and not finished.all():
        if np.isinf(limit):
            raise _missing(int(np.argmin(finished)), "it never finishes, and the run has no time limit")
        horizon = limit
    check_no_entry_missing(instance, log, horizon)
    running = table["stop_event"] < 0
    before = iterations_before(instance, log, table)
    work_s = np.multiply(before, table["iteration_s"], out=np.zeros(len(table)), where=before > 0)
    finish = table["progress_s"] + work_s
    slack = TICKS * np.spacing(horizon) + RELATIVE * (finish - table["progress_s"]) + instance.semantics.slot_s
    overdue = running & (finish < horizon - slack)
    if overdue.any():
        at = int(np.argmax(overdue))
        raise _missing(int(table["job"][at]), f"it runs on after {finish[at]:.6f} s, when its work was done")
    saving = ~running & (table["free_event"] < 0)
    release = np.where(np.isfinite(failed_free_s), failed_free_s, table["stop_s"] + instance.semantics.checkpoint_s)
    overdue = saving & (release < horizon - TICKS * np.spacing(horizon))
    if overdue.any():
        at = int(np.argmax(overdue))
        reason = f"it keeps its GPUs after {release[at]:.6f} s, when its checkpoint was done"
        raise _missing(int(table["job"][at]), reason)


def iterations_before(instance: Instance, log: EventLog, table: np.ndarray) -> np.ndarray:
    """Return the iterations left at the start of each segment; float64 [S]; the event before gives them, or the job."""
    before = instance.iterations[table["job"]]
    again = np.zeros(len(table), bool)
    again[1:] = table["job"][1:] == table["job"][:-1]
    fails = fail_events(log, table)
    previous = np.roll(np.where(fails >= 0, fails, table["stop_event"]), 1)
    said = again & (previous >= 0)
    said[said] = np.isin(log.events["kind"][previous[said]], (PREEMPT, RESIZE, FAIL))
    return np.where(said, log.events["value"][np.where(said, previous, 0)], before) if len(table) else before


def _refuse_segment(log: EventLog, table: np.ndarray, bad: np.ndarray, event: str, reason: str) -> None:
    """Raise a ScheduleError about the earliest event of the bad segments."""
    if bad.any():
        raise refusal(log, int(table[event][bad].min()), reason)


def _missing(job: int, reason: str) -> ScheduleError:
    return ScheduleError(f"an event is missing for job {job}: {reason}")
