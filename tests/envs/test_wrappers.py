"""Gymnasium's own wrappers, and TorchRL's, work around single environments and batches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import wrappers
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv
from gymnasium.wrappers import vector

from gpusched_env.errors import GpuschedError

OPTIONS: dict[str, Any] = dict(scenario="tiny-v1", queue_window=6, running_window=2, step_limit=9)
MODES = ("NextStep", "SameStep", "Disabled")


def make_single(**options: Any) -> gym.Env:
    return gym.make("gpusched/Cluster-v0", **(OPTIONS | options))


def make_batch(mode: str, **options: Any) -> gym.vector.VectorEnv:
    return gym.make_vec("gpusched/Cluster-v0", num_envs=3, autoreset_mode=mode, **(OPTIONS | options))


def play(envs: Any, mode: str, steps: int = 60) -> Any:
    """Play at random; yields the actions and results of each step, and resets what is over in mode "Disabled"."""
    rng = np.random.default_rng(0)
    envs.reset(seed=3)
    for _ in range(steps):
        masks = envs.unwrapped.action_masks()
        actions = (masks * rng.random(masks.shape)).argmax(axis=1)
        said = envs.step(actions)
        yield actions, *said
        if mode == "Disabled" and (over := said[2] | said[3]).any():
            envs.reset(options={"reset_mask": over})


def test_environments_in_processes_of_their_own_play_the_same_episodes() -> None:
    """Fresh processes, as on every system: they import the package and load its compiled code themselves."""
    apart = AsyncVectorEnv([make_single] * 2, context="spawn")
    together = SyncVectorEnv([make_single] * 2)
    try:
        for envs in (apart, together):
            envs.reset(seed=3)
        rng = np.random.default_rng(0)
        for _ in range(25):
            actions = rng.integers(together.single_action_space.n, size=2)
            told, expected = apart.step(actions), together.step(actions)
            for name, array in expected[0].items():
                assert np.array_equal(told[0][name], array), name
            assert [part.tolist() for part in told[1:4]] == [part.tolist() for part in expected[1:4]]
            assert np.array_equal(told[4]["action_mask"], expected[4]["action_mask"])
    finally:
        apart.close()
        together.close()


@pytest.mark.parametrize("mode", MODES)
def test_statistics_are_those_of_gymnasiums_wrapper_around_single_environments(mode: str) -> None:
    """In mode "SameStep", the wrapper of Gymnasium 1.2 counts one step too few: alike around both."""
    envs = vector.RecordEpisodeStatistics(make_batch(mode))
    singles = SyncVectorEnv([make_single] * 3, autoreset_mode=AutoresetMode(mode))
    plain = vector.RecordEpisodeStatistics(singles)
    plain.reset(seed=3)
    ends = 0
    for actions, _, _, terminated, truncated, infos in play(envs, mode):
        expected = plain.step(actions)[-1]
        over = terminated | truncated
        assert ("episode" in infos) == over.any() == ("episode" in expected)
        own = infos.get("final_info", infos)
        for b in np.flatnonzero(over):
            ends += 1
            assert infos["episode"]["l"][b] == expected["episode"]["l"][b] > 0
            assert infos["episode"]["r"][b] == pytest.approx(expected["episode"]["r"][b], rel=1e-12)
            assert own["episode_length"][b] == OPTIONS["step_limit"]
            if mode != "SameStep":
                assert own["episode_return"][b] == pytest.approx(infos["episode"]["r"][b], rel=1e-12)
        if mode == "Disabled" and over.any():
            plain.reset(options={"reset_mask": over.copy()})
    assert ends >= 12
    assert len(envs.return_queue) == ends


@pytest.mark.parametrize("mode", ["NextStep", "Disabled"])
def test_a_flat_batch_has_the_numbers_of_the_observations(mode: str) -> None:
    envs = vector.RecordEpisodeStatistics(vector.FlattenObservation(make_batch(mode)))
    plain = play(make_batch(mode), mode)
    ends = 0
    for said, expected in zip(play(envs, mode), plain, strict=True):
        arrays = [expected[1][name].reshape(3, -1) for name in envs.unwrapped.observation_space]
        np.testing.assert_array_equal(said[1], np.concatenate(arrays, axis=1))
        assert envs.observation_space.contains(said[1])
        ends += int((said[3] | said[4]).sum())
    assert ends >= 12


@pytest.mark.parametrize("mode", MODES)
def test_infos_become_a_list_with_one_for_each_environment(mode: str) -> None:
    envs = vector.DictInfoToList(vector.RecordEpisodeStatistics(make_batch(mode, keep_logs=True)))
    ends = 0
    for _, _, _, terminated, truncated, infos in play(envs, mode):
        for b, info in enumerate(infos):
            assert info["action_mask"].tolist() == envs.unwrapped.action_masks()[b].tolist()
            if terminated[b] or truncated[b]:
                ends += 1
                assert info["episode"]["r"] < 0
                assert info.get("final_info", info)["episode_length"] == OPTIONS["step_limit"]
                assert len(info.get("final_info", info)["digest"]) == 64
            else:
                assert not {"episode", "episode_length", "final_info"} & set(info)
                assert info["digest"] == ""
    assert ends >= 12


def test_a_flat_environment_has_the_numbers_of_the_observation() -> None:
    env = wrappers.RecordEpisodeStatistics(wrappers.FlattenObservation(make_single()))
    plain = make_single()
    (seen, info), (parts, _) = env.reset(seed=5), plain.reset(seed=5)
    over, rewards = False, []
    while not over:
        np.testing.assert_array_equal(seen, np.concatenate([parts[name].ravel() for name in plain.observation_space]))
        assert env.observation_space.contains(seen)
        action = int(np.flatnonzero(info["action_mask"])[0])
        seen, reward, terminated, truncated, info = env.step(action)
        parts = plain.step(action)[0]
        rewards.append(reward)
        over = terminated or truncated
    assert info["episode"]["l"] == len(rewards)
    assert info["episode"]["r"] == pytest.approx(sum(rewards))


def test_episodes_are_recorded_as_videos(tmp_path: Path) -> None:
    moviepy = pytest.importorskip("moviepy", reason="gymnasium's RecordVideo needs moviepy")
    folder = tmp_path / "videos"
    single = make_single(render_mode="rgb_array")
    env = wrappers.RecordVideo(single, str(folder), episode_trigger=lambda _: True, disable_logger=True)
    for seed in (1, 2):
        _, info = env.reset(seed=seed)
        over, steps = False, 0
        while not over:
            _, _, terminated, truncated, info = env.step(int(np.flatnonzero(info["action_mask"])[0]))
            over, steps = terminated or truncated, steps + 1
    env.close()
    videos = sorted(folder.glob("*.mp4"))
    assert len(videos) == 2
    with moviepy.VideoFileClip(str(videos[-1])) as video:
        assert video.size == [960, 600]
        assert video.n_frames == steps + 1


def test_unknown_options_of_reset_are_refused() -> None:
    for name in ("gpusched/Cluster-v0", "gpusched/DelayTimers-v0"):
        env = gym.make(name)
        with pytest.raises(GpuschedError, match="unknown option 'instance', 'x': this environment has no options"):
            env.reset(options={"instance": 3, "x": None})
        for options in (None, {}):
            env.reset(seed=200_000, options=options)
    with pytest.raises(GpuschedError, match="unknown option 'mask': the only option is 'reset_mask'"):
        make_batch("NextStep").reset(options={"mask": np.ones(3, bool)})


@pytest.mark.filterwarnings("ignore")
def test_torchrl_plays_a_batch_and_follows_its_masks() -> None:
    """The recipe of docs/performance.md."""
    torch = pytest.importorskip("torch")
    envs = pytest.importorskip("torchrl.envs", reason="TorchRL is not installed")
    batch = make_batch("Disabled", mask_in_observation=True)
    wrapped = envs.GymWrapper(batch, categorical_action_encoding=True)
    to_bool = envs.DTypeCastTransform(torch.int8, torch.bool, in_keys=["action_mask"])
    env = envs.TransformedEnv(wrapped, envs.Compose(to_bool, envs.ActionMask()))
    played = env.rollout(40, break_when_any_done=False)
    assert played.shape == (3, 40)
    assert played["action_mask"].gather(-1, played["action"].unsqueeze(-1)).all()
    assert played["next", "truncated"].sum() >= 12
    assert played["next", "reward"].sum() < 0
