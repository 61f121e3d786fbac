"""Search for the best static timers: a grid of pairs for all demands, and a pair for each class by Optuna.

    python -m studies.delay_timers.static_timers --output statics.json
    python -m studies.delay_timers.static_timers --quick

It plays training seeds only. ``gpusched reproduce dally-tuner`` uses the results in
gpusched_env/reproduce/dally_tuner/statics.json.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from gpusched_env import __version__
from gpusched_env.delay_timers.actions import DEMAND_CLASSES
from gpusched_env.errors import GpuschedError
from gpusched_env.reproduce.dally_tuner.grid import COARSE_GRID_S, GRID_S, pair_action, pairs, rows
from gpusched_env.reproduce.dally_tuner.problems import TESTED, TRAINING_SEEDS, problem, static_waits
from gpusched_env.support.commands import run_script
from gpusched_env.support.files import write_whole
from studies.delay_timers.playing import drawn, play_static

TRIALS: Final = 300
Told = Callable[[str], None]


@dataclass(frozen=True)
class StaticSearch:
    """Result of a search on one problem.

    Attributes
    ----------
    action : [D, 2], the best constant action
    score : mean over seeds of (mean JCT / mean JCT without waiting)
    trials : number of actions tried
    simulated_jobs : number of jobs in all its runs, including those without waiting
    """

    action: list[list[float]]
    score: float
    trials: int
    simulated_jobs: int


class Scoring:
    """Score constant actions on some seeds of a problem, relative to no waiting."""

    def __init__(self, problem: str, seeds: Sequence[int]) -> None:
        if not seeds:
            raise GpuschedError("static timers: give at least one seed to search on")
        self.problem, self.seeds = problem, tuple(seeds)
        self._simulated_jobs = 0
        self._no_wait = [self._jct(seed, (-1.0, -1.0)) for seed in self.seeds]

    def __call__(self, action: Any) -> float:
        """Return the mean over seeds of (mean JCT / mean JCT without waiting)."""
        ratios = [self._jct(seed, action) / base for seed, base in zip(self.seeds, self._no_wait, strict=True)]
        return float(np.mean(ratios))

    def _jct(self, seed: int, action: Any) -> float:
        instance = drawn(self.problem, seed)
        played = play_static(instance, seed, static_waits(instance, action))
        self._simulated_jobs += played.jobs
        return played.mean_jct_s

    def take_simulated_jobs(self) -> int:
        """Return the number of jobs simulated since the last call."""
        taken, self._simulated_jobs = self._simulated_jobs, 0
        return taken


def best_pair(scoring: Scoring, values_s: Sequence[float] = GRID_S, told: Told = lambda text: None) -> StaticSearch:
    """Try every pair of a grid for all classes at once; ties: the shorter timers."""
    tried = []
    for pair in pairs(values_s):
        action = [list(pair_action(pair))] * (len(DEMAND_CLASSES) + 1)
        tried.append((action, scoring(action)))
        told(f"{scoring.problem}: pair {len(tried)} of {len(values_s) ** 2}, {tried[-1][1]:.4f}")
    return _best(tried, scoring)


def best_per_class(
    scoring: Scoring,
    start: Sequence[Sequence[float]],
    trials: int = TRIALS,
    seed: int = 0,
    told: Told = lambda text: None,
) -> StaticSearch:
    """Search a pair for each class with Optuna's tree-structured Parzen estimator (TPE).

    Parameters
    ----------
    start : [D, 2], first action to try
    trials : number of actions to try
    seed : seed of the sampler

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
    return _best(tried, scoring)


def _best(tried: list[tuple[list[list[float]], float]], scoring: Scoring) -> StaticSearch:
    action, score = min(tried, key=lambda trial: trial[1])
    return StaticSearch(action, score, len(tried), scoring.take_simulated_jobs())


@dataclass
class SearchConfig:
    """Search for the best static timers on training seeds."""

    problems: tuple[str, ...] = tuple(TESTED)
    """Labels of gpusched_env.reproduce.dally_tuner.problems, or names of scenarios."""
    seeds: int = len(TRAINING_SEEDS)
    """Number of training seeds to play."""
    trials: int = TRIALS
    """Trials of the search per class."""
    seed: int = 0
    """Seed of the search."""
    quick: bool = False
    """One small problem, a coarse grid and few trials."""
    output: Path = Path("delay_statics.json")
    """File of the results."""


def search(config: SearchConfig, told: Told = print) -> dict[str, Any]:
    """Search on each problem; write and return the results."""
    grid_s: Sequence[float] = GRID_S
    problems, seeds, trials = config.problems, config.seeds, config.trials
    if config.quick:
        problems, grid_s, seeds, trials = ("dally-poisson-v1:load=0.9,jobs=60",), COARSE_GRID_S, 2, 12
    if not 1 <= seeds <= len(TRAINING_SEEDS) or trials < 1:
        raise GpuschedError(f"static timers: give 1 to {len(TRAINING_SEEDS)} seeds and at least one trial")
    found: dict[str, Any] = {"version": __version__, "seeds": list(TRAINING_SEEDS[:seeds]), "problems": {}}
    for name in problems:
        scoring = Scoring(name, TRAINING_SEEDS[:seeds])
        instance = drawn(name, TRAINING_SEEDS[0])
        pair = best_pair(scoring, grid_s)
        told(f"{name}: best pair {rows(pair.action, instance)}, {pair.score:.4f} of no waiting")
        by_class = best_per_class(scoring, pair.action, trials, config.seed)
        told(f"{name}: best for each class {rows(by_class.action, instance)}, {by_class.score:.4f} of no waiting")
        found["problems"][name] = {"scenario": problem(name).name, "fingerprint": problem(name).fingerprint()}
        for key, result in (("pair", pair), ("by_class", by_class)):
            found["problems"][name][key] = {"timers": rows(result.action, instance), **dataclasses.asdict(result)}
        write_whole(config.output, json.dumps(found, indent=1) + "\n")
    return found


def main(config: SearchConfig) -> None:
    """Search static timers."""
    search(config)


if __name__ == "__main__":
    run_script(main)
