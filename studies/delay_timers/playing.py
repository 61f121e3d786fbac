"""Plays of delay timers, and the scores of their runs."""

from __future__ import annotations

import dataclasses
from functools import lru_cache
from typing import Any

import numpy as np

from gpusched_env.agents.learned_timers import LearnedTimers
from gpusched_env.agents.timer_network import TimerNetwork
from gpusched_env.baselines.dally.run import DelayRun
from gpusched_env.baselines.dally.scheduler import Dally
from gpusched_env.problem.instance import Instance
from gpusched_env.reproduce.dally_tuner.problems import problem


@lru_cache(maxsize=64)
def drawn(label: str, seed: int) -> Instance:
    """Draw an instance of a problem; recent ones are cached, since training plays the same ones repeatedly."""
    return problem(label).instance(seed)


@dataclasses.dataclass(frozen=True)
class Played:
    """Result of a run: mean and 99th percentile of JCT [s], and the number of simulated jobs."""

    mean_jct_s: float
    p99_jct_s: float
    jobs: int


def play_static(instance: Instance, seed: int, waits_s: np.ndarray, **scheduler: Any) -> Played:
    """Play a run with static timers.

    Parameters
    ----------
    waits_s : float64 [G + 1, 2], rack and network timer of each demand [s]
    """
    run = DelayRun(instance, Dally(tuner="off", **scheduler), seed)
    run.waits_s[:] = waits_s
    run.play()
    return score(run)


def play_network(instance: Instance, seed: int, network: TimerNetwork, **scheduler: Any) -> Played:
    """Play a run whose timers a network sets, once every tuning interval."""
    run = DelayRun(instance, Dally(tuner="hand", **scheduler), seed, timers=LearnedTimers(network))
    run.play()
    return score(run)


def score(run: DelayRun) -> Played:
    """Return the result of a finished run."""
    jobs = run.simulation.arrays.jobs
    jct_s = jobs["finish_s"] - jobs["arrival_s"]
    return Played(float(jct_s.mean()), float(np.percentile(jct_s, 99)), len(jct_s))
