"""The batched environment equals single ones: observations, rewards, infos and event logs."""

from __future__ import annotations

import copy
import dataclasses
import gc
import pickle
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from helpers import failing, linked_scenario, small_scenario

from gpusched_env.envs.cluster_env import ClusterEnv
from gpusched_env.envs.cluster_vector_env import ClusterVectorEnv
from gpusched_env.errors import GpuschedError, ScenarioError
from gpusched_env.problem.instance import Semantics
from gpusched_env.problem.tenants import Tenant, Tenants
from gpusched_env.scenarios import get_scenario
from tests.envs.test_deadlines import SHOWN, slo
from tests.envs.test_tenants import WIDE, crowded

resource = pytest.importorskip("resource")  # POSIX

WINDOWS: dict[str, Any] = dict(queue_window=6, running_window=4)
CLUSTER: dict[str, Any] = dict(id="gpusched/Cluster-v0")
SCENARIOS: dict[str, dict[str, Any]] = {
    "tiny": dict(scenario="tiny-v1", rules=("pack", "random"), **WINDOWS),
    "philly": dict(
        scenario=small_scenario(30), reward={"jct": 1.0, "fairness": 0.1}, mask_in_observation=True, step_limit=70
    ),
    "rounds": dict(scenario=small_scenario(30, semantics=Semantics(round_s=300.0)), queue_order="shortest", **WINDOWS),
    "leases": dict(scenario="tiny-v1", lease_s=120.0, **WINDOWS),
    "links": dict(scenario=linked_scenario(), rules=("pack", "spread"), step_limit=90, **WINDOWS),
    "sharing": dict(id="gpusched/Sharing-v0", step_limit=60),
    "types": dict(id="gpusched/Heterogeneous-v0", step_limit=80),
    "failures": dict(scenario=failing("tiny-v1", 300.0), extras=("crashes",), **WINDOWS),
    "limits": dict(scenario="tiny-v1", step_limit=9, running_window=0, queue_window=3),
}
OWN = ("episode_return", "episode_length")  # infos that single environments do not have


def make(options: dict[str, Any], num_envs: int = 3, **more: Any) -> ClusterVectorEnv:
    envs = gym.make_vec(num_envs=num_envs, **(CLUSTER | options | more))
    assert isinstance(envs, ClusterVectorEnv)
    return envs


def draw(rng: np.random.Generator, masks: np.ndarray) -> np.ndarray:
    """A random feasible action for each environment; 0 if there is none, at the end of an episode."""
    return np.array([rng.choice(np.flatnonzero(mask)) if mask.any() else 0 for mask in masks])


def without(infos: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in infos.items() if name.removeprefix("_") not in names}


@pytest.mark.parametrize("mode", ["NextStep", "SameStep"])
@pytest.mark.parametrize("name", SCENARIOS)
def test_the_batch_equals_gymnasiums_vector_of_single_environments(name: str, mode: str) -> None:
    options = SCENARIOS[name]
    many = make(options, autoreset_mode=mode, keep_logs=True)
    one_by_one = SyncVectorEnv([lambda: gym.make(**(CLUSTER | options))] * 3, autoreset_mode=AutoresetMode(mode))
    assert many.metadata["autoreset_mode"] is AutoresetMode(mode)
    assert many.observation_space == one_by_one.observation_space
    assert many.action_space == one_by_one.action_space
    rng = np.random.default_rng(1)
    said, expected = many.reset(seed=5), one_by_one.reset(seed=5)
    np.testing.assert_equal(said, expected)
    ends = 0
    for _ in range(250):
        actions = draw(rng, said[-1]["action_mask"])
        if rng.random() < 0.1:
            actions[1] = rng.integers(many.single_action_space.n)  # possibly infeasible, then refused
        said, expected = many.step(actions), one_by_one.step(actions)
        assert many.observation_space.contains(said[0])
        np.testing.assert_equal(said[:4], expected[:4])
        infos, expected_infos = said[4], expected[4]
        if "final_info" in infos:
            infos = infos | {"final_info": without(infos["final_info"], *OWN)}
            np.testing.assert_equal(infos.pop("final_obs").tolist(), expected_infos.pop("final_obs").tolist())
        np.testing.assert_equal(without(infos, *OWN), expected_infos)
        ends += int((said[2] | said[3]).sum())
    assert ends >= 2


