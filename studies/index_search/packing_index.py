"""The search for the weights of a packing index, on training seeds (extra ``tuning``).

python -m studies.index_search.packing_index --seed 0 --output packing-0.npz
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np

from gpusched_env.agents.packing_index import DEFAULTS, NAMES, PackingIndex
from gpusched_env.problem.instance import Instance
from gpusched_env.support.commands import run_script
from studies.index_search.rule_search import Settings, mean_log_jct, search, training_problems
from studies.index_search.saving import save_weights

SCENARIO: Final = "bsbf-sim-240-v1"
STEPS: Final = np.array([0.5, 0.5, 0.1, 0.2, 0.3])  # change of each weight by a step of 1
SETTINGS: Final = Settings(Path("packing_index.npz"), problems=96, generations=24, population=14, batch=32, sigma=0.7)


def weights_of(vector: np.ndarray) -> tuple[float, ...]:
    """Return the weights of a vector, to four decimals; 0 = the defaults."""
    weights: list[float] = np.round(np.array(DEFAULTS) + STEPS * vector, 4).tolist()
    return tuple(weights)


def log_jct(vector: np.ndarray, instances: Sequence[Instance]) -> float:
    """Return the mean logarithm of the mean JCT [s]."""
    weights = weights_of(vector)
    # Without a least bonus, so that the score changes where a weight falls below 0.
    return mean_log_jct(lambda: PackingIndex.playing(weights, least_bonus=-math.inf), instances)


def main(settings: Settings = SETTINGS) -> None:
    """Search, and save the weights."""
    best, about = search(np.zeros(len(NAMES)), log_jct, training_problems(SCENARIO, settings.problems), settings)
    save_weights(PackingIndex, settings.output, weights_of(best), {"scenario": SCENARIO} | about)
    print(f"saved {settings.output}: {about}, {weights_of(best)}")


if __name__ == "__main__":
    run_script(main)
