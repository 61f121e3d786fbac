"""The best timers that never change: a grid of pairs for all demands, and a search over pairs for each class."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from gpusched_env.agents.timer_problems import drawn, play_static, static_waits
from gpusched_env.envs.delay_actions import DEMAND_CLASSES, timer_action
from gpusched_env.errors import GpuschedError

MINUTE_S, HOUR_S = 60.0, 3_600.0  # [s]
GRID_S: Final = (  # [s] of the rack timer, and of the network timer beyond it
    0.0, 5 * MINUTE_S, 15 * MINUTE_S, HOUR_S, 3 * HOUR_S, 6 * HOUR_S, 12 * HOUR_S, 24 * HOUR_S, math.inf,
)  # fmt: skip
COARSE_GRID_S: Final = (0.0, HOUR_S, 6 * HOUR_S, 24 * HOUR_S, math.inf)
TRIALS: Final = 300
Told = Callable[[str], None]


def pairs(values_s: Sequence[float] = GRID_S) -> list[tuple[float, float]]:
    """All pairs (rack timer, network timer beyond it) of a grid [s]."""
    return list(itertools.product(values_s, values_s))


def pair_action(pair: tuple[float, float]) -> tuple[float, float]:
    """Give the action, for every class, that stands for a pair of the grid."""
    rack, beyond = timer_action(pair)
    return float(rack), float(beyond)


@dataclass
class StaticSearch:
    """What a search found on one problem.

    Attributes
    ----------
    action : [D, 2], the best constant action
    score : mean over seeds of mean JCT / mean JCT without waiting
    simulated_jobs : in all runs of the search, those without waiting included
    trials : scores in the order in which they were tried, with their actions
    """

    problem: str
    seeds: tuple[int, ...]
    action: list[list[float]]
    score: float
    simulated_jobs: int
    trials: list[tuple[list[list[float]], float]] = field(repr=False, default_factory=list)


class Scoring:
    """Score constant actions on some seeds of a problem, relative to no waiting at all."""

    def __init__(self, problem: str, seeds: Sequence[int]) -> None:
        if not seeds:
            raise GpuschedError("static timers: give at least one seed to search on")
        self.problem, self.seeds = problem, tuple(seeds)
        self.simulated_jobs = 0
        self._no_wait = [self._jct(seed, (-1.0, -1.0)) for seed in self.seeds]

    def __call__(self, action: Any) -> float:
        """Mean over seeds of mean JCT / mean JCT without waiting."""
        ratios = [self._jct(seed, action) / base for seed, base in zip(self.seeds, self._no_wait, strict=True)]
        return float(np.mean(ratios))

    def _jct(self, seed: int, action: Any) -> float:
        instance = drawn(self.problem, seed)
        played = play_static(instance, seed, static_waits(instance, action))
        self.simulated_jobs += played.jobs
        return played.mean_jct_s


def best_pair(scoring: Scoring, values_s: Sequence[float] = GRID_S, told: Told = lambda text: None) -> StaticSearch:
    """Try every pair of a grid on all classes alike; ties go to the shorter timers."""
    trials = []
    for pair in pairs(values_s):
        action = [list(pair_action(pair))] * (len(DEMAND_CLASSES) + 1)
        trials.append((action, scoring(action)))
        told(f"{scoring.problem}: pair {len(trials)} of {len(values_s) ** 2}, {trials[-1][1]:.4f}")
    action, score = min(trials, key=lambda trial: trial[1])
    return StaticSearch(scoring.problem, scoring.seeds, action, score, scoring.simulated_jobs, trials)


def best_per_class(
    scoring: Scoring,
    start: Sequence[Sequence[float]],
    trials: int = TRIALS,
    seed: int = 0,
    told: Told = lambda text: None,
) -> StaticSearch:
    """Search pairs for each class with Optuna's tree-structured Parzen estimator.

    Parameters
    ----------
    start : [D, 2], the action that is tried first
    trials : actions tried
    seed : of the sampler

    Raises
    ------
    GpuschedError : Optuna is not installed
    """
    try:
        import optuna
    except ImportError as error:
        raise GpuschedError('timers for each class need Optuna: pip install "gpusched-env[tuning]"') from error
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    shape = np.shape(start)
    names = [f"{number}" for number in range(int(np.prod(shape)))]
    study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=seed, multivariate=False))
    study.enqueue_trial(dict(zip(names, np.ravel(start).tolist(), strict=True)))
    tried: list[tuple[list[list[float]], float]] = []

    def score(trial: Any) -> float:
        values = [trial.suggest_float(name, -1.0, 1.0) for name in names]
        action = np.reshape(values, shape).tolist()
        tried.append((action, scoring(action)))
        told(f"{scoring.problem}: trial {len(tried)} of {trials}, {tried[-1][1]:.4f}")
        return tried[-1][1]

    study.optimize(score, n_trials=trials)
    action, best = min(tried, key=lambda trial: trial[1])
    return StaticSearch(scoring.problem, scoring.seeds, action, best, scoring.simulated_jobs, tried)