def test_steps_leave_no_memory_behind() -> None:
    envs = make(SCENARIOS["limits"], 64, copy=False)
    rng = np.random.default_rng(0)
    _, infos = envs.reset(seed=0)
    sizes = []
    for steps in (400, 400):
        for _ in range(steps):
            mask = infos["action_mask"]
            infos = envs.step((mask * rng.random(mask.shape)).argmax(axis=1))[-1]
        gc.collect()
        sizes.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)  # [KiB]
    assert sizes[1] - sizes[0] < 8_000


def test_zero_copy_returns_the_buffers_themselves() -> None:
    fresh, shared = make(SCENARIOS["philly"]), make(SCENARIOS["philly"], copy=False)
    rng = np.random.default_rng(0)
    (seen, infos), (buffers, _) = fresh.reset(seed=1), shared.reset(seed=1)
    for _ in range(20):
        kept = {name: array.copy() for name, array in seen.items()}
        actions = draw(rng, infos["action_mask"])
        before = seen
        (seen, *_, infos), (same, *_) = fresh.step(actions), shared.step(actions)
        np.testing.assert_equal(before, kept)
        for name in seen:
            assert same[name] is buffers[name]
            np.testing.assert_array_equal(same[name], seen[name])
        assert np.shares_memory(shared.action_masks(), shared.action_masks())
        np.testing.assert_array_equal(shared.action_masks(), infos["action_mask"].astype(bool))


@pytest.mark.parametrize("bad", [float("nan"), 0.5, -1, 10**6, "a", None])
def test_an_invalid_action_steps_no_environment(bad: Any) -> None:
    envs, untouched = make(SCENARIOS["tiny"]), make(SCENARIOS["tiny"])
    rng = np.random.default_rng(0)
    _, infos = envs.reset(seed=1)
    untouched.reset(seed=1)
    for _ in range(5):
        actions = draw(rng, infos["action_mask"])
        with pytest.raises(GpuschedError, match="environment 1: action"):
            envs.step(np.array([actions[0], bad, actions[2]], object if isinstance(bad, str) else None))
        with pytest.raises(GpuschedError, match="shape"):
            envs.step(actions[:2])
        said, expected = envs.step(actions), untouched.step(actions)
        np.testing.assert_equal(said, expected)
        infos = said[-1]


def test_an_infeasible_action_changes_no_environment() -> None:
    envs = make(SCENARIOS["tiny"])
    seen, infos = envs.reset(seed=1)
    infeasible = np.array([np.flatnonzero(mask == 0)[0] for mask in infos["action_mask"]])
    after, rewards, _, _, infos = envs.step(infeasible)
    np.testing.assert_equal(after, seen)
    assert rewards.tolist() == [-0.01, -0.01, -0.01]
    assert infos["refusals"].tolist() == [1, 1, 1]


def mixed() -> dict[str, tuple[list[Any], dict[str, Any]]]:
    """Scenarios of the environments of a batch, and options: clusters, trees of tenants, no deadlines."""
    few = Tenants((Tenant("a", demand=1.0, quota=9), Tenant("b", demand=1.0)))
    free = get_scenario("slo-v0").replace(workload=dataclasses.replace(slo(30).workload, deadlines=None))
    return {
        "clusters": (["tiny-v1", small_scenario(30), "tiny-v1"], WINDOWS),
        "trees": ([crowded(20), crowded(55).replace(tenants=few)], WIDE),
        "deadlines": ([slo(20), free], WINDOWS | SHOWN | dict(rules=("pack", "spread"))),
    }


