"""Forecasts of the past: snapshots of a replayed log, and how often the true starts lie in the intervals."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from gpusched_env.baselines.registry import make_scheduler
from gpusched_env.errors import GpuschedError
from gpusched_env.event_log import REFUSE, START
from gpusched_env.metrics import job_times
from gpusched_env.simulator import simulate
from gpusched_env.twin.futures import NAMES, Options, sampled_starts
from gpusched_env.twin.history import DAY_S, WEEK, History
from gpusched_env.twin.model import WAIT
from gpusched_env.twin.quantiles import Calibration, Quantiles, calibrated, covered, scores
from gpusched_env.twin.settings import Setting
from gpusched_env.twin.snapshot import PresentJob, Snapshot
from gpusched_env.workload import Workload

Array = np.ndarray
WEEK_S: Final = WEEK * DAY_S  # [s]
LIMITS_H: Final = (1, 2, 4, 8, 12, 24, 48, 72, 168, 336, 720, 1440, 2160)  # [h] that users ask for
MOST_QUEUED: Final = 500  # of one snapshot; of longer queues, every n-th job is scored


@dataclass(frozen=True)
class Scored:
    """Forecasts of one snapshot.

    Parameters
    ----------
    time_s : the snapshot, in the time of the log [s]
    queued : number of queued jobs
    above, below : float64 [jobs], scores of quantiles.py
    """

    time_s: float
    queued: int
    above: Array
    below: Array


@dataclass(frozen=True)
class Coverage:
    """Part of the true starts that lie in their 80 % intervals.

    Parameters
    ----------
    calibration : factors from the first part of the snapshots
    fitted, held : numbers of jobs of the first part and of the rest
    snapshots : number of snapshots of the rest with queued jobs
    raw, calibrated : coverage of the rest with the sampled intervals, and with calibrated ones; NaN = no jobs
    earlier : the same of the weeks of the first part after its first one, each calibrated on the weeks before it; NaN =
        there is one week only
    """

    calibration: Calibration
    fitted: int
    held: int
    snapshots: int
    raw: float
    calibrated: float
    earlier: float = math.nan


def with_limits(workload: Workload, seed: int = 0) -> Workload:
    """Return the jobs with time limits as users give them, for logs without limits.

    The limit is the run time times a number from 1 to 5, rounded up to the next of LIMITS_H.
    """
    jobs = workload.jobs.copy()
    times = 1.0 + 4.0 * np.random.default_rng(seed).random(len(jobs))
    limits = np.array(LIMITS_H) * 3600.0
    asked = np.minimum(jobs["duration_s"] * times, limits[-1])
    jobs["estimate_s"] = np.maximum(limits[np.searchsorted(limits, asked)], jobs["duration_s"])
    return dataclasses.replace(workload, jobs=jobs)


@dataclass(frozen=True)
class Played:
    """A log as a policy played it.

    Parameters
    ----------
    workload : the jobs
    enter_s, start_s, finish_s : float64 [J] [s]; inf = never. A refused or cancelled job never enters the queue
    nodes : for each job, node -> GPUs of its gang
    """

    workload: Workload
    enter_s: Array
    start_s: Array
    finish_s: Array
    nodes: Sequence[dict[str, int]]

    def snapshot(self, time_s: float) -> tuple[Snapshot, Array]:
        """Return the snapshot at a time [s], and the rows of its queued jobs."""
        here = (self.enter_s <= time_s) & (self.finish_s > time_s)
        runs = np.flatnonzero(here & (self.start_s <= time_s))
        waits = np.flatnonzero(here & (self.start_s > time_s))
        return Snapshot(
            time_s,
            tuple(self._job(row) for row in runs.tolist()),
            tuple(self._job(row, True) for row in waits.tolist()),
        ), waits

    def _job(self, row: int, waits: bool = False) -> PresentJob:
        job = self.workload.jobs[row]
        told = {
            field: str(self.workload.attributes[name][row]) if name in self.workload.attributes else ""
            for field, name in NAMES.items()
        }
        return PresentJob(
            str(row), int(job["gpus"]), float(self.enter_s[row]), math.nan if waits else float(self.start_s[row]),
            float(job["estimate_s"]), told["user"], told["account"], told["partition"], told["qos"],
            nodes={} if waits else self.nodes[row],
        )  # fmt: skip

    def history(self, time_s: float) -> History:
        """Return the jobs that have ended by a time [s].

        Raises
        ------
        GpuschedError : none has
        """
        rows = np.flatnonzero(self.finish_s <= time_s)
        if not len(rows):
            raise GpuschedError(f"backtest: no job has ended by {time_s:g} s; begin the snapshots later")
        chosen = self.workload.select(rows)
        wait_s = self.start_s[rows] - chosen.jobs["arrival_s"]
        return History(dataclasses.replace(chosen, attributes={**chosen.attributes, WAIT: wait_s}))


def played(workload: Workload, setting: Setting) -> Played:
    """Play a log under the setting's policy."""
    enter_s, start_s, finish_s = (np.full(len(workload), math.inf) for _ in range(3))
    nodes: list[dict[str, int]] = [{} for _ in range(len(workload))]
    for problem in setting.problems(workload):
        instance = problem.instance
        log = simulate(instance, make_scheduler(problem.spec))
        times = job_times(instance, log)
        enter_s[problem.rows] = times["arrival_s"]
        start_s[problem.rows], finish_s[problem.rows] = times["first_start_s"], times["finish_s"]
        enter_s[problem.rows[log.events["job"][log.events["kind"] == REFUSE]]] = math.inf
        of_gpu = instance.cluster.node_of_gpu
        for event in np.flatnonzero(log.events["kind"] == START).tolist():
            found, counts = np.unique(of_gpu[log.gang(event)], return_counts=True)
            row = int(problem.rows[int(log.events["job"][event])])
            nodes[row] = {str(node): count for node, count in zip(found.tolist(), counts.tolist(), strict=True)}
    start_s[np.isnan(start_s)] = finish_s[np.isnan(finish_s)] = math.inf
    return Played(workload, enter_s, start_s, finish_s, nodes)


