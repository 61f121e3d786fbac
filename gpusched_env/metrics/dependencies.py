"""Held jobs: when they entered the queue, when the rules let them, and the summary's columns about them."""

from __future__ import annotations

import numpy as np

from gpusched_env.errors import ScheduleError
from gpusched_env.event_log import ARRIVAL, COMPLETE, REFUSE, START, EventLog
from gpusched_env.metrics.refusal import refusal
from gpusched_env.portable.arrays import mean
from gpusched_env.problem.dependencies import AFTER, AFTER_ANY, AFTER_OK
from gpusched_env.problem.instance import Instance


def arrivals(instance: Instance, log: EventLog) -> np.ndarray:
    """Time at which each job entered the queue: its submission, or the end of its hold [s]; inf = it is still held.

    float64 [J]. Without held jobs, it is the submission even if the log ends before.
    """
    arrival: np.ndarray = instance.workload.jobs["arrival_s"]
    if instance.holds is None:
        return arrival
    found = np.where(instance.holds.depends, np.inf, instance.holds.eligible_s)
    entered = log.events["kind"] == ARRIVAL
    found[log.events["job"][entered]] = log.events["time_s"][entered]
    return found


def _arrived(instance: Instance, log: EventLog) -> np.ndarray:
    """Return whether each job arrived before the end of the log; Boolean [J]."""
    arrived = np.zeros(len(instance.workload), bool)
    arrived[log.events["job"][log.events["kind"] == ARRIVAL]] = True
    return arrived


def cancelled_jobs(instance: Instance, log: EventLog) -> np.ndarray:
    """Return whether each job was cancelled, because it depends on what did not happen; Boolean [J]."""
    cancelled = np.zeros(len(instance.workload), bool)
    events = log.events
    cancelled[events["job"][(events["kind"] == REFUSE) & (events["value"] == 1.0)]] = True
    return cancelled


def hold_metrics(instance: Instance, log: EventLog, rows: slice) -> dict[str, float]:
    """Return the numbers of HOLD_COLUMNS over the jobs ``rows``; empty if no job can be held."""
    if instance.holds is None:
        return {}
    held_s = (arrivals(instance, log) - instance.workload.jobs["arrival_s"])[rows]
    cancelled = cancelled_jobs(instance, log)[rows]
    arrived = _arrived(instance, log)[rows]
    return {"mean_held_s": mean(held_s[arrived & ~cancelled]), "cancelled": float(cancelled.sum())}


def due_entries(instance: Instance, log: EventLog) -> tuple[np.ndarray, np.ndarray]:
    """When the rules let each job enter the queue, and when they cancel it; float64 [J] each [s], inf = not so far."""
    arrival = instance.workload.jobs["arrival_s"]
    never = np.full(len(arrival), np.inf)
    if instance.holds is None:
        return arrival, never
    events, edges = log.events, instance.holds.edges
    start_s, end_s, gone_s = never.copy(), never.copy(), never.copy()
    good = np.zeros(len(arrival), bool)
    for column, what in ((start_s, START), (end_s, COMPLETE), (gone_s, REFUSE)):
        chosen = events["kind"] == what
        column[events["job"][chosen]] = events["time_s"][chosen]
    done = events[events["kind"] == COMPLETE]
    good[done["job"]] = done["value"] == 0
    good &= ~instance.holds.fails
    end_s = np.minimum(end_s, gone_s)

    before, kind = edges["before"], edges["kind"]
    satisfied_s = np.where(kind == AFTER, np.minimum(start_s, gone_s)[before], end_s[before])
    wrong = (kind != AFTER) & (kind != AFTER_ANY) & ((kind == AFTER_OK) != good[before])
    cancel_s, enter_s = never, instance.holds.eligible_s.copy()
    np.minimum.at(cancel_s, edges["after"][wrong], end_s[before][wrong])
    np.maximum.at(enter_s, edges["after"], np.where(wrong, np.inf, satisfied_s + edges["delay_s"]))
    return enter_s, np.maximum(cancel_s, arrival)


def check_entries(instance: Instance, log: EventLog) -> None:
    """Refuse jobs that enter the queue at another time than the rules say, and wrong cancellations."""
    enter_s, cancel_s = due_entries(instance, log)
    events = log.events
    due_s = np.minimum(enter_s, cancel_s)[events["job"]]
    cancels = (events["kind"] == REFUSE) & (events["value"] == 1.0)
    for bad, reason in (
        ((events["kind"] == ARRIVAL) & (events["time_s"] != due_s), "the job does not arrive at this time"),
        (cancels & (events["time_s"] != cancel_s[events["job"]]), "nothing cancels the job at this time"),
        ((events["kind"] == START) & np.isfinite(cancel_s[events["job"]]), "the job was cancelled"),
    ):
        if bad.any():
            raise refusal(log, int(np.argmax(bad)), reason)


def check_no_entry_missing(instance: Instance, log: EventLog, horizon_s: float) -> None:
    """Refuse a log in which a job that may enter the queue before ``horizon_s`` [s] does not, or is not cancelled."""
    enter_s, cancel_s = due_entries(instance, log)
    missing = (np.minimum(enter_s, cancel_s) < horizon_s) & ~_arrived(instance, log)
    if missing.any():
        raise ScheduleError(
            f"an event is missing for job {int(np.argmax(missing))}: it never arrives, although it was due before "
            f"{horizon_s:.6f} s"
        )
    if (lost := (cancel_s < horizon_s) & ~cancelled_jobs(instance, log)).any():
        raise ScheduleError(f"an event is missing for job {int(np.argmax(lost))}: it is not cancelled")
