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
# What counts as one independent group of jobs -> its length [s]; NaN = each job, 0 = those of one snapshot
GROUPS: Final = {"jobs": math.nan, "snapshots": 0.0, "days": DAY_S, "weeks": WEEK_S}
WANTED: Final = 0.8  # coverage
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
class Tried:
    """A candidate of the grid: a step between forecasts, and what counts as one independent group of jobs.

    Parameters
    ----------
    every_s : time between forecasts [s]
    groups : name of one of GROUPS
    covered : part of the true starts that lie in their intervals, if each block of time is left out once
    """

    every_s: float
    groups: str
    covered: float

    @property
    def miss(self) -> float:
        """Distance of the coverage from 80 %, rounded so that equal candidates are equal."""
        return round(abs(self.covered - WANTED), 6)


@dataclass(frozen=True)
class Coverage:
    """Part of the true starts that lie in their 80 % intervals.

    Parameters
    ----------
    calibration : factors from the first part of the snapshots
    fitted, held : numbers of jobs of the first part and of the rest
    snapshots : number of snapshots of the rest with queued jobs
    raw, calibrated : coverage of the rest with the sampled intervals, and with calibrated ones; NaN = no jobs
    chosen : the candidate that was used
    tried : all candidates
    """

    calibration: Calibration
    fitted: int
    held: int
    snapshots: int
    raw: float
    calibrated: float
    chosen: Tried
    tried: tuple[Tried, ...] = ()


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
    every_s: Sequence[float],
    options: Options,
    tell: Callable[[Scored], None] | None = None,
) -> Coverage:
    """Forecast at regular times, choose and calibrate on those before ``split_s``, and score the rest once.

    Parameters
    ----------
    run, setting : the log as played, and the setting that played it
    first_s, end_s : time of the first snapshot, and the end of all [s]
    split_s : the first snapshot that is held back [s]
    every_s : times between snapshots among which the part before ``split_s`` chooses [s]; a time that does not divide a
        day visits all hours
    tell : called after each snapshot

    Raises
    ------
    GpuschedError : no snapshot
    """
    if not (first_s < split_s < end_s and every_s and min(every_s) > 0):
        raise GpuschedError("backtest: give a first snapshot before the split, and an end after it")

    def forecasts(from_s: float, to_s: float, step_s: float) -> list[Scored]:
        found = []
        for number in range(math.ceil((to_s - from_s) / step_s)):
            found.append(scored(run, setting, from_s + number * step_s, options))
            if tell is not None:
                tell(found[-1])
        return found

    fits = {step_s: forecasts(first_s, split_s, step_s) for step_s in every_s}
    tried = candidates(fits)
    chosen = min(tried, key=lambda one: one.miss)
    return coverage(fits[chosen.every_s], forecasts(split_s, end_s, chosen.every_s), chosen, tried)


def candidates(fits: dict[float, list[Scored]]) -> tuple[Tried, ...]:
    """Return the coverage of each candidate, where each block of the forecasts is left out of the calibration once.

    A block is a week if the forecasts span at least three weeks, else a day. Candidates are in the order of ``fits``,
    then of GROUPS; the first one with the least ``miss`` is to be chosen.
    """
    found = []
    for every_s, fit in fits.items():
        first_s = fit[0].time_s
        block_s = WEEK_S if fit[-1].time_s + every_s - first_s >= 3 * WEEK_S else DAY_S
        block = [math.floor((one.time_s - first_s) / block_s) for one in fit]
        for groups in GROUPS:
            inside = []
            for out in sorted(set(block)):
                rest = [one for one, at in zip(fit, block, strict=True) if at != out]
                left_out = [one for one, at in zip(fit, block, strict=True) if at == out]
                inside.append(covered(*_joined(left_out), _calibrated(rest, groups)))
            jobs = np.concatenate(inside)
            found.append(Tried(every_s, groups, float(jobs.mean()) if len(jobs) else 0.0))
    return tuple(found)


def coverage(fit: Sequence[Scored], rest: Sequence[Scored], chosen: Tried, tried: tuple[Tried, ...] = ()) -> Coverage:
    """Calibrate on the first forecasts, and score the rest."""
    calibration = _calibrated(fit, chosen.groups)
    above, below = _joined(rest)
    raw, better = (
        float(covered(above, below, choice).mean()) if len(above) else math.nan
        for choice in (Calibration(), calibration)
    )
    snapshots = sum(one.queued > 0 for one in rest)
    return Coverage(calibration, calibration.jobs, len(above), snapshots, raw, better, chosen, tried)


def _calibrated(fit: Sequence[Scored], groups: str) -> Calibration:
    """Calibrate on forecasts, whose jobs form groups of this kind."""
    length_s = GROUPS[groups]
    if math.isnan(length_s):
        return calibrated(*_joined(fit))
    times = [one.time_s for one in fit if one.queued]
    return calibrated(
        *_joined(fit), groups=len({math.floor(time_s / length_s) if length_s else time_s for time_s in times})
    )


def _joined(found: Sequence[Scored]) -> tuple[Array, Array]:
    if not found:
        return np.empty(0), np.empty(0)
    return np.concatenate([one.above for one in found]), np.concatenate([one.below for one in found])
