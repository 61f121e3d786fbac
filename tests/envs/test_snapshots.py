"""Snapshots: an environment continues from one exactly as from the state in which it was taken."""

from __future__ import annotations

import copy
import pickle
import re
import runpy
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from helpers import linked_scenario, thirty_jobs

from gpusched_env.envs.cluster_env import ClusterEnv
from gpusched_env.envs.cluster_vector_env import ClusterVectorEnv
from gpusched_env.envs.registration import ENVIRONMENTS
from gpusched_env.errors import GpuschedError

STEPS = 12  # before the snapshot


def made(name: str, **changes: Any) -> ClusterEnv:
    options = dict(gym.spec(name).kwargs)
    return ClusterEnv(thirty_jobs(options.pop("scenario", "philly-64-v1")), **(options | changes))


def played(env: ClusterEnv, mask: np.ndarray, rng: np.random.Generator, steps: int | None = None) -> list[Any]:
    """Play random feasible actions, to the end or for some steps; return everything that the steps returned."""
    returned: list[Any] = []
    while steps is None or len(returned) < steps:
        step = env.step(int(rng.choice(np.flatnonzero(mask))))
        returned.append(step)
        mask = step[4]["action_mask"]
        if step[2] or step[3]:
            break
    return returned


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_the_future_of_a_snapshot_is_that_of_the_environment(name: str) -> None:
    """It can be restored any number of times, also after the environment has played other episodes."""
    env = made(name)
    _, info = env.reset(seed=3)
    before = played(env, info["action_mask"], np.random.default_rng(0), STEPS)
    snapshot = env.snapshot()
    future = played(env, before[-1][4]["action_mask"], np.random.default_rng(1))
    for seed in (3, 4):
        env.reset(seed=seed)
        observation, info = env.restore(snapshot)
        np.testing.assert_equal(observation, before[-1][0])
        np.testing.assert_equal(info["action_mask"], before[-1][4]["action_mask"])
        assert info["seed"] == 3
        np.testing.assert_equal(played(env, info["action_mask"], np.random.default_rng(1)), future)


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_another_future_does_not_change_a_snapshot(name: str) -> None:
    env = made(name)
    _, info = env.reset(seed=3)
    mask = played(env, info["action_mask"], np.random.default_rng(0), STEPS)[-1][4]["action_mask"]
    snapshot = env.snapshot()
    content = pickle.dumps(snapshot)
    played(env, mask, np.random.default_rng(1))
    env.restore(snapshot)
    played(env, mask, np.random.default_rng(2))
    assert pickle.dumps(snapshot) == content


def test_a_snapshot_survives_a_process(tmp_path: Path) -> None:
    env = ClusterEnv("philly-64-v1")
    _, info = env.reset(seed=7)
    mask = played(env, info["action_mask"], np.random.default_rng(0), STEPS)[-1][4]["action_mask"]
    (tmp_path / "snapshot").write_bytes(pickle.dumps(env.snapshot()))
    digest = played(env, mask, np.random.default_rng(1))[-1][4]["digest"]
    program = f"""
import pickle, sys
from pathlib import Path
import numpy as np
sys.path[:0] = {[str(Path(__file__).parents[2]), str(Path(__file__).parents[1] / "support")]!r}
from gpusched_env.envs.cluster_env import ClusterEnv
from tests.envs.test_snapshots import played
env = ClusterEnv("philly-64-v1")
_, info = env.restore(pickle.loads(Path({str(tmp_path / "snapshot")!r}).read_bytes()))
print(played(env, info["action_mask"], np.random.default_rng(1))[-1][4]["digest"])
"""
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == digest


@pytest.mark.parametrize("name", ["gpusched/Cluster-v0", "gpusched/Sharing-v0"])
@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda env: pickle.loads(pickle.dumps(env))])
def test_a_copy_of_an_environment_has_its_future_and_gives_and_takes_the_same_snapshots(
    duplicate: Callable[[Any], ClusterEnv], name: str
) -> None:
    env = made(name)
    _, info = env.reset(seed=3)
    played(env, info["action_mask"], np.random.default_rng(0), STEPS)
    twin, mask = duplicate(env), env.mask.copy()
    ours, theirs = env.snapshot(), twin.snapshot()
    assert [part.tobytes() for part in (*theirs.run, theirs.episode)] == [
        part.tobytes() for part in (*ours.run, ours.episode)
    ]
    future = played(env, mask, np.random.default_rng(1))
    np.testing.assert_equal(played(twin, mask, np.random.default_rng(1)), future)
    _, info = twin.restore(ours)
    np.testing.assert_equal(played(twin, info["action_mask"], np.random.default_rng(1)), future)


