"""Observations of a single environment are new arrays: no later step writes into them."""

from __future__ import annotations

import copy
from itertools import pairwise

import gymnasium as gym
import numpy as np
import pytest

from gpusched_env.envs.cluster_env import ClusterEnv
from gpusched_env.envs.encoder import ROWS


def make(**options: int) -> ClusterEnv:
    env = gym.make("gpusched/Cluster-v0", scenario="tiny-v1", queue_window=6, **options).unwrapped
    assert isinstance(env, ClusterEnv)
    return env


@pytest.mark.parametrize("running_window", [0, 4])
def test_old_observations_never_change(running_window: int) -> None:
    env = make(running_window=running_window)
    rng = np.random.default_rng(0)
    observation, info = env.reset(seed=3)
    given, copies = [], []
    for _ in range(3 * ROWS):
        given.append((observation, info["action_mask"]))
        copies.append(copy.deepcopy(given[-1]))
        action = int(rng.choice(np.flatnonzero(info["action_mask"])))
        observation, _, terminated, truncated, info = env.step(action)
        if terminated or truncated:
            observation, info = env.reset()
    np.testing.assert_equal(given, copies)
    arrays = [array for observation, mask in given for array in (*observation.values(), mask)]
    for first, second in pairwise(arrays):
        assert not np.shares_memory(first, second)


def test_an_infeasible_action_returns_the_same_observation_even_if_the_agent_wrote_into_the_last_one() -> None:
    env = make()
    observation, info = env.reset(seed=3)
    infeasible = int(np.flatnonzero(info["action_mask"] == 0)[0])
    before = copy.deepcopy((observation, info["action_mask"]))
    for array in (*observation.values(), info["action_mask"]):
        array[...] = 1
    after, _, _, _, info = env.step(infeasible)
    np.testing.assert_equal((after, info["action_mask"]), before)
    assert info["refusals"] == 1


def test_a_second_observation_of_a_state_is_a_new_array() -> None:
    env = make()
    observation, _ = env.reset(seed=3)
    again = env.encoder.take()[0]
    np.testing.assert_equal(again, observation)
    assert not any(np.shares_memory(again[name], observation[name]) for name in observation)
