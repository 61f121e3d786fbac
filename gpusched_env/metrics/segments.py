"""Segments: the intervals in which a job held one gang of GPUs. Job times and validation are computed from them."""

from __future__ import annotations

from typing import Final

import numpy as np

from gpusched_env.event_log import COMPLETE, FAIL, LEASE_END, PREEMPT, RATE, REFUSE, RESIZE, RESUME, START, EventLog
from gpusched_env.metrics.co_residents import alone, rates_told, slowdowns
from gpusched_env.problem.instance import Instance

SEGMENT_DTYPE: Final = np.dtype(
    [
        ("job", "<i4"),  # row of the instance's jobs
        ("gpus", "<i4"),  # [GPU] size of the gang
        ("tier", "<i4"),  # index into TIERS
        ("start_event", "<i4"),  # number of the start or resume event
        ("stop_event", "<i4"),  # number of the preempt, resize or complete event; -1 = the gang is still running
        ("free_event", "<i4"),  # number of the release, resize or complete event; -1 = the gang still holds its GPUs
        ("sub_steps", "<i4"),  # number of gradient-accumulation sub-steps; 1 = no accumulation
        ("hold_s", "<f8"),  # [s] time at which the gang takes its GPUs
        ("progress_s", "<f8"),  # [s] time at which progress begins: hold_s plus the start-up or restore time
        ("stop_s", "<f8"),  # [s] time at which progress ends
        ("free_s", "<f8"),  # [s] time at which the gang has given its GPUs back: stop_s plus the checkpoint time
        ("alone_s", "<f8"),  # [s] time of an iteration on these GPUs without company or contention
        ("iteration_s", "<f8"),  # [s] time of an iteration; if the log has rates, productive time / iterations done
        ("compute_s", "<f8"),  # [s] compute in iteration_s, on the slowest GPU type, with the slowdown by company
    ]
)

_KEPT: Final = "_segments"  # attribute of a sealed log that caches its segments


def end_of_run(instance: Instance, log: EventLog) -> float:
    """Return the end of a run [s]: the time of its last event, or the time limit if some job is still there."""
    events = log.events
    last = float(events["time_s"][-1]) if len(events) else 0.0
    limit = instance.semantics.time_limit_s
    gone = np.count_nonzero((events["kind"] == COMPLETE) | (events["kind"] == REFUSE))
    return max(last, limit) if np.isfinite(limit) and gone < len(instance.workload) else last


def killed_jobs(instance: Instance, log: EventLog) -> np.ndarray:
    """Return whether each job was killed at its time limit, or gave up after its last attempt; bool [J]."""
    killed = np.zeros(len(instance.workload), bool)
    ended = log.events[log.events["kind"] == COMPLETE]
    killed[ended["job"]] = ended["value"] > 0
    return killed


def until(log: EventLog, end_s: float) -> EventLog:
    """Return the part of a log up to ``end_s`` [s]; events at ``end_s`` are kept."""
    count = int(np.searchsorted(log.events["time_s"], end_s, side="right"))
    if count == len(log.events):
        return log
    events = log.events[:count]
    return EventLog(events, log.gpus[: int(events["gpu_count"].sum())])


def segments(instance: Instance, log: EventLog, end_s: float | None = None) -> np.ndarray:
    """Return the segments of a log; SEGMENT_DTYPE [S], sorted by job, then by time.

    The log must be valid (:func:`gpusched_env.metrics.validate`). Events after ``end_s`` [s] are ignored, and segments
    that are open then end then; None = the end of the run. For a sealed log
    (:meth:`gpusched_env.event_log.EventLog.sealed`) the table is cached, and is read-only.
    """
    end_s = end_of_run(instance, log) if end_s is None else float(end_s)
    log = until(log, end_s)
    if log.events.flags.writeable:
        return _segments(instance, log, end_s)
    kept: tuple[Instance, float, np.ndarray] | None = log.__dict__.get(_KEPT)
    if kept is None or kept[0] is not instance or kept[1] != end_s:
        table = _segments(instance, log, end_s)
        table.flags.writeable = False
        kept = log.__dict__[_KEPT] = (instance, end_s, table)
    return kept[2]


