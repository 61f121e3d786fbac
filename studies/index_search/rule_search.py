"""The search for the weights of a rule that decides in a compiled loop: CMA-ES, on few problems in each generation."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from gpusched_env import __version__
from gpusched_env.errors import GpuschedError
from gpusched_env.portable import arrays
from gpusched_env.portable.elementary import log
from gpusched_env.problem.instance import Instance
from gpusched_env.scenarios import get_scenario
from gpusched_env.simulator import Scheduler, Simulation
from studies.index_search.cma import cma_es

REPORT: Final = 10  # generations between two scores on all problems
Score = Callable[[np.ndarray, Sequence[Instance]], float]  # (weights, problems) -> score to minimise


@dataclass(frozen=True)
class Settings:
    """Settings of a search."""

    output: Path
    """File to write."""
    problems: int
    """Number of training seeds."""
    generations: int = 40
    """Number of generations; 0 = the weights at which the search begins."""
    population: int = 18
    """Rules tried in a generation."""
    batch: int = 16
    """Problems on which each of them is played."""
    sigma: float = 0.12
    """Standard deviation of the samples of the first generation."""
    seed: int = 0
    """Seed of the samples, of the problems of each generation, and of first weights that are random."""


def search(
    start: np.ndarray, score: Score, problems: Sequence[Instance], settings: Settings, rehearsals: int = 1
) -> tuple[np.ndarray, dict[str, Any]]:
    """Return the best of the means of the distribution, by its score on all problems, and metadata of its file.

    Parameters
    ----------
    rehearsals : simulations of a play at most

    Raises
    ------
    GpuschedError : there are no problems, or the package cmaes is not installed
    """
    if not problems:
        raise GpuschedError("a search needs training problems from which it can learn: give more with --problems")
    begun, jobs = time.process_time(), 0
    rng = np.random.default_rng(settings.seed)
    optimiser = cma_es(start, settings.sigma, settings.population, settings.seed)
    best, best_score = optimiser.mean, np.inf if settings.generations else score(start, problems)
    for generation in range(1, settings.generations + 1):
        # The same problems for all, so that scores differ by the rules alone.
        chosen = [problems[i] for i in rng.permutation(len(problems))[: settings.batch]]
        vectors = [optimiser.ask() for _ in range(settings.population)]
        optimiser.tell([(vector, score(vector, chosen)) for vector in vectors])
        jobs += settings.population * sum(len(instance.workload) for instance in chosen)
        if generation % REPORT == 0 or generation == settings.generations:
            now = score(optimiser.mean, problems)
            jobs += sum(len(instance.workload) for instance in problems)
            if now < best_score:
                best, best_score = optimiser.mean.copy(), now
            print(f"seed {settings.seed}, generation {generation}: {now:.4f} (best {best_score:.4f})", flush=True)
    return best, {
        "version": __version__,
        "settings": {name: value for name, value in vars(settings).items() if isinstance(value, int | float)},
        "problems": len(problems),
        "score": round(best_score, 4),
        "simulated_jobs": rehearsals * jobs,
        "cpu_hours": round((time.process_time() - begun) / 3600, 4),
    }


def training_problems(scenario: str, count: int) -> list[Instance]:
    """Draw the first ``count`` training problems of a scenario."""
    found = get_scenario(scenario)
    first, end = found.seeds.train
    return [found.instance(seed) for seed in range(first, min(first + count, end))]


def mean_log_jct(policy: Callable[[], Scheduler], instances: Sequence[Instance]) -> float:
    """Return the mean logarithm of the mean JCT [s]; ``policy`` makes the scheduler of each run."""
    found = []
    for instance in instances:
        simulation = Simulation(instance)
        simulation.run(policy())
        jobs = simulation.arrays.jobs
        found.append(log(arrays.mean(jobs["finish_s"] - jobs["arrival_s"])))
    return arrays.mean(found)
