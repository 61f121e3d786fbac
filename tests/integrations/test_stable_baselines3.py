"""The adapter for stable-baselines3 equals its wrappers around single environments."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from gpusched_env.errors import GpuschedError

pytest.importorskip("stable_baselines3")
from sb3_contrib import MaskablePPO
from sb3_contrib.common.maskable.utils import get_action_masks, is_masking_supported
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv

from examples.masked_dqn import MaskedDQN
from gpusched_env.integrations.stable_baselines3 import ClusterVecEnv

OPTIONS: dict[str, Any] = dict(scenario="tiny-v1", queue_window=6, running_window=2, step_limit=40)


def make(num_envs: int = 3, **options: Any) -> ClusterVecEnv:
    batch = gym.make_vec(
        "gpusched/Cluster-v0", num_envs=num_envs, **({"autoreset_mode": "SameStep"} | OPTIONS | options)
    )
    return ClusterVecEnv(batch)


def test_the_adapter_equals_dummy_vec_env_with_monitors() -> None:
    ours = make(keep_logs=True)
    theirs = DummyVecEnv([lambda: Monitor(gym.make("gpusched/Cluster-v0", **OPTIONS))] * 3)
    for environments in (ours, theirs):
        environments.seed(7)
    np.testing.assert_equal(ours.reset(), dict(theirs.reset()))
    rng = np.random.default_rng(0)
    ends, refusals, elapsed_s = 0, 0, 0.0
    for _ in range(130):
        masks = get_action_masks(ours)
        np.testing.assert_array_equal(masks, get_action_masks(theirs))
        actions = np.array([rng.choice(np.flatnonzero(mask)) for mask in masks])
        if rng.random() < 0.2:
            actions[1] = rng.integers(ours.action_space.n)  # possibly infeasible, then refused
        (seen, rewards, over, infos), expected = ours.step(actions), theirs.step(actions)
        np.testing.assert_equal(seen, dict(expected[0]))
        np.testing.assert_array_equal(rewards, expected[1])
        assert rewards.dtype == expected[1].dtype
        np.testing.assert_array_equal(over, expected[2])
        for told, wanted in zip(infos, expected[3], strict=True):
            assert (told["dt"], told["refusals"]) == (wanted["dt"], wanted["refusals"])
        elapsed_s += sum(told["dt"] for told in infos)
        refusals += sum(told["refusals"] for told in infos)
        for b in np.flatnonzero(over):
            ends += 1
            told, wanted = infos[b], expected[3][b]
            for name in ("terminal_observation", "TimeLimit.truncated", "digest", "metrics"):
                np.testing.assert_equal(told[name], wanted[name])
            assert told["episode"]["l"] == wanted["episode"]["l"]
            assert told["episode"]["r"] == pytest.approx(wanted["episode"]["r"], abs=1e-6)  # Monitor rounds
    assert ends >= 6
    assert elapsed_s > 0.0
    assert refusals > 0


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_maskable_ppo_learns_on_it() -> None:
    environments = make()
    assert is_masking_supported(environments)
    model = MaskablePPO("MultiInputPolicy", environments, n_steps=32, batch_size=32, n_epochs=1, device="cpu", seed=0)
    model.learn(192)
    assert model.num_timesteps == 192
    assert len(model.ep_info_buffer or []) > 0
    environments.close()


def test_masked_dqn_never_takes_an_infeasible_action(tmp_path: Path) -> None:
    """Neither at random nor greedily, in training and afterwards; it improves on random play."""
    environments = ClusterVecEnv(
        gym.make_vec(
            "gpusched/Cluster-v0", num_envs=4, scenario="tiny-v1", queue_window=6, running_window=0,
            queue_order="shortest", mask_in_observation=True, autoreset_mode="SameStep",
        )
    )  # fmt: skip
    refused = 0

    def count(local: dict[str, Any], _: Any) -> bool:
        nonlocal refused
        refused += sum(info["refusals"] for info in local["infos"])
        return True

    model = MaskedDQN(
        environments, learning_starts=200, train_freq=1, batch_size=64, target_update_interval=200, seed=0,
        exploration_fraction=0.5, gamma=1.0, device="cpu",
    )  # fmt: skip
    model.learn(4_000, callback=count)
    assert model.num_timesteps >= 4_000
    model.save(tmp_path / "dqn.zip")
    again = MaskedDQN.load(tmp_path / "dqn.zip")

    def returns(choose: Callable[[dict[str, np.ndarray]], int]) -> float:
        env = gym.make(
            "gpusched/Cluster-v0", scenario="tiny-v1", queue_window=6, running_window=0, queue_order="shortest",
            mask_in_observation=True,
        )  # fmt: skip
        total = 0.0
        for seed in range(200_000, 200_010):
            observation, _ = env.reset(seed=seed)
            over = False
            while not over:
                observation, reward, terminated, truncated, info = env.step(choose(observation))
                assert info["refusals"] == 0
                total += float(reward)
                over = terminated or truncated
        return total

    generator = np.random.default_rng(0)
    random = returns(lambda seen: int(generator.choice(np.flatnonzero(seen["action_mask"]))))
    learned = returns(lambda seen: int(again.predict(seen, deterministic=True)[0]))
    assert learned > random
    assert refused == 0


def test_unsupported_environments_are_refused() -> None:
    for options, words in ((dict(autoreset_mode="NextStep"), "SameStep"), (dict(copy=False), "copy=True")):
        with pytest.raises(GpuschedError, match=words):
            make(**options)
    with pytest.raises(GpuschedError, match="SyncVectorEnv"):
        ClusterVecEnv(gym.make_vec("CartPole-v1", num_envs=2, vectorization_mode="sync"))
    with pytest.raises(GpuschedError, match="share"):
        make().set_attr("windows", None)
    environments = make()
    environments.set_options({"instance": 3})
    with pytest.raises(GpuschedError, match="unknown option 'instance'"):
        environments.reset()