def _segments(instance: Instance, log: EventLog, end_s: float) -> np.ndarray:
    """Compute the table of :func:`segments`."""
    events = log.events
    # Sorted by job, the events of each job stay in order: its stop follows a start, and its release follows a preempt.
    order = np.argsort(events["job"], kind="stable")
    order = order[~np.isin(events["kind"][order], (RATE, LEASE_END))]
    job, kind = events["job"][order], events["kind"][order]
    at = np.flatnonzero((kind == START) | (kind == RESUME))
    start = order[at]
    stop, stop_kind = _following(at, 1, order, job, kind)
    release, then = _following(at, 2, order, job, kind)
    interrupted = then == FAIL  # a crash during the checkpoint of a preemption
    release = np.where(interrupted, _following(at, 3, order, job, kind)[0], release)
    free = np.where(np.isin(stop_kind, (PREEMPT, FAIL)), release, -1)
    free = np.where((stop_kind == COMPLETE) | (stop_kind == RESIZE), stop, free)

    table = np.zeros(len(at), SEGMENT_DTYPE)
    table["job"] = job[at]
    table["gpus"] = events["gpu_count"][start]
    table["tier"] = events["tier"][start]
    table["start_event"], table["stop_event"], table["free_event"] = start, stop, free
    table["hold_s"] = events["time_s"][start]
    table["progress_s"] = events["value"][start]
    table["stop_s"] = np.where(stop >= 0, events["time_s"][stop], end_s)
    table["free_s"] = np.where(free >= 0, events["time_s"][free], end_s)
    table["sub_steps"] = events["sub_steps"][start]
    for name, seconds in _seconds_per_iteration(instance, log).items():
        table[name] = seconds[start]
        if instance.recovery is not None:
            table[name] *= instance.recovery.stretch[table["job"]]
    table["alone_s"] = table["iteration_s"]
    if slot_s := instance.semantics.slot_s:  # whole iterations, as in core/network/settling.py
        whole = np.floor(slot_s / table["iteration_s"])
        table["iteration_s"] = np.divide(slot_s, whole, out=np.full(len(table), np.inf), where=whole > 0)
    if (events["kind"] == RATE).any():
        _follow_rates(instance, log, table)
    return table


def fail_events(log: EventLog, table: np.ndarray) -> np.ndarray:
    """Return the number of the event at which the gang of each segment fails; int64 [S], -1 = it does not."""
    found = np.full(len(table), -1)
    fails = np.flatnonzero(log.events["kind"] == FAIL)
    keys = table["job"].astype(np.int64) * len(log.events) + table["start_event"]  # ascending
    found[np.searchsorted(keys, log.events["job"][fails].astype(np.int64) * len(log.events) + fails) - 1] = fails
    return found


def productive_s(table: np.ndarray) -> np.ndarray:
    """Return the time in which each segment made progress; float64 [S] [s]; 0 if it was preempted while it restored."""
    seconds: np.ndarray = np.maximum(table["stop_s"] - table["progress_s"], 0.0)
    return seconds


def _follow_rates(instance: Instance, log: EventLog, table: np.ndarray) -> None:
    """Set ``iteration_s`` to productive time / iterations done, computed from the rates in the log.

    If jobs share GPUs, also multiply ``compute_s`` by the slowdown by the gang's company, averaged over the iterations.
    """
    segment, begin, until, pace, stretch = _at_rates(instance, log, table)
    iterations = (until - begin) / pace
    done = np.bincount(segment, iterations, minlength=len(table))
    first = np.ones(len(segment), bool)
    first[1:] = segment[1:] != segment[:-1]
    table["iteration_s"][segment[first]] = pace[first]
    moved = done > 0
    table["iteration_s"][moved] = productive_s(table)[moved] / done[moved]
    if instance.gpu_jobs > 1:
        stretched = np.bincount(segment, iterations * stretch, minlength=len(table))
        table["compute_s"][moved] *= stretched[moved] / done[moved]


def _at_rates(instance: Instance, log: EventLog, table: np.ndarray) -> tuple[np.ndarray, ...]:
    """Return the intervals of constant rate: segment, begin and end of progress, iteration time [s], slowdown."""
    events = log.events
    rates, segment = rates_told(log, table)
    until = table["stop_s"][segment].copy()
    same = segment[1:] == segment[:-1]
    until[:-1][same] = events["time_s"][rates[1:]][same]
    begin = np.maximum(events["time_s"][rates], table["progress_s"][segment])
    stretch = np.ones(len(rates))
    if instance.gpu_jobs > 1:
        stretch = slowdowns(instance, log, table).at(segment, events["time_s"][rates])
    return segment, begin, np.maximum(until, begin), events["value"][rates], stretch


