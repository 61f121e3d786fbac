"""The observation array of crashes, and what it has without failures."""

import gymnasium as gym
import numpy as np
import pytest

from gpusched_env import get_scenario
from gpusched_env.problem.failures import Failures


@pytest.mark.parametrize("rate", [0.0, 20_000.0])
def test_the_array_equals_the_view(rate):
    scenario = get_scenario("tiny-v1").with_failures(Failures(rate, repair_s=600.0))
    env = gym.make("gpusched_env:gpusched/Cluster-v0", scenario=scenario, extras=("crashes",))
    observation, _ = env.reset(seed=200_000)
    rng, seen = np.random.default_rng(0), 0
    for _ in range(200):
        simulation = env.unwrapped.simulation
        rows = simulation.instance.outages.rows
        rows = rows[rows["start_s"] <= simulation.now_s]
        counts = np.bincount(rows["node"], minlength=2)
        down = np.bincount(rows["node"][rows["end_s"] > simulation.now_s], minlength=2)
        assert observation["crashes"] == pytest.approx(np.stack([down, counts / (4 + counts)], axis=1))
        seen = max(seen, len(rows))
        mask = env.unwrapped.action_masks()
        observation, _, ended, cut, _ = env.step(int(rng.choice(np.flatnonzero(mask))))
        if ended or cut:
            break
    assert (seen > 0) == (rate > 0)
