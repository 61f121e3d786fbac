"""The search for the weights of a sharing index, on training seeds (extra ``tuning``).

python -m studies.index_search.sharing_index --seed 0 --output seed-0.npz
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np

from gpusched_env.agents.sharing_index import TERMS, SharingIndex, SharingRule
from gpusched_env.problem.instance import Instance
from gpusched_env.support.commands import run_script
from studies.index_search.rule_search import Settings, mean_log_jct, search, training_problems
from studies.index_search.saving import save_sharing

SCENARIO: Final = "bsbf-sim-240-v1"
# Change of each weight by a step of 1.
STEPS: Final = np.array([2.0, 2.0, 1.0, 1.0, 2.0, 2.0, 2.0])
SETTINGS: Final = Settings(Path("sharing_index.npz"), problems=24, generations=12, population=10, batch=4, sigma=0.5)


def rule_of(vector: np.ndarray) -> SharingRule:
    """Return the rule of a vector: the weight of the gang size, then those of TERMS; 0 = the test of SJF-BSBF."""
    weights = np.array(SharingRule().weights) + STEPS * vector[1:]
    return SharingRule(float(vector[0]), tuple(weights.tolist()))


def log_jct(vector: np.ndarray, instances: Sequence[Instance]) -> float:
    """Return the mean logarithm of the mean JCT [s]."""
    rule = rule_of(vector)
    return mean_log_jct(lambda: SharingIndex.playing(rule), instances)


def main(settings: Settings = SETTINGS) -> None:
    """Search, and save the rule."""
    best, about = search(np.zeros(1 + len(TERMS)), log_jct, training_problems(SCENARIO, settings.problems), settings)
    save_sharing(rule_of(best), settings.output, {"scenario": SCENARIO} | about)
    print(f"saved {settings.output}: {about}, {rule_of(best)}")


if __name__ == "__main__":
    run_script(main)