def test_a_snapshot_of_an_ended_episode_is_over() -> None:
    env = made("gpusched/Cluster-v0")
    _, info = env.reset(seed=0)
    played(env, info["action_mask"], np.random.default_rng(0))
    snapshot = env.snapshot()
    env.reset(seed=1)
    env.restore(snapshot)
    with pytest.raises(gym.error.ResetNeeded):
        env.step(0)


def test_restore_does_not_change_the_seeds_of_later_episodes() -> None:
    env = made("gpusched/Cluster-v0")
    env.reset(seed=0)
    snapshot = env.snapshot()
    env.reset(seed=5)
    seeds = [env.reset()[1]["seed"] for _ in range(3)]
    env.reset(seed=5)
    found = []
    for _ in range(3):
        env.restore(snapshot)
        found.append(env.reset()[1]["seed"])
    assert found == seeds


def test_a_snapshot_of_another_environment_is_refused() -> None:
    env = made("gpusched/Cluster-v0")
    with pytest.raises(gym.error.ResetNeeded):
        env.snapshot()
    env.reset(seed=0)
    snapshot = env.snapshot()
    with pytest.raises(GpuschedError, match="restore: the snapshot is of another windows"):
        made("gpusched/Cluster-v0", queue_window=3).restore(snapshot)
    with pytest.raises(GpuschedError, match="restore: the snapshot is of another scenario"):
        ClusterEnv(linked_scenario(jobs=20)).restore(snapshot)
    for changes in (dict(reward="slowdown"), dict(refusal_cost=0.5), dict(step_limit=12)):
        with pytest.raises(GpuschedError, match="restore: the snapshot is of another reward, refusal cost, step limit"):
            made("gpusched/Cluster-v0", **changes).restore(snapshot)


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_a_copied_environment_of_a_batch_has_the_same_future(name: str) -> None:
    options = dict(gym.spec(name).kwargs)
    scenario = thirty_jobs(options.pop("scenario", "philly-64-v1"))
    envs = ClusterVectorEnv(3, scenario, keep_logs=True, autoreset_mode="Disabled", **options)
    _, infos = envs.reset(seed=[3, 4, 5])
    rng = np.random.default_rng(0)

    def drawn(masks: np.ndarray) -> np.ndarray:
        return np.array([rng.choice(np.flatnonzero(mask)) for mask in masks])

    for _ in range(STEPS):
        *_, infos = envs.step(drawn(infos["action_mask"]))
    envs.copy_environment(0, 2)
    masks = envs.action_masks()
    np.testing.assert_array_equal(masks[2], masks[0])
    over = np.zeros(3, bool)
    while not over[0]:
        actions = drawn(masks)
        actions[2] = actions[0]
        observations, rewards, terminated, truncated, infos = envs.step(actions)
        over, masks = terminated | truncated, infos["action_mask"]
        assert rewards[2] == rewards[0]
        for array in observations.values():
            np.testing.assert_array_equal(array[2], array[0])
        if over[1] and not over[0]:  # only the other two matter
            envs.reset(seed=[None, 4, None], options={"reset_mask": np.array([False, True, False])})
            masks = envs.action_masks()
    assert infos["digest"][2] == infos["digest"][0]


def test_only_environments_of_one_scenario_are_copied() -> None:
    envs = ClusterVectorEnv(2, ["tiny-v1", "philly-64-v1"])
    with pytest.raises(gym.error.ResetNeeded):
        envs.copy_environment(0, 1)
    envs.reset(seed=0)
    with pytest.raises(GpuschedError, match="0 and 1 have different scenarios"):
        envs.copy_environment(0, 1)
    with pytest.raises(GpuschedError, match="there is no environment 2, only 0 to 1"):
        envs.copy_environment(0, 2)


def test_the_search_of_the_example_beats_the_rule_that_it_plays(capsys: pytest.CaptureFixture[str]) -> None:
    """It tries the rule's own future, too, so it is never worse."""
    runpy.run_path(str(Path(__file__).parents[2] / "examples" / "short" / "plot_search.py"), run_name="__main__")
    returns = np.array([re.findall(r"-\d+\.\d+", line) for line in capsys.readouterr().out.splitlines()], float)
    rule, search = returns.T
    assert (search >= rule).all()
    assert (search > rule).sum() >= 2
