"""Scores of runs on the windows of the study, and ratios of schedulers with their intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec
import numpy as np

from gpusched_env.portable import arrays
from gpusched_env.problem.instance import Instance
from gpusched_env.simulator import Scheduler, Simulation
from studies.index_search.measure import ratio_over_agents
from studies.unseen_logs.windows import LOGS, Window

_TAIL: Final = 0.99


class Score(msgspec.Struct, frozen=True):
    """What a run of a scheduler on a window gives.

    Attributes
    ----------
    mean_jct_s, p99_jct_s : mean and 99th percentile of JCT [s]
    worst_tenth_s : mean JCT of the tenth of the jobs with the largest JCT [s]
    makespan_s : end of the last job [s]
    unfinished : jobs that have not finished
    preemptions : preemptions per job
    jobs : number of jobs
    """

    mean_jct_s: float
    p99_jct_s: float
    worst_tenth_s: float
    makespan_s: float
    unfinished: int
    preemptions: float
    jobs: int


def score(scheduler: Scheduler, instance: Instance, last: int = 0) -> Score:
    """Play a scheduler on a window; only the ``last`` jobs are scored, 0 = all."""
    simulation = Simulation(instance)
    simulation.run(scheduler)
    jobs = simulation.arrays.jobs[-last:]
    done = jobs[np.isfinite(jobs["finish_s"])]
    jct_s = np.sort(done["finish_s"] - done["arrival_s"])
    return Score(
        mean_jct_s=arrays.mean(jct_s),
        p99_jct_s=float(np.quantile(jct_s, _TAIL)),
        worst_tenth_s=arrays.mean(jct_s[-max(len(jct_s) // 10, 1) :]),
        makespan_s=float(done["finish_s"].max()),
        unfinished=len(jobs) - len(done),
        preemptions=float(jobs["preemptions"].sum()) / len(jobs),
        jobs=len(jobs),
    )


def by_log(windows: Sequence[Window]) -> dict[str, list[str]]:
    """Return the names of the windows of each log."""
    logs: dict[str, list[str]] = {}
    for window in windows:
        logs.setdefault(LOGS.get(window.part, window.part), []).append(window.name)
    return logs


def ratio(
    agents: Sequence[Mapping[str, Score]], rival: Mapping[str, Score], windows: Sequence[str], field: str
) -> tuple[float, float, float]:
    """Return the geometric mean of agent / rival over agents and windows, and its 95 % interval.

    Parameters
    ----------
    agents : scores by window of each agent, one for each training seed
    rival : scores by window of the rival
    windows : names of windows
    field : a field of :class:`Score`

    Notes
    -----
    The interval is that of :func:`ratio_over_agents`.
    """
    mine = np.array([[getattr(agent[window], field) for window in windows] for agent in agents])
    return ratio_over_agents(mine / np.array([getattr(rival[window], field) for window in windows]))
