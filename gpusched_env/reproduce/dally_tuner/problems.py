"""Problems and seeds for training, choosing and testing delay tuners, and the scores of their runs."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final

import numpy as np

from gpusched_env.agents.learned_timers import LearnedTimers
from gpusched_env.agents.timer_network import TimerNetwork
from gpusched_env.baselines.dally.run import DelayRun
from gpusched_env.baselines.dally.scheduler import Dally
from gpusched_env.envs.delay_timers.actions import TimerActions
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


@lru_cache(maxsize=64)
def drawn(label: str, seed: int) -> Instance:
    """Draw an instance of a problem; recent ones are cached, since training plays the same ones repeatedly."""
    return problem(label).instance(seed)


@dataclasses.dataclass(frozen=True)
class Played:
    """Result of a run: mean and 99th percentile of JCT [s], and the number of simulated jobs."""

    mean_jct_s: float
    p99_jct_s: float
    jobs: int


def play_static(instance: Instance, seed: int, waits_s: np.ndarray, **scheduler: Any) -> Played:
    """Play a run with static timers.

    Parameters
    ----------
    waits_s : float64 [G + 1, 2], rack and network timer of each demand [s]
    """
    run = DelayRun(instance, Dally(tuner="off", **scheduler), seed)
    run.waits_s[:] = waits_s
    run.play()
    return score(run)


def play_network(instance: Instance, seed: int, network: TimerNetwork, **scheduler: Any) -> Played:
    """Play a run whose timers a network sets, once every tuning interval."""
    run = DelayRun(instance, Dally(tuner="hand", **scheduler), seed, timers=LearnedTimers(network))
    run.play()
    return score(run)


def score(run: DelayRun) -> Played:
    """Return the result of a finished run."""
    jobs = run.simulation.arrays.jobs
    jct_s = jobs["finish_s"] - jobs["arrival_s"]
    return Played(float(jct_s.mean()), float(np.percentile(jct_s, 99)), len(jct_s))


def static_waits(instance: Instance, action: Sequence[float] | np.ndarray) -> np.ndarray:
    """float64 [G + 1, 2] [s]: timers of a constant action, which is one pair for all classes, or [D, 2]."""
    actions = TimerActions(instance.cluster)
    return actions.waits(np.broadcast_to(np.asarray(action, float), actions.shape))
