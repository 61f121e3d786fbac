"""Forecasts of the past: snapshots of a replayed log, and how often the true starts lie in the intervals."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from gpusched_env.baselines.registry import make_scheduler
from gpusched_env.errors import GpuschedError
from gpusched_env.event_log import REFUSE, START
from gpusched_env.metrics import job_times
from gpusched_env.problem.workload import Workload
from gpusched_env.simulator import simulate
from gpusched_env.traces.parsing.columns import NODES
from gpusched_env.twin.futures import NAMES, Options, sampled_starts
from gpusched_env.twin.history import DAY_S, WEEK, History
from gpusched_env.twin.model import WAIT
from gpusched_env.twin.quantiles import HOURS, Quantiles
from gpusched_env.twin.settings import Setting
from gpusched_env.twin.snapshot import PresentJob, Snapshot

Array = np.ndarray
WEEK_S: Final = WEEK * DAY_S  # [s]
LIMITS_H: Final = (1, 2, 4, 8, 12, 24, 48, 72, 168, 336, 720, 1440, 2160)  # [h] that users ask for
MOST_QUEUED: Final = 500  # of one snapshot; of longer queues, every n-th job is scored


@dataclass(frozen=True)
class Scored:
    """Forecasts of the jobs that are queued at one time, and the truth; of long queues, of every n-th job.

    ``inside`` : bool [jobs], whether the true start lies in the 80 % interval; ``chances`` : float64 [len(HOURS),
    jobs], forecast probability to start within each of HOURS, and ``started`` whether it did.
    """

    time_s: float
    queued: int
    inside: Array
    chances: Array
    started: Array


@dataclass(frozen=True)
class Coverage:
    """How well forecasts agree with what happened.

    ``covered`` : part of the true starts in their 80 % intervals; NaN = no jobs. ``forecast``, ``happened`` : for each
    of HOURS, the mean probability to start within it, and the part of the jobs that did.
    """

    jobs: int
    snapshots: int
    covered: float
    forecast: tuple[float, ...]
    happened: tuple[float, ...]

    @classmethod
    def of(cls, found: Sequence[Scored]) -> Coverage:
        """Return that of forecasts, in which every job counts equally."""
        found = [one for one in found if one.queued]
        if not found:
            return cls(0, 0, math.nan, (), ())
        inside = np.concatenate([one.inside for one in found])
        forecast, happened = (
            tuple(np.concatenate(parts, axis=1).mean(axis=1).tolist())
            for parts in ([one.chances for one in found], [one.started for one in found])
        )
        return cls(len(inside), len(found), float(inside.mean()), forecast, happened)


def with_limits(workload: Workload, seed: int = 0) -> Workload:
    """Return the jobs with limits as users give them: run time x 1 to 5, rounded up to the next of LIMITS_H."""
    jobs = workload.jobs.copy()
    times = 1.0 + 4.0 * np.random.default_rng(seed).random(len(jobs))
    limits = np.array(LIMITS_H) * 3600.0
    asked = np.minimum(jobs["duration_s"] * times, limits[-1])
    jobs["estimate_s"] = np.maximum(limits[np.searchsorted(limits, asked)], jobs["duration_s"])
    return dataclasses.replace(workload, jobs=jobs)


@dataclass(frozen=True)
class Played:
    """A log as a policy played it.

    Times are float64 [J] [s], inf = never; ``nodes`` : for each job, node -> GPUs of its gang.
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
        priority = self.workload.attributes["priority"][row] if "priority" in self.workload.attributes else 0.0
        nodes: dict[str, Any] = {
            name: int(self.workload.attributes[name][row]) for name in NODES if name in self.workload.attributes
        }
        return PresentJob(
            str(row), int(job["gpus"]), float(self.enter_s[row]), math.nan if waits else float(self.start_s[row]),
            float(job["estimate_s"]), told["user"], told["account"], told["partition"], told["qos"],
            told["queue"], max(float(priority), 0.0), nodes={} if waits else self.nodes[row],
            gpu_types=told["gpu_types"], **nodes,
        )  # fmt: skip

    def history(self, time_s: float) -> History:
        """Return the jobs that have ended by a time [s]."""
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
        return Scored(time_s, 0, np.empty(0, bool), np.empty((len(HOURS), 0)), np.empty((len(HOURS), 0), bool))
    starts = sampled_starts(snapshot, setting, run.history(time_s), options)
    each = slice(None, None, -(-len(rows) // MOST_QUEUED))
    wait_s = run.start_s[rows][each] - time_s
    found = Quantiles.of(starts[:, each])
    inside = found.contain(np.where(wait_s > options.horizon_s, math.inf, wait_s))
    within_s = [hours * 3600.0 for hours in HOURS]
    chances = np.array([found.probability(one) for one in within_s])
    return Scored(time_s, len(rows), inside, chances, np.array([wait_s <= one for one in within_s]))


def backtest(
    run: Played,
    setting: Setting,
    first_s: float,
    end_s: float,
    every_s: float,
    options: Options,
    tell: Callable[[Scored], None] | None = None,
) -> Coverage:
    """Forecast at regular times, and compare with what happened.

    ``every_s`` : time between snapshots; one that does not divide a day visits all hours.
    """
    if not (first_s < end_s and every_s > 0):
        raise GpuschedError("backtest: give an end after the first snapshot, and a time between snapshots above 0")
    found = []
    for number in range(math.ceil((end_s - first_s) / every_s)):
        found.append(scored(run, setting, first_s + number * every_s, options))
        if tell is not None:
            tell(found[-1])
    return Coverage.of(found)
