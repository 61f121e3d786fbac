"""Search the weights of a size index by CMA-ES on training seeds.

    python -m studies.index_search.size_index --output runs/elastic

The score of weights is the mean over seeds of ln(mean JCT). All samples of a generation play the same seeds.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from gpusched_env.agents.size_index import SizeIndex, SizeWeights
from gpusched_env.portable import arrays, elementary
from gpusched_env.problem.instance import Instance
from gpusched_env.scenarios import get_scenario
from gpusched_env.simulator import Simulation
from gpusched_env.support.commands import run_script
from studies.index_search.cma import cma_es
from studies.index_search.saving import save_sizes

SCENARIO: Final = "pollux-64-v0"
NAMES: Final = tuple(one.name for one in dataclasses.fields(SizeWeights) if one.name != "clairvoyant")
START: Final = SizeWeights(work=0.5, spread=0.5, start=1.0, keep=0.5)
STEP: Final = 0.3  # standard deviation of the first samples


@dataclass
class Settings:
    """Search the weights of a size index by CMA-ES."""

    output: Path = Path("runs/elastic")
    """Folder of the weights."""
    seed: int = 0
    """Seed of the search; it also chooses the training seeds."""
    generations: int = 16
    """Number of generations."""
    population: int = 8
    """Samples of a generation."""
    batch: int = 4
    """Training seeds that each sample of a generation plays."""
    final: int = 8
    """Training seeds on which the last means of the search are compared."""
    clairvoyant: bool = False
    """Whether the index knows the time that jobs have left."""


def weights_of(vector: np.ndarray, clairvoyant: bool) -> SizeWeights:
    """Return the weights of a sample, rounded to four decimals."""
    return SizeWeights(**dict(zip(NAMES, np.round(vector, 4).tolist(), strict=True)), clairvoyant=clairvoyant)


def score(weights: SizeWeights, instances: Sequence[Instance]) -> float:
    """Return the mean over instances of ln(mean JCT)."""
    found = []
    for instance in instances:
        simulation = Simulation(instance)
        simulation.run(SizeIndex.playing(weights))
        jobs = simulation.arrays.jobs
        found.append(elementary.log(arrays.mean(jobs["finish_s"] - jobs["arrival_s"])))
    return arrays.mean(found)


def search(settings: Settings) -> Path:
    """Search, save the best mean of a generation, and return its file."""
    begun, scenario = time.process_time(), get_scenario(SCENARIO)
    first = scenario.seeds.train[0] + 10_000 * settings.seed
    start = np.array([getattr(START, name) for name in NAMES])
    optimiser = cma_es(start, STEP, settings.population, settings.seed)
    means = [start]
    for generation in range(settings.generations):
        seeds = range(first + generation * settings.batch, first + (generation + 1) * settings.batch)
        instances = [scenario.instance(seed) for seed in seeds]
        vectors = [optimiser.ask() for _ in range(settings.population)]
        scores = [score(weights_of(vector, settings.clairvoyant), instances) for vector in vectors]
        optimiser.tell(list(zip(vectors, scores, strict=True)))
        means.append(optimiser.mean.copy())
        print(
            f"generation {generation}: best {min(scores):.4f}, {weights_of(means[-1], settings.clairvoyant)}",
            flush=True,
        )
    last = first + settings.generations * settings.batch
    instances = [scenario.instance(seed) for seed in range(last, last + settings.final)]
    tried = [weights_of(mean, settings.clairvoyant) for mean in means[-4:]]
    scores = [score(weights, instances) for weights in tried]
    best = tried[int(np.argmin(scores))]
    runs = settings.generations * settings.population * settings.batch + len(tried) * settings.final
    about: dict[str, Any] = {
        "scenario": SCENARIO,
        "settings": {name: value for name, value in vars(settings).items() if name != "output"},
        "score": round(min(scores), 4),
        "simulated_jobs": runs * len(instances[0].workload),
        "cpu_hours": round((time.process_time() - begun) / 3600, 3),
    }
    settings.output.mkdir(parents=True, exist_ok=True)
    file = settings.output / "model.npz"
    save_sizes(best, file, about)
    print(f"saved {file}: {best}, {about}")
    return file


if __name__ == "__main__":
    run_script(search)
