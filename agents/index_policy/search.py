"""The search for the weights of an index policy, on the training windows of the study of unseen logs.

``python -m gpusched_env.agents.index_policy.search LOGS --seed 0`` finds those of the agent that ships (extra
``tuning``).
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from gpusched_env.agents.cma import cma_es
from gpusched_env.agents.index_policy.rule import INPUTS, TERMS, IndexRule
from gpusched_env.agents.index_policy.scheduler import IndexPolicy
from gpusched_env.agents.unseen_logs.windows import TRAINING, Window, list_windows
from gpusched_env.instance import Instance
from gpusched_env.portable import arrays
from gpusched_env.portable.elementary import log
from gpusched_env.simulator import Simulation

LARGEST: Final = 32  # nodes of the largest cluster of the search
TAIL_WEIGHT: Final = 0.15  # weight of the logarithm of the 99th percentile of JCT, relative to that of the mean
REPORT: Final = 10  # generations between two scores on all windows
# What the search begins at, in units in which a step of 1 changes the schedule about equally: queues near the bounds
# that Optuna found for Tiresias, arrival order within each, and similar jobs ahead of unknown ones.
START: Final[Mapping[str, tuple[float, ...]]] = {
    "linear": (1.0, 0.0, 0.5, 0.0, 0.0),
    "bounds": (1.5, 2.125, 2.75),
    "heights": (1.0, 1.0, 1.0),
    "hold": (2.5,),
    "least_run_s": (-1.0,),
    "aging": (1.0,),
    "patience_s": (0.0, 1.0, 0.0, 0.0),
    "links_factor": (2.5,),
    "move_factor": (-1.0,),
}


@dataclass(frozen=True)
class Settings:
    """Settings of a search.

    Parameters
    ----------
    seed : of the first hidden weights, the samples, and the windows of each generation
    generations : number of generations
    population : rules tried in a generation
    batch : windows on which each of them is played
    sigma : standard deviation of the samples of the first generation
    hidden : number of hidden units; 0 = a linear rule, with bounds of attained service
    """

    seed: int = 0
    generations: int = 40
    population: int = 18
    batch: int = 16
    sigma: float = 0.12
    hidden: int = 8


def start_vector(seed: int, hidden: int) -> np.ndarray:
    """Return the vector at which a search begins: START, and random hidden units that do not matter yet."""
    inner = np.random.default_rng(seed).normal(0.0, 0.5, (len(INPUTS), hidden))
    parts = [inner.ravel(), np.zeros(2 * hidden), *(np.array(values) for values in START.values())]
    return np.concatenate(parts)


def rule_of(vector: np.ndarray) -> IndexRule:
    """Return the rule of a vector; times and factors are powers of 4."""
    at, fixed = 0, sum(map(len, START.values()))
    hidden = (len(vector) - fixed) // (len(INPUTS) + 2)

    def take(count: int) -> np.ndarray:
        nonlocal at
        at += count
        return vector[at - count : at].copy()

    inner = take(len(INPUTS) * hidden).reshape(len(INPUTS), hidden)
    bias, outer = take(hidden), take(hidden)
    parts = {name: take(len(values)) for name, values in START.items()}
    per_excess, constant = np.split(_power_of_4(parts["patience_s"]), 2)
    return IndexRule(
        linear=parts["linear"] * np.array([1.0, 1.0, 1.0, 5.0, 1.0])[: len(TERMS)],
        inner=inner,
        bias=bias,
        outer=3.0 * outer,
        bounds=4.0 * parts["bounds"],
        heights=10.0 * parts["heights"],
        hold=2.0 * max(float(parts["hold"][0]), 0.0),
        least_run_s=60.0 * float(_power_of_4(parts["least_run_s"])[0]),
        aging=0.5 * max(float(parts["aging"][0]), 0.0),
        patience_s=np.stack([7_200.0 * per_excess, 60.0 * constant], axis=1),
        links_factor=float(_power_of_4(parts["links_factor"])[0]),
        move_factor=max(10.0 * float(_power_of_4(parts["move_factor"])[0]), 1.0),
    )


def _power_of_4(exponents: np.ndarray) -> np.ndarray:
    """Four to the power of bounded exponents."""
    return arrays.power(4.0, np.clip(exponents, -5.0, 5.0))


def log_jct(rule: IndexRule, instance: Instance) -> tuple[float, float]:
    """Return the logarithms of mean and 99th percentile of the JCT of a rule [s]."""
    simulation = Simulation(instance)
    simulation.run(IndexPolicy.playing(rule))
    jobs = simulation.arrays.jobs
    jct_s = jobs["finish_s"] - jobs["arrival_s"]
    return log(arrays.mean(jct_s)), log(float(np.quantile(jct_s, 0.99)))


def score(rule: IndexRule, instances: Sequence[Instance]) -> float:
    """Return what the search makes small: a mean over windows, so ratios between rules count equally in each."""
    means, tails = np.array([log_jct(rule, instance) for instance in instances]).T
    return arrays.mean(means) + TAIL_WEIGHT * arrays.mean(tails)


def search(problems: Mapping[Window, Instance], settings: Settings) -> tuple[IndexRule, dict[str, Any]]:
    """Search by CMA-ES; return the best of the means of the distribution, and what was spent.

    Raises
    ------
    GpuschedError : the package cmaes is not installed
    """
    windows, begun, jobs = list(problems), time.process_time(), 0
    rng = np.random.default_rng(settings.seed)
    start = start_vector(settings.seed, settings.hidden)
    optimiser = cma_es(start, settings.sigma, settings.population, settings.seed)
    best, best_score = optimiser.mean, np.inf
    for generation in range(1, settings.generations + 1):
        chosen = [windows[i] for i in rng.permutation(len(windows))[: settings.batch]]
        vectors = [optimiser.ask() for _ in range(settings.population)]
        # The same windows for all, so that scores differ by the rules alone.
        instances = [problems[window] for window in chosen]
        optimiser.tell([(vector, score(rule_of(vector), instances)) for vector in vectors])
        jobs += settings.population * sum(window.jobs for window in chosen)
        if generation % REPORT == 0 or generation == settings.generations:
            now = score(rule_of(optimiser.mean), list(problems.values()))
            jobs += sum(window.jobs for window in windows)
            if now < best_score:
                best, best_score = optimiser.mean.copy(), now
            print(f"seed {settings.seed}, generation {generation}: {now:.4f} (best {best_score:.4f})", flush=True)
    spent = {"simulated_jobs": jobs, "cpu_hours": round((time.process_time() - begun) / 3600, 2)}
    return rule_of(best), {"score": round(best_score, 4), **spent}


def main() -> None:
    """Search, and save the rule."""
    parser = argparse.ArgumentParser(description="Search the weights of an index policy.")
    parser.add_argument("logs", type=Path, help="folder of the logs")
    parser.add_argument("--seed", type=int, default=0, help="seed of the search (default 0)")
    parser.add_argument("--generations", type=int, default=40, help="number of generations (default 40)")
    parser.add_argument("--hidden", type=int, default=8, help="hidden units (default 8); 0 = a linear rule")
    parser.add_argument("--output", type=Path, default=Path("index_policy.npz"), help="file to write")
    options = parser.parse_args()
    windows = [window for window in list_windows(TRAINING) if window.nodes <= LARGEST]
    settings = Settings(options.seed, options.generations, hidden=options.hidden)
    rule, about = search({window: window.instance(options.logs) for window in windows}, settings)
    rule.save(options.output, {"windows": len(windows), "settings": vars(settings), **about})
    print(f"saved {options.output}: {about}")


if __name__ == "__main__":
    main()
