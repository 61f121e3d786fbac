"""Find the weights of a makespan index by CMA-ES on training seeds (extra ``tuning``).

python -m gpusched_env.agents.makespan_index_search --seed 0 --output seed-0.npz
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from gpusched_env import __version__
from gpusched_env.agents.makespan_index import MakespanIndex, save_weights
from gpusched_env.agents.rule_search import Settings, search, training_problems
from gpusched_env.instance import Instance
from gpusched_env.portable import arrays
from gpusched_env.portable.elementary import log, power
from gpusched_env.simulator import Simulation

SCENARIO: Final = "hadar-60gpu-v1"
# Dual prices of the makespan's linear program are about these; the search multiplies those of P100 and K80.
PRICES: Final = {"V100": 0.44, "P100": 0.36, "K80": 0.2}
DIMENSIONS: Final = 6


def weights_of(vector: Sequence[float] | np.ndarray) -> tuple[dict[str, float], dict[str, float]]:
    """Return the weights and the prices of a vector; 0 = no margin, half an hour, and PRICES."""
    limit, gang, hold, period, *factors = np.asarray(vector, float).tolist()
    weights = {
        "limit": 1.0 + 0.2 * limit,
        "gang": gang,
        "hold": min(max(0.1 + 0.2 * hold, 0.0), 0.9),
        "period_s": 1_800.0 * power(4.0, min(max(period, -2.0), 4.0)),
    }
    changed = zip(("P100", "K80"), factors, strict=True)
    return weights, PRICES | {name: PRICES[name] * power(2.0, factor) for name, factor in changed}


def log_makespan(vector: np.ndarray, instances: Sequence[Instance]) -> float:
    """Return the mean logarithm of the makespan [s]."""
    found = []
    for instance in instances:
        simulation = Simulation(instance)
        simulation.run(MakespanIndex.playing(*weights_of(vector)))
        found.append(log(float(simulation.arrays.jobs["finish_s"].max())))
    return arrays.mean(found)


def main() -> None:
    """Search, and save the weights."""
    parser = argparse.ArgumentParser(description="Search the weights of a makespan index.")
    parser.add_argument("--seed", type=int, default=0, help="seed of the search (default 0)")
    parser.add_argument("--generations", type=int, default=3, help="number of generations (default 3)")
    parser.add_argument("--problems", type=int, default=8, help="number of training seeds (default 8)")
    parser.add_argument("--output", type=Path, default=Path("makespan_index.npz"), help="file to write")
    options = parser.parse_args()
    settings = Settings(options.seed, options.generations, population=6, batch=3, sigma=0.5)
    problems = training_problems(SCENARIO, options.problems)
    best, spent = search(np.zeros(DIMENSIONS), log_makespan, problems, settings)
    about: dict[str, Any] = {"version": __version__, "scenario": SCENARIO, "problems": len(problems)}
    save_weights(options.output, *weights_of(best), about | {"settings": vars(settings)} | spent)
    print(f"saved {options.output}: {spent}, {weights_of(best)}")


if __name__ == "__main__":
    main()
