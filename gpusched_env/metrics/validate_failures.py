"""Part four of the validator: who fails, when, and what is left of its work."""

from __future__ import annotations

import numpy as np

from gpusched_env.event_log import COMPLETE, FAIL, EventLog
from gpusched_env.metrics.refusal import refusal
from gpusched_env.metrics.segments import fail_events, productive_s
from gpusched_env.problem.instance import Instance
from gpusched_env.problem.outages import Recovery

TICKS = 4.0  # as in validate_work


def check_failures(instance: Instance, log: EventLog, table: np.ndarray) -> np.ndarray:
    """Check that gangs fail when a node of theirs crashes or an attempt ends, and only then.

    Returns the time at which the GPUs of each segment that fails are free; float64 [S] [s], NaN = it does not fail.
    """
    at = fail_events(log, table)
    fails = at >= 0
    fail_s = np.where(fails, log.events["time_s"][at], np.nan)
    crashed = _crashed(instance, log, table, fail_s)
    told = instance.recovery
    if told is None:
        if fails.any():
            raise refusal(log, int(at[fails].min()), "nothing fails in this instance")
        return fail_s
    by_itself = _check_attempts(told, log, table, at, crashed)
    late = np.where(by_itself, 0.0, instance.semantics.detection_s)
    return fail_s + late


def _crashed(instance: Instance, log: EventLog, table: np.ndarray, fail_s: np.ndarray) -> np.ndarray:
    """Boolean [S]: whether a segment fails as a node of its gang crashes; refuses gangs that survive or start there."""
    crashed = np.zeros(len(table), bool)
    if instance.outages is None or not len(table):
        return crashed
    count = log.events["gpu_count"][table["start_event"]]
    begin = log.events["gpu_at"][table["start_event"]]
    segment = np.repeat(np.arange(len(table)), count)
    gpus = log.gpus[np.repeat(begin - (np.cumsum(count) - count), count) + np.arange(count.sum())]
    pairs = np.unique(instance.cluster.node_of_gpu[gpus].astype(np.int64) * len(table) + segment)
    node, segment = np.divmod(pairs, len(table))
    end_s = float(log.events["time_s"][-1])
    for number, start_s, back_s, _ in instance.outages.rows.tolist():
        rows = segment[slice(*np.searchsorted(node, [number, number + 1]))]
        there = table[rows]
        crashed[rows] |= fail_s[rows] == start_s
        lives = (there["hold_s"] < start_s) & (there["free_s"] > start_s) & ~(fail_s[rows] <= start_s)
        lives &= (start_s < end_s) | (there["stop_event"] >= 0)  # the log may end before the events of its last moment
        starts = (there["hold_s"] >= start_s) & (there["hold_s"] < back_s)
        if (bad := lives | starts).any():
            raise refusal(
                log, int(there["start_event"][bad].min()), f"node {number} is down from {start_s} to {back_s} s"
            )
    return crashed


def _check_attempts(
    told: Recovery, log: EventLog, table: np.ndarray, at: np.ndarray, crashed: np.ndarray
) -> np.ndarray:
    """Boolean [S]: whether the gang fails by itself; refuses failures without a reason, and attempts that live on."""
    by_itself = np.zeros(len(table), bool)
    service_s = productive_s(table)
    lasting = np.flatnonzero((at >= 0) & ~crashed)
    jobs = np.union1d(table["job"][lasting], np.flatnonzero(np.diff(told.first)))
    begins = np.searchsorted(table["job"], np.append(jobs, len(told.cost_s)))
    for job, begin in zip(jobs.tolist(), begins.tolist(), strict=False):
        ends_s = told.fails_after_s[told.first[job] : told.first[job + 1]].tolist()
        run_s, failures = 0.0, 0
        row = begin
        while row < len(table) and table["job"][row] == job:
            run_s += service_s[row]
            slack_s = TICKS * (row - begin + 1) * np.spacing(table["stop_s"][row])
            due_s = ends_s[failures] if failures < len(ends_s) else np.inf
            stop = int(table["stop_event"][row])
            kind = int(log.events["kind"][stop]) if stop >= 0 else -1
            gave_up = kind == COMPLETE and log.events["value"][stop] > 0 and failures + 1 == told.attempts[job]
            over = abs(run_s - due_s) <= slack_s
            if run_s > due_s + slack_s or (at[row] >= 0 and not crashed[row] and not over):
                where = int(at[row]) if at[row] >= 0 else int(table["start_event"][row])
                raise refusal(log, where, f"its attempt has run for {run_s} s, and fails after {due_s} s")
            if kind == FAIL and over and not gave_up and not (crashed[row] and told.attempts[job] == failures + 1):
                by_itself[row] = True
                run_s, failures = 0.0, failures + 1
            row += 1
    return by_itself


def saved_work(instance: Instance, log: EventLog, table: np.ndarray, before: np.ndarray) -> np.ndarray:
    """Return the iterations left at the last checkpoint of each segment while it ran; float64 [S].

    ``before`` are those left at its start. Rates must be constant. A segment that ends just before or after a
    checkpoint, within rounding, has what the log says if that is one of both.
    """
    told = instance.recovery
    assert told is not None
    whole_s = told.segment_s[table["job"]]
    run_s = productive_s(table)
    at = fail_events(log, table)
    said = np.where(at >= 0, log.events["value"][at], np.nan)
    slack_s = TICKS * np.spacing(table["stop_s"])
    found = np.full(len(table), np.nan)
    for shift_s in (slack_s, -slack_s):
        segments = np.where(
            np.isfinite(whole_s), np.floor((run_s + shift_s) / np.where(whole_s < np.inf, whole_s, 1)), 0
        )
        kept = np.where(segments > 0, segments * np.where(whole_s < np.inf, whole_s, 0.0), 0.0)
        left = np.maximum(before - kept / table["iteration_s"], 0.0)
        closer = np.isnan(found) | (np.abs(left - said) < np.abs(found - said))
        found = np.where(closer, left, found)
    return found
