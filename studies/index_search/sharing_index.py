"""The search for the weights of a sharing index, on training seeds (extra ``tuning``).

python -m studies.index_search.sharing_index --seed 0 --output seed-0.npz
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from gpusched_env import __version__
from gpusched_env.agents.sharing_index.rule import TERMS, SharingRule
from gpusched_env.agents.sharing_index.scheduler import SharingIndex
from gpusched_env.problem.instance import Instance
from gpusched_env.support.consoles import run_command
from studies.index_search.rule_search import Settings, mean_log_jct, read_options, search, training_problems

SCENARIO: Final = "bsbf-sim-240-v1"
# Change of each weight by a step of 1.
STEPS: Final = np.array([2.0, 2.0, 1.0, 1.0, 2.0, 2.0, 2.0])


def rule_of(vector: np.ndarray) -> SharingRule:
    """Return the rule of a vector: the weight of the gang size, then those of TERMS; 0 = the test of SJF-BSBF."""
    weights = np.array(SharingRule().weights) + STEPS * vector[1:]
    return SharingRule(float(vector[0]), tuple(weights.tolist()))


def log_jct(vector: np.ndarray, instances: Sequence[Instance]) -> float:
    """Return the mean logarithm of the mean JCT [s]."""
    rule = rule_of(vector)
    return mean_log_jct(lambda: SharingIndex.playing(rule), instances)


def main() -> None:
    """Search, and save the rule."""
    options = read_options("a sharing index", generations=12, problems=24, output="sharing_index.npz")
    settings = Settings(options.seed, options.generations, population=10, batch=4, sigma=0.5)
    problems = training_problems(SCENARIO, options.problems)
    best, spent = search(np.zeros(1 + len(TERMS)), log_jct, problems, settings)
    about: dict[str, Any] = {"version": __version__, "scenario": SCENARIO, "problems": len(problems)}
    rule_of(best).save(options.output, about | {"settings": vars(settings)} | spent)
    print(f"saved {options.output}: {spent}, {rule_of(best)}")


if __name__ == "__main__":
    run_command(main)
