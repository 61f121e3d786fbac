"""What ``reset`` without a seed plays, and what infos and masks hold at the end: for every id, alone and in a batch."""

from __future__ import annotations

import math
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import SyncVectorEnv

from gpusched_env.delay_timers.env import DelayTimersEnv
from gpusched_env.envs.registration import DELAY_TIMERS, ENVIRONMENTS
from gpusched_env.errors import ScenarioError

IDS = [*ENVIRONMENTS, DELAY_TIMERS]
SMALL: dict[str, Any] = {"id": "gpusched/Cluster-v0", "scenario": "tiny-v1"}
TIMERS: dict[str, Any] = {"id": DELAY_TIMERS, "scenario": "dally-poisson-v1:jobs=20"}


def wait(env: Any) -> Any:
    """An action that is always valid."""
    return np.zeros(env.action_space.shape, np.float32) if env.action_space.shape else int(env.action_masks().argmax())


@pytest.mark.parametrize("name", IDS)
def test_each_id_evaluates_on_the_seeds_that_it_is_told(name: str) -> None:
    env: Any = gym.make(name, seeds="report").unwrapped
    first, _ = env.scenario.seeds.report
    assert [env.reset()[1]["seed"] for _ in range(3)] == [first, first + 1, first + 2]
    first, _ = env.scenario.seeds.validation
    assert gym.make(name, seeds="validation").reset()[1]["seed"] == first
    train = gym.make(name).reset()[1]["seed"]
    assert env.scenario.seeds.train[0] <= train < env.scenario.seeds.train[1]


@pytest.mark.parametrize("arguments", [SMALL, TIMERS], ids=["cluster", "timers"])
def test_a_range_is_played_in_order_and_again_from_its_beginning(arguments: dict[str, Any]) -> None:
    env = gym.make(**arguments, seeds=(7, 10))
    assert [env.reset()[1]["seed"] for _ in range(4)] == [7, 8, 9, 7]
    assert [env.reset(seed=9)[1]["seed"], env.reset()[1]["seed"]] == [9, 7]
    assert [env.reset(seed=50)[1]["seed"], env.reset()[1]["seed"]] == [50, 7]
    name, options = arguments["id"], {key: value for key, value in arguments.items() if key != "id"}
    batch = gym.make_vec(name, 2, "vector_entry_point", seeds=(7, 10), **options)
    assert [batch.reset()[1]["seed"].tolist() for _ in range(4)] == [[7, 8], [9, 7], [8, 9], [7, 8]]


@pytest.mark.parametrize("seeds", ["reports", (5,), (5, 5), (-1, 4), (0.0, 5.0), 7, None, (True, 4)])
def test_wrong_ranges_are_refused_by_name(seeds: Any) -> None:
    for arguments in (SMALL, TIMERS):
        with pytest.raises(ScenarioError, match="seeds"):
            gym.make(**arguments, seeds=seeds)


def test_ranges_of_training_and_evaluation_exclude_each_other() -> None:
    with pytest.raises(ScenarioError, match="no training seeds"):
        gym.make("gpusched/Family-v0", seeds="report").unwrapped.train_on(racks=(3,))  # type: ignore[attr-defined]
    with pytest.raises(ScenarioError, match="train_seeds"):
        DelayTimersEnv("dally-poisson-v1", train_seeds=(0, 5), seeds="report")


def test_stable_baselines3_evaluates_on_report_seeds() -> None:
    evaluation = pytest.importorskip("stable_baselines3.common.evaluation")
    vec_env = pytest.importorskip("stable_baselines3.common.vec_env")
    played = []

    class Waits:
        """Whatever the observation."""

        def predict(self, observation: Any, **_: Any) -> tuple[np.ndarray, None]:
            return np.array([envs.envs[0].unwrapped.action_masks().argmax()]), None

    envs = vec_env.DummyVecEnv([lambda: gym.make(**SMALL, seeds="report", step_limit=3)])
    evaluation.evaluate_policy(
        Waits(), envs, n_eval_episodes=4, warn=False,
        callback=lambda values, _: played.append(values["info"]["seed"]) if values["done"] else None,
    )  # fmt: skip
    assert played == [200_000, 200_001, 200_002, 200_003]


# --- the end of an episode


def shapes(info: Any) -> Any:
    """The keys of an info, nested, with the shapes of arrays."""
    return {k: shapes(v) for k, v in info.items()} if isinstance(info, dict) else np.shape(info)


@pytest.mark.parametrize("name", IDS)
def test_infos_have_the_same_keys_at_every_step(name: str) -> None:
    env: Any = gym.make(name, **({"horizon_s": 7_200.0} if name == DELAY_TIMERS else {"step_limit": 4})).unwrapped
    _, info = env.reset(seed=0)
    keys, ends = shapes(info), False
    while not ends:
        assert all(map(math.isinf, info["metrics"].values()))
        assert info["digest"] == ""
        _, _, terminated, truncated, info = env.step(wait(env))
        ends = terminated or truncated
        assert shapes(info) == keys
    assert info["seed"] == 0
    assert info["digest"] == env.event_log().digest()


