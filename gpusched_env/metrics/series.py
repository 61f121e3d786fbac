"""Quantities over time: step functions read off the event log."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpusched_env.event_log import ARRIVAL, COMPLETE, RELEASE, RESUME, START, EventLog
from gpusched_env.instance import Instance


@dataclass(frozen=True)
class StepFunction:
    """A right-continuous step function that is 0 before its first step.

    Attributes
    ----------
    times_s : float64 [S], strictly ascending [s]
    values : float64 [S], ``values[i]`` holds from ``times_s[i]`` until ``times_s[i + 1]``, the last one for ever
    """

    times_s: np.ndarray
    values: np.ndarray

    def at(self, time_s: np.ndarray | float) -> np.ndarray:
        """float64, shape of ``time_s``: the value at each time [s]."""
        index = np.searchsorted(self.times_s, time_s, side="right")
        return np.concatenate([[0.0], self.values])[index]

    def integral(self, time_s: np.ndarray | float) -> np.ndarray:
        """float64, shape of ``time_s``: the integral from minus infinity to each time [unit of the values x s]."""
        time = np.asarray(time_s, float)
        if not len(self.times_s):
            return np.zeros(time.shape)
        area = np.concatenate([[0.0], np.cumsum(self.values[:-1] * np.diff(self.times_s))])
        index = np.searchsorted(self.times_s, time, side="right") - 1
        inside = np.maximum(index, 0)
        return np.where(index < 0, 0.0, area[inside] + self.values[inside] * (time - self.times_s[inside]))

    def mean(self, start_s: float, end_s: float) -> float:
        """Time average between two times; NaN if they are equal."""
        if end_s <= start_s:
            return float("nan")
        return float(self.integral(end_s) - self.integral(start_s)) / (end_s - start_s)

    def binned(self, edges_s: np.ndarray) -> np.ndarray:
        """float64 [len(edges_s) - 1]: time average within each bin (ascending edges)."""
        return np.diff(self.integral(edges_s)) / np.diff(edges_s)

    def drawn(self, edges_s: np.ndarray, end_s: float) -> tuple[np.ndarray, np.ndarray]:
        """Times [s] and values of a line: the steps if they are fewer than the edges, else averages between the edges.

        Parameters
        ----------
        edges_s : float64 [bins + 1], ascending [s]
        end_s : [s] the line ends here
        """
        if len(self.times_s) < len(edges_s):
            times, values = self.times_s, self.values
        else:
            times, values = edges_s[:-1], self.binned(edges_s)
        inside = times <= end_s
        times, values = times[inside], values[inside]
        return np.append(times, end_s), np.append(values, values[-1:] if len(values) else 0.0)


def held_gpus(instance: Instance, log: EventLog) -> StepFunction:
    """GPUs held by gangs, restoring and checkpointing ones included [GPU]."""
    gang = instance.workload.jobs["gpus"][log.events["job"]]
    return _steps(log, {START: gang, RESUME: gang, COMPLETE: -gang, RELEASE: -gang})


def jobs_waiting(log: EventLog) -> StepFunction:
    """Jobs in the system without GPUs."""
    return _steps(log, {ARRIVAL: 1, RELEASE: 1, START: -1, RESUME: -1})


def jobs_running(log: EventLog) -> StepFunction:
    """Jobs that hold GPUs, restoring and checkpointing ones included."""
    return _steps(log, {START: 1, RESUME: 1, RELEASE: -1, COMPLETE: -1})


def jobs_in_system(log: EventLog) -> StepFunction:
    """Jobs that have arrived and have not finished."""
    return _steps(log, {ARRIVAL: 1, COMPLETE: -1})


def _steps(log: EventLog, change_of_kind: dict[int, np.ndarray | int]) -> StepFunction:
    """Sum up changes; events of one instant make one step."""
    kind, time = log.events["kind"], log.events["time_s"]
    change = np.zeros(len(kind))
    for which, amount in change_of_kind.items():
        change += np.where(kind == which, amount, 0)
    last = np.ones(len(time), bool)
    last[:-1] = time[1:] != time[:-1]
    return StepFunction(time[last], np.cumsum(change)[last])
