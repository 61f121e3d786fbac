"""What a run draws, costs and emits, by job, computed from its event log (docs/energy.md)."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from gpusched_env.event_log import EventLog
from gpusched_env.metrics.co_residents import gpu_types
from gpusched_env.metrics.columns import ENERGY_COLUMNS, Column
from gpusched_env.metrics.job_times import job_times
from gpusched_env.metrics.segments import compute_shares, end_of_run, segments
from gpusched_env.portable.arrays import mean, total
from gpusched_env.problem.energy import COMMUNICATING, COMPUTING, IDLE, METERS, Energy, integral
from gpusched_env.problem.instance import Instance


class Used(NamedTuple):
    """What a meter shows at the end of a run, in its unit (``gpusched_env.problem.energy.METERS``)."""

    jobs: np.ndarray  # float64 [J]: by each job, while its gangs held GPUs
    idle: float  # by GPUs without gangs, asleep ones included, and by machines that woke

    @property
    def all(self) -> float:
        """The whole run."""
        return total(self.jobs) + self.idle


def used(instance: Instance, log: EventLog, energy: Energy, end_s: float | None = None) -> dict[str, Used]:
    """Return what each meter shows, by its name, from the first arrival to ``end_s`` [s]; None = the end of the run.

    A gang computes for the compute time of its iterations, and communicates for the rest of the time for which it holds
    its GPUs. Of n gangs on a GPU, each draws 1/n of what it would draw there alone.
    """
    end_s = end_of_run(instance, log) if end_s is None else float(end_s)
    first_s = float(job_times(instance, log, end_s)["arrival_s"].min())
    table = segments(instance, log, end_s)
    watts, job = energy.of_types(instance.cluster), table["job"]
    segment, begin_s, until_s, share = _parts(instance, log, table)
    holders = _Holders(instance, log, table)
    gpus = np.bincount(instance.cluster.nodes["gpu_type"], instance.cluster.nodes["gpus"], minlength=len(watts))
    found = {}
    for name, series in energy.meters.items():
        span = float(integral(series, np.array(max(end_s, first_s))) - integral(series, np.array(first_s)))
        held = holders.integrals(series, segment, begin_s, until_s)
        draw = watts[:, COMMUNICATING] + share[:, None] * (watts[:, COMPUTING] - watts[:, COMMUNICATING])
        of_jobs = np.bincount(job[segment], (held * draw).sum(axis=1), minlength=len(instance.workload))
        idle = total((gpus * span - held.sum(axis=0)) * watts[:, IDLE])
        found[name] = Used(of_jobs, idle + holders.asleep(series, energy, watts[:, IDLE], first_s, end_s))
    return found


def energy_metrics(instance: Instance, log: EventLog, end_s: float, rows: slice) -> dict[str, float]:
    """Return the values of :data:`~gpusched_env.metrics.columns.ENERGY_COLUMNS` that are asked for."""
    if instance.energy is None:
        return {}
    found = used(instance, log, instance.energy, end_s)
    energy = found["energy_kwh"]
    result = {name: of.all for name, of in found.items()} | {
        "energy_per_job_kwh": mean(energy.jobs[rows]),
        "idle_energy_share": energy.idle / energy.all if energy.all > 0 else math.nan,
    }
    return {column.name: result[column.name] for column in energy_columns(instance)}


def energy_columns(instance: Instance) -> list[Column]:
    """Return the columns of energy that a run has."""
    meters = {} if instance.energy is None else instance.energy.meters
    return [column for column in ENERGY_COLUMNS if meters and (column.name in meters or column.name not in METERS)]


def _parts(instance: Instance, log: EventLog, table: np.ndarray) -> tuple[np.ndarray, ...]:
    """Return intervals of all segments: segment, begin, end [s], and the share of time in which the gang computes."""
    segment, begin_s, until_s, share = compute_shares(instance, log, table)
    every, none = np.arange(len(table)), np.zeros(len(table))
    ready_s = np.minimum(table["progress_s"], table["stop_s"])
    return (
        np.concatenate([segment, every, every]),
        np.concatenate([begin_s, table["hold_s"], table["stop_s"]]),
        np.concatenate([until_s, ready_s, table["free_s"]]),
        np.concatenate([share, none, none]),
    )


class _Holders:
    """The GPUs of all segments, and the nodes on which they lie."""

    def __init__(self, instance: Instance, log: EventLog, table: np.ndarray) -> None:
        self.instance, self.table = instance, table
        count = table["gpus"].astype(np.int64)
        self.segment = np.repeat(np.arange(len(table)), count)
        first = log.events["gpu_at"][table["start_event"]] - (np.cumsum(count) - count)
        self.gpu = log.gpus[np.repeat(first, count) + np.arange(len(self.segment))]
        self.types = len(instance.cluster.gpu_types)

    def integrals(
        self, series: np.ndarray, segment: np.ndarray, begin_s: np.ndarray, until_s: np.ndarray
    ) -> np.ndarray:
        """float64 [n, types]: integral of the series over each interval of a segment, summed over its GPUs."""
        kinds = gpu_types(self.instance)
        result = np.zeros((len(segment), self.types))
        if self.instance.gpu_jobs == 1:
            of_gpu = self.segment * self.types + kinds[self.gpu]
            counts = np.bincount(of_gpu, minlength=len(self.table) * self.types).reshape(-1, self.types)
            return counts[segment] * (integral(series, until_s) - integral(series, begin_s))[:, None]
        for gpu in np.unique(self.gpu):
            mine = np.zeros(len(self.table), bool)
            mine[self.segment[self.gpu == gpu]] = True
            times_s = np.concatenate([self.table["hold_s"][mine], self.table["free_s"][mine]])
            times_s, at = np.unique(times_s, return_inverse=True)
            gangs = np.cumsum(np.bincount(at, np.repeat([1.0, -1.0], mine.sum())))[:-1]
            area = np.append(0.0, np.cumsum(np.diff(integral(series, times_s)) / np.maximum(gangs, 1.0)))
            here = np.flatnonzero(mine[segment])
            parts = []
            for time_s in (begin_s[here], until_s[here]):
                row = np.minimum(np.searchsorted(times_s, time_s, side="right") - 1, len(gangs) - 1)
                since = integral(series, time_s) - integral(series, times_s[row])
                parts.append(area[row] + since / np.maximum(gangs[row], 1.0))
            result[here, kinds[gpu]] += parts[1] - parts[0]
        return result

    def asleep(self, series: np.ndarray, energy: Energy, idle_w: np.ndarray, first_s: float, end_s: float) -> float:
        """Return what waking machines add, minus what sleep saves."""
        if energy.sleep_w is None:
            return 0.0
        nodes = self.instance.cluster.nodes
        pairs = np.unique(np.stack([self.instance.cluster.node_of_gpu[self.gpu], self.segment]), axis=1)
        hold_s, free_s = self.table["hold_s"][pairs[1]], self.table["free_s"][pairs[1]]
        order = np.lexsort([free_s, hold_s, pairs[0]])
        order = order[(hold_s < free_s)[order]]
        ends = np.searchsorted(pairs[0][order], np.arange(len(nodes) + 1))
        sums = []
        for node in range(len(nodes)):
            mine = order[ends[node] : ends[node + 1]]
            begins = np.append(first_s, np.maximum.accumulate(free_s[mine]))  # of the times without gangs
            until = np.append(hold_s[mine], end_s)
            sleeps = begins + energy.sleep_after_s
            long = sleeps < until
            saved = integral(series, until[long]) - integral(series, sleeps[long])
            sums.append(-total(saved) * nodes["gpus"][node] * (idle_w[nodes["gpu_type"][node]] - energy.sleep_w))
            woken_s = hold_s[mine][long[:-1]]
            sums.append(energy.wake_j * total(series["value"][np.searchsorted(series["time_s"], woken_s, "right") - 1]))
        return total(sums)
