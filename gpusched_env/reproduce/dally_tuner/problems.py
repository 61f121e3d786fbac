"""Problems and seeds for training, choosing and testing delay tuners, and the scores of their runs."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

import numpy as np

from gpusched_env.delay_timers.actions import TimerActions
from gpusched_env.network import Network
from gpusched_env.problem.instance import Instance
from gpusched_env.scenarios import Scenario, get_scenario

# Training, the choice of checkpoints, and reports use disjoint seeds.
TRAINING_SEEDS: Final = tuple(range(10))
VALIDATION_SEEDS: Final = tuple(range(100, 105))
TEST_SEEDS: Final = tuple(range(1_000, 1_020))

STATIONARY: Final = {
    "poisson .7": "dally-poisson-v1:load=0.7",
    "poisson .9": "dally-poisson-v1:load=0.9",
    "batch": "dally-batch-v1",
}
NON_STATIONARY: Final = {"drift .7": "dally-drift-v1:load=0.7", "drift .9": "dally-drift-v1:load=0.9"}
REPLAYED: Final = {"trace": "dally-trace-v1"}
TESTED: Final = {**STATIONARY, **NON_STATIONARY, **REPLAYED}
INSENSITIVE: Final = "insensitive"  # communication costs nothing, so waiting for a tighter tier cannot pay
TRAINED: Final = (*STATIONARY, *NON_STATIONARY, INSENSITIVE)


@lru_cache(maxsize=16)
def problem(label: str) -> Scenario:
    """Return the scenario of a label of TRAINED or TESTED; any other text is the name of a scenario."""
    if label == INSENSITIVE:
        scenario = get_scenario(STATIONARY["poisson .7"])
        return dataclasses.replace(scenario, name="dally-insensitive", network=Network("none"))
    return get_scenario(TESTED.get(label, label))


def static_waits(instance: Instance, action: Sequence[float] | np.ndarray) -> np.ndarray:
    """float64 [G + 1, 2] [s]: timers of a constant action, which is one pair for all classes, or [D, 2]."""
    actions = TimerActions(instance.cluster)
    return actions.waits(np.broadcast_to(np.asarray(action, float), actions.shape))
