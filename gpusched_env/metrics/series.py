"""Quantities over time, as step functions that are computed from the event log."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gpusched_env.event_log import ARRIVAL, COMPLETE, REFUSE, RELEASE, RESIZE, RESUME, START, EventLog
from gpusched_env.metrics.segments import segments
from gpusched_env.problem.instance import Instance


@dataclass(frozen=True)
class StepFunction:
    """A right-continuous step function that is 0 before its first step.

    Attributes
    ----------
    times_s : float64 [S], times of the steps, strictly ascending [s]
    values : float64 [S]; ``values[i]`` holds from ``times_s[i]`` until ``times_s[i + 1]``, and the last value forever
    """

    times_s: np.ndarray
    values: np.ndarray

    @classmethod
    def of_changes(cls, times_s: np.ndarray, changes: np.ndarray | Sequence[float]) -> StepFunction:
        """Return the sum over time of changes at these times [s], in any order."""
        times, at = np.unique(times_s, return_inverse=True)
        return cls(times, np.cumsum(np.bincount(at, changes, minlength=len(times))))

    def at(self, time_s: np.ndarray | float) -> np.ndarray:
        """Return the value at each time [s]; float64, with the shape of ``time_s``."""
        index = np.searchsorted(self.times_s, time_s, side="right")
        return np.concatenate([[0.0], self.values])[index]

    def integral(self, time_s: np.ndarray | float) -> np.ndarray:
        """Return the integral from minus infinity to each time [unit of the values x s]; the shape of ``time_s``."""
        time = np.asarray(time_s, float)
        if not len(self.times_s):
            return np.zeros(time.shape)
        area = np.concatenate([[0.0], np.cumsum(self.values[:-1] * np.diff(self.times_s))])
        index = np.searchsorted(self.times_s, time, side="right") - 1
        inside = np.maximum(index, 0)
        return np.where(index < 0, 0.0, area[inside] + self.values[inside] * (time - self.times_s[inside]))

    def mean(self, start_s: float, end_s: float) -> float:
        """Return the time average between two times [s]; NaN if ``end_s`` is not after ``start_s``."""
        if end_s <= start_s:
            return float("nan")
        return float(self.integral(end_s) - self.integral(start_s)) / (end_s - start_s)

    def binned(self, edges_s: np.ndarray) -> np.ndarray:
        """Return the time average within each bin; float64 [len(edges_s) - 1]. ``edges_s`` [s] must ascend."""
        return np.diff(self.integral(edges_s)) / np.diff(edges_s)

    def drawn(self, edges_s: np.ndarray, end_s: float) -> tuple[np.ndarray, np.ndarray]:
        """Return the times [s] and values of a line that draws the function.

        If there are fewer steps than edges, the line has all steps; otherwise it has the mean of each bin.
        """
        if len(self.times_s) < len(edges_s):
            times, values = self.times_s, self.values
        else:
            times, values = edges_s[:-1], self.binned(edges_s)
        inside = times <= end_s
        times, values = times[inside], values[inside]
        return np.append(times, end_s), np.append(values, values[-1:] if len(values) else 0.0)


def held_gpus(instance: Instance, log: EventLog) -> StepFunction:
    """Return the number of held GPUs over time [GPU]; a shared GPU counts once.

    GPUs of gangs that restore or are being checkpointed are held.
    """
    if instance.gpu_jobs == 1:
        return gang_gpus(instance, log)
    table = segments(instance, log)
    # Merge overlapping intervals in which gangs hold the same GPU. Keys are exact: event number + an offset per GPU.
    count = table["gpus"].astype(np.int64)
    gpus = np.concatenate([np.empty(0, np.int64), *(log.gang(event) for event in table["start_event"])])
    free = np.where(table["free_event"] >= 0, table["free_event"], len(log.events)).astype(np.int64)
    base = gpus * (len(log.events) + 1)
    begin, end = base + np.repeat(table["start_event"], count), base + np.repeat(free, count)
    order = np.argsort(begin, kind="stable")
    begin, end = begin[order], end[order]
    last = np.maximum.accumulate(end)
    opens = np.ones(len(begin), bool)
    opens[1:] = begin[1:] > last[:-1]
    closes = np.append(opens[1:], True)[: len(begin)]
    events = len(log.events) + 1
    change = np.bincount(begin[opens] % events, minlength=events) - np.bincount(last[closes] % events, minlength=events)
    return _cumulated(log, change[:-1].astype(float))


def gang_gpus(instance: Instance, log: EventLog) -> StepFunction:
    """Return the summed size of all gangs that hold GPUs over time [GPU]; a shared GPU counts once for each gang.

    Gangs that restore or are being checkpointed hold GPUs.
    """
    gang = instance.workload.jobs["gpus"][log.events["job"]]
    if instance.sizes.elastic:
        table = segments(instance, log)
        gang = np.zeros(len(log.events), np.int64)
        freed = table["free_event"] >= 0
        gang[table["start_event"]] = table["gpus"]
        gang[table["free_event"][freed]] = table["gpus"][freed]
    return _steps(log, {START: gang, RESUME: gang, COMPLETE: -gang, RELEASE: -gang, RESIZE: -gang})


def jobs_waiting(log: EventLog) -> StepFunction:
    """Return the number of jobs in the system that hold no GPUs over time."""
    return _steps(log, {ARRIVAL: 1, RELEASE: 1, RESIZE: 1, START: -1, RESUME: -1, REFUSE: -1})


def jobs_running(log: EventLog) -> StepFunction:
    """Return the number of jobs that hold GPUs over time; jobs that restore or are being checkpointed hold GPUs."""
    return _steps(log, {START: 1, RESUME: 1, RELEASE: -1, RESIZE: -1, COMPLETE: -1})


def jobs_in_system(log: EventLog) -> StepFunction:
    """Return the number of jobs that have arrived and have neither finished nor been refused over time."""
    return _steps(log, {ARRIVAL: 1, COMPLETE: -1, REFUSE: -1})


def _steps(log: EventLog, change_of_kind: dict[int, np.ndarray | int]) -> StepFunction:
    """Make the step function whose value changes by ``change_of_kind[kind]`` at each event of that kind."""
    kind = log.events["kind"]
    change = np.zeros(len(kind))
    for which, amount in change_of_kind.items():
        change += np.where(kind == which, amount, 0)
    return _cumulated(log, change)


def _cumulated(log: EventLog, change: np.ndarray) -> StepFunction:
    """Make the step function whose value changes by ``change[i]`` at event i; events at the same time are one step."""
    time = log.events["time_s"]
    last = np.ones(len(time), bool)
    last[:-1] = time[1:] != time[:-1]
    return StepFunction(time[last], np.cumsum(change)[last])
