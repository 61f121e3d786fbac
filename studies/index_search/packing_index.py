"""The search for the weights of a packing index, on training seeds (extra ``tuning``).

python -m studies.index_search.packing_index --seed 0 --output packing-0.npz
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from gpusched_env import __version__
from gpusched_env.agents.packing_index.scheduler import DEFAULTS, NAMES, PackingIndex
from gpusched_env.problem.instance import Instance
from gpusched_env.support.consoles import run_command
from studies.index_search.rule_search import Settings, mean_log_jct, read_options, search, training_problems

SCENARIO: Final = "bsbf-sim-240-v1"
STEPS: Final = np.array([0.5, 0.5, 0.1, 0.2, 0.3])  # change of each weight by a step of 1


def weights_of(vector: np.ndarray) -> tuple[float, ...]:
    """Return the weights of a vector, to four decimals; 0 = the defaults."""
    weights: list[float] = np.round(np.array(DEFAULTS) + STEPS * vector, 4).tolist()
    return tuple(weights)


def log_jct(vector: np.ndarray, instances: Sequence[Instance]) -> float:
    """Return the mean logarithm of the mean JCT [s]."""
    weights = weights_of(vector)
    # Without a least bonus, so that the score changes where a weight falls below 0.
    return mean_log_jct(lambda: PackingIndex.playing(weights, least_bonus=-math.inf), instances)


def main() -> None:
    """Search, and save the weights."""
    options = read_options("a packing index", generations=24, problems=96, output="packing_index.npz")
    settings = Settings(options.seed, options.generations, population=14, batch=32, sigma=0.7)
    problems = training_problems(SCENARIO, options.problems)
    best, spent = search(np.zeros(len(NAMES)), log_jct, problems, settings)
    about: dict[str, Any] = {"version": __version__, "scenario": SCENARIO, "problems": len(problems)}
    PackingIndex.save(options.output, weights_of(best), about | {"settings": vars(settings)} | spent)
    print(f"saved {options.output}: {spent}, {weights_of(best)}")


if __name__ == "__main__":
    run_command(main)
