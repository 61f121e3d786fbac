"""The search for the weights of an order search, on training seeds (extra ``tuning``).

python -m studies.index_search.orders --seed 0 --output orders-0.npz
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np

from gpusched_env.agents.order_search import DEFAULTS, OrderSearch
from gpusched_env.portable import arrays
from gpusched_env.portable.elementary import log
from gpusched_env.problem.instance import Instance
from gpusched_env.simulator import Simulation
from gpusched_env.support.commands import run_script
from studies.index_search.rule_search import Settings, search, training_problems
from studies.index_search.saving import save_weights

SCENARIO: Final = "rar-160-v0"
REHEARSALS: Final = 40  # of a play in the training
SETTINGS: Final = Settings(Path("order_search.npz"), problems=100, generations=12, population=8, batch=10, sigma=0.7)


def weights_of(vector: np.ndarray) -> tuple[float, ...]:
    """Return the weights of a vector, to four decimals; 0 = the defaults."""
    gang, spread, noise, pack, skip, jump = DEFAULTS
    wider, noisier, further = arrays.exp(0.5 * vector[[1, 2, 5]])
    packs, skips = np.clip(np.array([pack, skip]) + 0.2 * vector[3:5], 0.0, 1.0)
    found = np.array([gang + 0.04 * vector[0], spread * wider, noise * noisier, packs, skips, jump * further])
    weights: list[float] = np.round(found, 4).tolist()
    return tuple(weights)


def makespan_s(weights: tuple[float, ...], instance: Instance, rehearsals: int) -> float:
    """Return the makespan of an order search [s]."""
    simulation = Simulation(instance)
    simulation.run(OrderSearch.playing(weights, rehearsals=rehearsals))
    jobs = simulation.arrays.jobs
    return float(jobs["finish_s"].max() - jobs["arrival_s"].min())


def log_makespan(vector: np.ndarray, instances: Sequence[Instance]) -> float:
    """Return the mean logarithm of the makespan [s]."""
    return arrays.mean([log(makespan_s(weights_of(vector), one, REHEARSALS)) for one in instances])


def has_room(instance: Instance) -> bool:
    """Return whether some order with few rehearsals is better than the first one; on most seeds, none can be."""
    return makespan_s(DEFAULTS, instance, REHEARSALS) < makespan_s(DEFAULTS, instance, 1)


def main(settings: Settings = SETTINGS) -> None:
    """Search, and save the weights."""
    problems = [one for one in training_problems(SCENARIO, settings.problems) if has_room(one)]
    best, about = search(np.zeros(len(DEFAULTS)), log_makespan, problems, settings, REHEARSALS)
    save_weights(OrderSearch, settings.output, weights_of(best), {"scenario": SCENARIO} | about)
    print(f"saved {settings.output}: {about}, {weights_of(best)}")


if __name__ == "__main__":
    run_script(main)