def compute_shares(instance: Instance, log: EventLog, table: np.ndarray) -> tuple[np.ndarray, ...]:
    """Return the intervals in which segments make progress: segment, begin, end [s], share of time that is compute."""
    if not (log.events["kind"] == RATE).any():
        begin, until = table["progress_s"], np.maximum(table["stop_s"], table["progress_s"])
        return np.arange(len(table)), begin, until, table["compute_s"] / table["iteration_s"]
    segment, begin, until, pace, stretch = _at_rates(instance, log, table)
    alone_s = _seconds_per_iteration(instance, log)["compute_s"][table["start_event"]]
    return segment, begin, until, alone_s[segment] * stretch / pace


def _following(
    at: np.ndarray, steps: int, order: np.ndarray, job: np.ndarray, kind: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return number and kind of the event ``steps`` after each position; -1 if that event is of another job."""
    there = np.minimum(at + steps, len(order) - 1)
    same = (there == at + steps) & (job[there] == job[at])
    return np.where(same, order[there], -1), np.where(same, kind[there], -1)


def _seconds_per_iteration(instance: Instance, log: EventLog) -> dict[str, np.ndarray]:
    """Return the iteration and compute time of the started gangs without company; float64 [E] each [s], others 0."""
    events = log.events
    starts = np.flatnonzero(events["gpu_count"] > 0)
    result = {name: np.zeros(len(events)) for name in ("iteration_s", "compute_s")}
    if not len(starts):
        return result
    placed = events[starts]
    gang, job_class = instance.gangs(placed["job"], placed["gpu_count"])
    if instance.sharing is not None:
        row = placed["tier"]
        if instance.shapes is not None:
            parts = instance.cluster.used_parts(log.gpus, placed["gpu_at"])
            row = instance.shapes.rows(job_class, gang, parts)
        result["iteration_s"][starts], result["compute_s"][starts] = alone(instance, log, starts, row)
        return result
    copies = placed["gpu_count"] // gang
    tier, first = placed["tier"], placed["gpu_at"]
    if (copies == 1).all():
        iteration_s, compute_s = _of_gangs(instance, log, job_class, tier, gang, first)
    else:
        of_start = np.cumsum(copies) - copies
        each = np.repeat(gang, copies)
        begins = np.cumsum(each) - each
        tiers = instance.cluster.tier_of(log.gpus, begins)
        of_copy, compute = _of_gangs(instance, log, np.repeat(job_class, copies), tiers, each, begins)
        # Copies of a job share its iterations in proportion to their speeds, so the speeds add up. The share of compute
        # is the mean over the copies.
        iteration_s = 1.0 / np.add.reduceat(1.0 / of_copy, of_start)
        compute_s = iteration_s * np.add.reduceat(compute / of_copy, of_start) / copies
    result["iteration_s"][starts], result["compute_s"][starts] = iteration_s, compute_s
    return result


def _of_gangs(
    instance: Instance, log: EventLog, job_class: np.ndarray, tier: np.ndarray, count: np.ndarray, first: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the iteration and compute time of gangs [s]."""
    row = tier
    tables = (instance.iteration_s, instance.compute_s)
    if (shapes := instance.shapes) is not None:
        row = shapes.rows(job_class, count, instance.cluster.used_parts(log.gpus, first))
        tables = (shapes.iteration_s, shapes.compute_s)
    if len(instance.cluster.gpu_types) == 1:
        return tables[0][job_class, row, 0], tables[1][job_class, row, 0]
    # A synchronous gang waits for its slowest GPU, so the largest value over its GPUs holds.
    gpu_type = np.repeat(instance.cluster.nodes["gpu_type"], instance.cluster.nodes["gpus"])[log.gpus]
    classes, rows = np.repeat(job_class, count), np.repeat(row, count)
    largest = [np.maximum.reduceat(seconds[classes, rows, gpu_type], first) for seconds in tables]
    return largest[0], largest[1]
