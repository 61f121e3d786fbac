"""Tianshou's DQN on our environments: it trains, and no infeasible action is ever taken."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from examples.tianshou_masks import Masked
from gpusched_env.errors import GpuschedError

OPTIONS: dict[str, Any] = {"id": "gpusched/Cluster-v0", "scenario": "tiny-v1", "queue_window": 6, "running_window": 2}


def made() -> gym.Env[Any, Any]:
    return Masked(gym.make(**OPTIONS, mask_in_observation=True))


def test_the_observation_is_a_vector_and_a_mask() -> None:
    env, plain = made(), gym.make(**OPTIONS)
    seen, _ = env.reset(seed=3)
    shown, info = plain.reset(seed=3)
    assert env.observation_space.contains(seen)
    np.testing.assert_array_equal(seen["mask"], info["action_mask"].astype(bool))
    np.testing.assert_array_equal(seen["obs"], np.concatenate([array.ravel() for _, array in sorted(shown.items())]))


def test_an_environment_without_a_mask_is_refused() -> None:
    with pytest.raises(GpuschedError, match="mask_in_observation=True"):
        Masked(gym.make(**OPTIONS))


@pytest.mark.filterwarnings("ignore")  # Tianshou's own
def test_dqn_trains_and_takes_feasible_actions_only() -> None:
    """Drawn at random or by the network."""
    pytest.importorskip("tianshou", reason='it has its own pins: pip install -c constraints-tianshou.txt ".[tianshou]"')
    import torch
    from tianshou.algorithm import DQN
    from tianshou.algorithm.modelfree.dqn import DiscreteQLearningPolicy
    from tianshou.algorithm.optim import AdamOptimizerFactory
    from tianshou.data import Collector, VectorReplayBuffer
    from tianshou.env import DummyVectorEnv
    from tianshou.trainer import OffPolicyTrainerParams
    from tianshou.utils.net.common import Net

    torch.manual_seed(0)
    env = made()
    network = Net(state_shape=env.observation_space["obs"].shape, action_shape=env.action_space.n, hidden_sizes=(64,))
    policy = DiscreteQLearningPolicy(model=network, action_space=env.action_space, eps_training=0.3)
    algorithm = DQN(policy=policy, optim=AdamOptimizerFactory(lr=1e-3), gamma=1.0, target_update_freq=50)
    before = [weight.clone() for weight in network.parameters()]
    buffer = VectorReplayBuffer(2_000, 4)
    collector = Collector(algorithm, DummyVectorEnv([made] * 4), buffer, exploration_noise=True)
    options = dict(max_epochs=2, epoch_num_steps=256, collection_step_num_env_steps=64, show_progress=False)
    algorithm.run_training(
        OffPolicyTrainerParams(training_collector=collector, update_step_num_gradient_steps_per_sample=0.1, **options)
    )
    played = buffer[:]
    assert len(played) == 512
    assert played.obs.mask[np.arange(512), played.act].all()
    assert played.terminated.any()
    weights = list(network.parameters())
    assert all(torch.isfinite(weight).all() for weight in weights)
    assert any((one != weight).any() for one, weight in zip(before, weights, strict=True))
