"""How schedulers do on the test windows: paired ratios of JCT, with intervals by hierarchical bootstrap."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from gpusched_env.agents.unseen_logs.windows import LOGS, Window
from gpusched_env.baselines import make_scheduler
from gpusched_env.instance import Instance
from gpusched_env.portable import arrays
from gpusched_env.simulator import Simulation

RESAMPLES: Final = 2_000
_TAIL: Final = 0.99


@dataclass(frozen=True)
class Played:
    """One run of a scheduler on a window.

    Attributes
    ----------
    mean_jct_s, p99_jct_s : mean and 99th percentile of JCT [s]
    worst_tenth_s : mean JCT of the tenth of the jobs with the largest JCT [s]
    makespan_s : end of the last job [s]
    unfinished : jobs that have not finished
    preemptions : preemptions per job
    """

    mean_jct_s: float
    p99_jct_s: float
    worst_tenth_s: float
    makespan_s: float
    unfinished: int
    preemptions: float


def play(spec: str, instance: Instance) -> Played:
    """Play a scheduler on a window."""
    simulation = Simulation(instance)
    simulation.run(make_scheduler(spec))
    jobs = simulation.arrays.jobs
    done = np.isfinite(jobs["finish_s"])
    jct_s = np.sort(jobs["finish_s"][done] - jobs["arrival_s"][done])
    return Played(
        mean_jct_s=arrays.mean(jct_s),
        p99_jct_s=float(np.quantile(jct_s, _TAIL)),
        worst_tenth_s=arrays.mean(jct_s[-max(len(jct_s) // 10, 1) :]),
        makespan_s=float(jobs["finish_s"][done].max()),
        unfinished=int((~done).sum()),
        preemptions=float(jobs["preemptions"].sum()) / len(jobs),
    )


def by_log(windows: Sequence[Window]) -> dict[str, list[Window]]:
    """Return the windows of each log of the study."""
    logs: dict[str, list[Window]] = {}
    for window in windows:
        logs.setdefault(LOGS[window.part], []).append(window)
    return logs


def ratio(
    agents: Sequence[Mapping[Window, Played]], rival: Mapping[Window, Played], windows: Sequence[Window], field: str
) -> tuple[float, float, float]:
    """Return the geometric mean of agent / rival over agents and windows, and its 95 % interval.

    Parameters
    ----------
    agents : results of each agent, one for each training seed
    rival : results of the rival on the same windows
    field : a field of :class:`Played`

    Notes
    -----
    Hierarchical bootstrap: each resample draws agents, and for each of them windows, both with replacement.
    """
    logs = np.array(
        [[getattr(agent[window], field) / getattr(rival[window], field) for window in windows] for agent in agents]
    )
    logs = arrays.log(logs)
    rng = np.random.default_rng(0)
    count, length = logs.shape
    means = np.empty(RESAMPLES)
    for i in range(RESAMPLES):
        chosen = rng.integers(count, size=count)
        rows = rng.integers(length, size=(count, length))
        means[i] = logs[chosen[:, None], rows].mean()
    low, high = np.quantile(means, (0.025, 0.975))
    middle, low, high = arrays.exp(np.array([logs.mean(), low, high])).tolist()
    return middle, low, high


def as_dict(played: Played) -> dict[str, float]:
    """Return plain data for JSON."""
    return dataclasses.asdict(played)