@pytest.mark.parametrize("case", ["clusters", "trees", "deadlines"])
def test_each_environment_may_play_a_scenario_of_its_own(case: str) -> None:
    scenarios, options = mixed()[case]
    envs = ClusterVectorEnv(len(scenarios), scenarios, **options)
    singles = [ClusterEnv(scenario, **options) for scenario in scenarios]
    rng = np.random.default_rng(0)
    seen, infos = envs.reset(seed=4)
    expected = [single.reset(seed=4 + b)[0] for b, single in enumerate(singles)]
    for _ in range(30):
        for b, one in enumerate(expected):
            np.testing.assert_array_equal(infos["action_mask"][b], singles[b].mask)
            for name, array in one.items():  # rows of larger clusters and trees are 0
                np.testing.assert_array_equal(seen[name][b, : len(array)], array, err_msg=name)
                assert not seen[name][b, len(array) :].any()
        actions = draw(rng, infos["action_mask"])
        seen, rewards, terminated, _, infos = envs.step(actions)
        said = [single.step(action) for single, action in zip(singles, actions, strict=True)]
        expected = [one[0] for one in said]
        assert rewards.tolist() == [one[1] for one in said]
        assert not terminated.any()
    for b, single in enumerate(singles):
        assert envs.event_log(b).digest() == single.event_log().digest()


def test_scenarios_of_a_batch_have_equal_shapes() -> None:
    for other, name in ((linked_scenario(), "flows"), ("bsbf-sim-240-v1", "company"), ("hadar-60gpu-v1", "copies")):
        with pytest.raises(ScenarioError, match=name):
            ClusterVectorEnv(2, ["tiny-v1", other])


def test_without_autoreset_a_finished_episode_must_be_reset() -> None:
    envs = make(SCENARIOS["limits"], autoreset_mode="Disabled", reward="makespan")
    with pytest.raises(gym.error.ResetNeeded):
        envs.step(np.zeros(3, np.int64))
    envs.reset(seed=0)
    actions = np.full(3, envs.windows.wait_action)
    over = np.zeros(3, bool)
    while not over.any():
        _, _, terminated, truncated, _ = envs.step(actions)
        over = terminated | truncated
    with pytest.raises(gym.error.ResetNeeded, match="reset_mask"):
        envs.step(actions)
    _, infos = envs.reset(options={"reset_mask": over})
    np.testing.assert_array_equal(infos["_seed"], over)
    envs.step(actions)


@pytest.mark.parametrize(
    "duplicate", [copy.deepcopy, lambda env: pickle.loads(pickle.dumps(env))], ids=["deepcopy", "pickle"]
)
def test_a_copy_continues_like_the_original(duplicate: Any) -> None:
    envs = make(SCENARIOS["philly"], keep_logs=True, threads=2)
    rng = np.random.default_rng(0)
    _, infos = envs.reset(seed=2)
    for _ in range(5):
        infos = envs.step(draw(rng, infos["action_mask"]))[-1]
    twin = duplicate(envs)
    for _ in range(20):
        actions = draw(rng, infos["action_mask"])
        said = envs.step(actions)
        np.testing.assert_equal(said[-1], twin.step(actions)[-1])
        infos = said[-1]
    envs.close()


def test_errors_of_arguments_name_the_remedy() -> None:
    for options, words in (
        (dict(num_envs=0), "num_envs"),
        (dict(threads=0), "threads"),
        (dict(render_mode="ansi"), "render_mode"),
        (dict(num_envs=3, scenario=["tiny-v1"]), "one each"),
    ):
        with pytest.raises(ScenarioError, match=words):
            ClusterVectorEnv(**options)  # type: ignore[arg-type]


def test_a_partial_reset_repeats_no_results_of_other_environments() -> None:
    envs = ClusterVectorEnv(3, scenario="tiny-v1", autoreset_mode="Disabled")
    _, infos = envs.reset(seed=1)
    for _ in range(5):
        *_, infos = envs.step(infos["action_mask"].argmax(axis=1))
    assert infos["_dt"].all()
    _, infos = envs.reset(options={"reset_mask": np.array([True, False, False])})
    assert infos["_dt"].tolist() == infos["_refusals"].tolist() == [True, False, False]
    assert infos["_rewards"].tolist() == [True, False, False]
    assert infos["rewards"]["jct"][0] == 0.0


def test_a_batch_plays_on_after_its_threads_have_ended() -> None:
    envs = ClusterVectorEnv(32, scenario="tiny-v1", threads=2)
    _, infos = envs.reset(seed=1)
    envs.close_extras()
    *_, infos = envs.step(infos["action_mask"].argmax(axis=1))
    assert infos["action_mask"].any(axis=1).all()
