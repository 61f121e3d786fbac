"""Resets: a run that begins in the arrays of the last one is that of a new environment."""

from __future__ import annotations

import copy
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import gpusched_env  # noqa: F401  registers the environments
from gpusched_env.errors import GpuschedError
from tests.envs.rollouts import told


def made(scenario: str) -> Any:
    return gym.make(
        "gpusched/Cluster-v0", scenario=scenario, queue_window=6, running_window=3, reward={"jct": 1, "fairness": 1},
        step_limit=120,
    )  # fmt: skip


@pytest.mark.parametrize("scenario", ["tiny-v1", "leaf-spine-256-v1", "hadar-60gpu-v1", "bsbf-sim-240-v1", "family-v1"])
def test_a_reset_leaves_nothing_of_the_last_run(scenario: str) -> None:
    """Ended or cut off; with the arrays of the last run, or new ones where the sizes differ."""
    often = made(scenario)
    for seed, steps in ((0, 30), (1, 200), (2, 50), (0, 30)):
        fresh = made(scenario)
        np.testing.assert_equal(told(often, seed, steps), told(fresh, seed, steps))
        assert often.unwrapped.event_log().digest() == fresh.unwrapped.event_log().digest()
        assert often.unwrapped.encoder.state().tobytes() == fresh.unwrapped.encoder.state().tobytes()


def test_a_snapshot_does_not_depend_on_the_runs_before() -> None:
    often, fresh = made("hadar-60gpu-v1"), made("hadar-60gpu-v1")
    for seed in range(4):
        told(often, seed, 10)
    told(often, 9, 10)
    told(fresh, 3, 1)
    observation, _ = fresh.unwrapped.restore(often.unwrapped.snapshot())
    np.testing.assert_equal(observation, often.unwrapped.encoder.take()[0])


def test_the_simulation_of_the_last_episode_keeps_its_log_and_a_copy_its_state() -> None:
    env = made("tiny-v1")
    told(env, 0, 20)
    last = env.unwrapped.simulation
    kept, digest, now_s = copy.deepcopy(last), last.log().digest(), last.now_s
    copied = copy.deepcopy(env)
    env.reset(seed=1)
    assert last.log().digest() == kept.log().digest() == copied.unwrapped.event_log().digest() == digest
    assert kept.now_s == copied.unwrapped.simulation.now_s == now_s
    with pytest.raises(GpuschedError, match="its environment has been reset"):
        last.advance()
    copied.reset(seed=1)  # in arrays of its own
    np.testing.assert_equal(told(copied, 1, 20), told(env, 1, 20))