def ended_by(how: str) -> tuple[Any, dict[str, Any]]:
    """An environment whose episode has ended in this way, and the last info."""
    options = {"steps": {"step_limit": 5}, "jobs": {}, "time": {"scenario": "tiny-v1"}}[how]
    env: Any = gym.make(**(SMALL | options), delays_s=(600.0,), running_window=4).unwrapped
    if how == "time":
        import dataclasses

        scenario = env.scenario
        semantics = dataclasses.replace(scenario.semantics, time_limit_s=500.0)
        scenario = dataclasses.replace(scenario, name="limited", semantics=semantics)
        env = gym.make(**(SMALL | {"scenario": scenario}), delays_s=(600.0,), running_window=4).unwrapped
    _, info = env.reset(seed=3)
    ends = False
    while not ends:
        _, _, terminated, truncated, info = env.step(int(info["action_mask"].argmax()))
        ends = terminated or truncated
    assert (terminated, truncated) == {"steps": (True, True), "jobs": (True, False), "time": (False, True)}[how]
    return env, info


@pytest.mark.parametrize("how", ["steps", "jobs", "time"])
def test_the_plain_wait_alone_is_feasible_after_the_end(how: str) -> None:
    env, info = ended_by(how)
    only = np.zeros(env.action_space.n, np.int8)
    only[env.windows.wait_action] = 1
    np.testing.assert_array_equal(info["action_mask"], only)
    snapshot = env.snapshot()
    env.reset(seed=4)
    np.testing.assert_array_equal(env.restore(snapshot)[1]["action_mask"], only)


@pytest.mark.parametrize("mode", ["NextStep", "SameStep", "Disabled"])
def test_a_mask_at_the_end_of_an_episode_in_a_batch_has_a_feasible_action(mode: str) -> None:
    envs = gym.make_vec("gpusched/Cluster-v0", 3, "vector_entry_point", scenario="tiny-v1", autoreset_mode=mode)
    _, infos = envs.reset(seed=3)
    over = np.zeros(3, bool)
    while not over.any():
        _, _, terminated, truncated, infos = envs.step(infos["action_mask"].argmax(axis=1))
        over = terminated | truncated
        masks = infos["final_info"]["action_mask"][over] if mode == "SameStep" and over.any() else infos["action_mask"]
        assert masks.any(axis=1).all()
    last = infos["final_info"] if mode == "SameStep" else infos
    assert not np.isinf(last["metrics"]["mean_jct_s"][over]).any()  # as a single environment has them
    assert all(last["digest"][over])


def test_shared_arrays_cannot_be_written() -> None:
    envs: Any = gym.make_vec("gpusched/Cluster-v0", 2, "vector_entry_point", scenario="tiny-v1", copy=False)
    seen, infos = envs.reset(seed=1)
    for array in (*seen.values(), infos["action_mask"], envs.action_masks()):
        with pytest.raises(ValueError, match="read-only"):
            array[:] = 1
    before = envs.action_masks()[0].copy()
    infeasible = int(np.flatnonzero(~before)[0])
    *_, infos = envs.step(np.array([infeasible, infeasible]))
    assert infos["refusals"].tolist() == [1, 1]


@pytest.mark.parametrize("arguments", [SMALL, TIMERS], ids=["cluster", "timers"])
def test_max_episode_steps_means_the_same_everywhere(arguments: dict[str, Any]) -> None:
    name, options = arguments["id"], {key: value for key, value in arguments.items() if key != "id"}
    single: Any = gym.make(name, max_episode_steps=3, **options)
    batch: Any = gym.make_vec(name, 2, "vector_entry_point", max_episode_steps=3, **options)
    one_by_one = SyncVectorEnv([lambda: gym.make(name, max_episode_steps=3, **options)] * 2)
    _, info = single.reset(seed=5)
    np.testing.assert_equal(batch.reset(seed=[5, 6])[0], one_by_one.reset(seed=[5, 6])[0])
    for t in range(8):
        action = wait(single.unwrapped)
        actions = np.stack([wait(env.unwrapped) for env in one_by_one.envs])
        said, other = batch.step(actions), one_by_one.step(actions)
        np.testing.assert_equal(said[1:4], other[1:4])
        if t < 3:
            _, reward, terminated, truncated, info = single.step(action)
            assert (said[1][0], said[2][0], said[3][0]) == (reward, terminated, truncated)
            assert (terminated, truncated) == (False, t == 2)
            assert all(map(math.isinf, info["metrics"].values()))
    with pytest.raises(ScenarioError, match="max_episode_steps"):
        gym.make_vec("gpusched/Cluster-v0", 2, "vector_entry_point", max_episode_steps=0)


@pytest.mark.parametrize("mode", ["ansi", "rgb_array"])
def test_timers_are_drawn_as_clusters_are(mode: str) -> None:
    env = gym.make(**TIMERS, render_mode=mode)
    env.reset(seed=0)
    for _ in range(4):
        env.step(np.zeros(env.action_space.shape or (), np.float32))
    picture: Any = env.render()
    if mode == "ansi":
        assert "running" in picture
        assert picture.count("node") == 32
    else:
        assert picture.shape == (600, 960, 3)
        assert len(np.unique(picture.reshape(-1, 3), axis=0)) > 8


def test_minari_records_infos(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    minari = pytest.importorskip("minari")
    pytest.importorskip("jax")
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    env = minari.DataCollector(gym.make(**SMALL, step_limit=5), record_infos=True)
    for seed in (0, 1):
        _, info = env.reset(seed=seed)
        ends = False
        while not ends:
            _, _, terminated, truncated, info = env.step(int(info["action_mask"].argmax()))
            ends = terminated or truncated
    dataset = env.create_dataset(
        "gpusched/infos-v0", algorithm_name="first", author="me", author_email="me@example.org"
    )
    assert dataset.total_episodes == 2