def scored(run: Played, setting: Setting, time_s: float, options: Options) -> Scored:
    """Forecast the starts of the jobs queued at a time [s], and compare them with the true ones."""
    snapshot, rows = run.snapshot(time_s)
    if not len(rows):
        return Scored(time_s, 0, np.empty(0), np.empty(0))
    starts = sampled_starts(snapshot, setting, run.history(time_s), options)
    truth_s = np.where(run.start_s[rows] - time_s > options.horizon_s, math.inf, run.start_s[rows] - time_s)
    each = slice(None, None, -(-len(rows) // MOST_QUEUED))
    above, below = scores(Quantiles.of(starts[:, each]), truth_s[each])
    return Scored(time_s, len(rows), above, below)


def backtest(
    run: Played,
    setting: Setting,
    first_s: float,
    split_s: float,
    end_s: float,
    every_s: float,
    options: Options,
    tell: Callable[[Scored], None] | None = None,
) -> Coverage:
    """Forecast at regular times, calibrate on those before ``split_s``, and score the rest once.

    Parameters
    ----------
    run, setting : the log as played, and the setting that played it
    first_s, end_s : time of the first snapshot, and the end of all [s]
    split_s : the first snapshot that is held back [s]
    every_s : time between snapshots [s]; one that does not divide a day visits all hours
    tell : called after each snapshot

    Raises
    ------
    GpuschedError : no snapshot
    """
    if not (first_s < split_s < end_s and every_s > 0):
        raise GpuschedError("backtest: give a first snapshot before the split, and an end after it")

    def forecasts(from_s: float, to_s: float) -> list[Scored]:
        found = []
        for number in range(math.ceil((to_s - from_s) / every_s)):
            found.append(scored(run, setting, from_s + number * every_s, options))
            if tell is not None:
                tell(found[-1])
        return found

    return coverage(forecasts(first_s, split_s), forecasts(split_s, end_s))


def coverage(fit: Sequence[Scored], rest: Sequence[Scored]) -> Coverage:
    """Calibrate on the first forecasts, and score the rest."""
    calibration = calibrated(*_joined(fit))
    above, below = _joined(rest)
    raw, better = (
        float(covered(above, below, choice).mean()) if len(above) else math.nan
        for choice in (Calibration(), calibration)
    )
    snapshots = sum(one.queued > 0 for one in rest)
    return Coverage(calibration, calibration.jobs, len(above), snapshots, raw, better, rolling(fit))


def rolling(fit: Sequence[Scored]) -> float:
    """Return the coverage of each week after the first, calibrated on the weeks before it; NaN = there are no jobs."""
    weeks = [math.floor((one.time_s - fit[0].time_s) / WEEK_S) for one in fit]
    inside = []
    for week in sorted(set(weeks))[1:]:
        before = [one for one, at in zip(fit, weeks, strict=True) if at < week]
        now = [one for one, at in zip(fit, weeks, strict=True) if at == week]
        inside.append(covered(*_joined(now), calibrated(*_joined(before))))
    jobs = np.concatenate([np.empty(0, bool), *inside])
    return float(jobs.mean()) if len(jobs) else math.nan


def _joined(found: Sequence[Scored]) -> tuple[Array, Array]:
    if not found:
        return np.empty(0), np.empty(0)
    return np.concatenate([one.above for one in found]), np.concatenate([one.below for one in found])
