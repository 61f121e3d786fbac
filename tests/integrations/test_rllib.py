"""RLlib's PPO on our batches: it trains, and no infeasible action is ever taken."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("ray.rllib", reason='RLlib pins Gymnasium: pip install -c constraints-rllib.txt ".[rllib]"')
import ray

from examples.rllib_ppo import ppo_config
from gpusched_env.errors import GpuschedError

OPTIONS: dict[str, Any] = {"scenario": "tiny-v1", "queue_window": 6, "running_window": 2}


def test_ppo_trains_on_batches_and_takes_feasible_actions_only() -> None:
    feasible: list[np.ndarray] = []
    ends: list[bool] = []

    def look(samples: list[Any], **_: Any) -> None:
        for episode in samples:
            masks, actions = episode.get_observations()["action_mask"], episode.get_actions()
            feasible.append(masks[np.arange(len(actions)), actions])
            ends.append(episode.is_terminated)

    config = ppo_config(num_envs=8, **OPTIONS)
    config.training(train_batch_size_per_learner=512, minibatch_size=128, num_epochs=2)
    algorithm = config.debugging(seed=0).callbacks(on_sample_end=look).build_algo()
    try:
        before = algorithm.get_module().get_state()
        results = [algorithm.train() for _ in range(2)]
        after = algorithm.get_module().get_state()
    finally:
        algorithm.stop()
        ray.shutdown()
    taken = np.concatenate(feasible)
    assert len(taken) >= 2 * 512
    assert (taken == 1).all()
    assert any(ends)
    for result in results:
        losses = result["learners"]["default_policy"]
        assert np.isfinite([losses[name] for name in ("policy_loss", "vf_loss", "entropy", "mean_kl_loss")]).all()
        assert np.isfinite(result["env_runners"]["episode_return_mean"])
    assert all(np.isfinite(array).all() for array in after.values())
    assert any((before[name] != array).any() for name, array in after.items())


def test_a_module_without_a_mask_is_refused() -> None:
    config = ppo_config(num_envs=1, **OPTIONS)
    config.env_config["mask_in_observation"] = False
    with pytest.raises(GpuschedError, match="mask_in_observation=True"):
        config.build_algo()
