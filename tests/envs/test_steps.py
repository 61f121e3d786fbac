"""Steps: refusals, errors, clock, rewards by Little's law, ends of episodes, forced waits."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from helpers import small_scenario

from gpusched_env.core.placement.placing import fits
from gpusched_env.envs.cluster_env import ClusterEnv
from gpusched_env.errors import GpuschedError
from gpusched_env.event_log import START
from gpusched_env.metrics import summarise, validate
from gpusched_env.problem.instance import Semantics
from gpusched_env.scenarios import get_scenario
from gpusched_env.simulator import RULE_NUMBER

WIDE = dict(rules=("pack", "yarn", "spread"), running_window=6, delays_s=(30.0, 300.0), queue_window=8)


def feasible(env: ClusterEnv, rng: np.random.Generator) -> int:
    return int(rng.choice(np.flatnonzero(env.mask)))


def episode(env: ClusterEnv, seed: int, eager: float = 0.5) -> tuple[list[float], list[dict[str, Any]]]:
    """Random feasible play to the end, with some infeasible actions."""
    rng = np.random.default_rng(seed)
    _, info = env.reset(seed=seed)
    rewards, infos, over = [], [info], False
    while not over:
        starts = np.flatnonzero(env.mask[: env.windows.first_preemption])
        action = int(rng.choice(starts)) if len(starts) and rng.random() < eager else feasible(env, rng)
        if rng.random() < 0.1:
            action = int(rng.integers(env.windows.actions))
        _, reward, terminated, truncated, info = env.step(action)
        rewards.append(reward)
        infos.append(info)
        over = terminated or truncated
    assert terminated
    return rewards, infos


def test_a_masked_action_changes_nothing_and_is_counted() -> None:
    env = ClusterEnv("tiny-v1", **WIDE)
    env.reset(seed=3)
    for count, action in enumerate(np.flatnonzero(env.mask == 0)[:5], start=1):
        before = len(env.event_log().events), env.simulation.now_s, env.mask.copy()
        observation, reward, terminated, truncated, info = env.step(int(action))
        assert (reward, terminated, truncated, info["dt"], info["refusals"]) == (-0.01, False, False, 0.0, count)
        assert info["rewards"] == {"jct": 0.0}
        assert before[:2] == (len(env.event_log().events), env.simulation.now_s)
        assert (before[2] == env.mask).all()
        assert observation in env.observation_space


@pytest.mark.parametrize("action", [-1, 10**6, 0.5, float("nan"), float("inf"), None, "3", [1, 2], 2**80])
def test_an_impossible_action_is_an_error_that_names_the_range(action: Any) -> None:
    env = ClusterEnv("tiny-v1", **WIDE)
    env.reset(seed=3)
    with pytest.raises(GpuschedError, match=f"whole number from 0 to {env.windows.actions - 1}"):
        env.step(action)
    env.step(env.windows.wait_action)  # the episode continues


def test_numpy_integers_are_actions() -> None:
    digests = set()
    for kind in (int, np.int64, np.int32, np.uint8, np.array):
        env = ClusterEnv("tiny-v1", **WIDE)
        env.reset(seed=3)
        for action in (0, env.windows.wait_action):
            env.step(kind(action))
        assert (env.event_log().events["kind"] == START).any()
        digests.add(env.event_log().digest())
    assert len(digests) == 1


def test_no_step_before_a_reset_or_after_the_end() -> None:
    env = ClusterEnv("tiny-v1", step_limit=3)
    with pytest.raises(gym.error.ResetNeeded):
        env.step(0)
    env.reset(seed=0)
    for _ in range(3):
        env.step(env.windows.wait_action)
    with pytest.raises(gym.error.ResetNeeded):
        env.step(0)
    env.reset(seed=0)
    env.step(0)


def test_dt_sums_to_the_clock() -> None:
    env = ClusterEnv(small_scenario(30), **WIDE)
    env.reset(seed=1)
    start = env.simulation.now_s
    _, infos = episode(env, 1)
    assert start + sum(info["dt"] for info in infos) == pytest.approx(env.simulation.now_s, rel=1e-9)
    assert all(info["dt"] >= 0 for info in infos)


@pytest.mark.parametrize("seed", [1, 2])
def test_rewards_sum_to_the_documented_values(seed: int) -> None:
    components = {"jct": 1.0, "slowdown": 2.0, "makespan": 0.5, "fairness": 0.25}
    env = ClusterEnv(small_scenario(30), reward=components, refusal_cost=0.5, **WIDE)
    env.reset(seed=seed)
    first_decision = env.simulation.now_s
    rewards, infos = episode(env, seed)
    instance, log = env.simulation.instance, env.event_log()
    validate(instance, log)
    numbers = summarise(instance, log)
    total = {name: sum(info["rewards"][name] for info in infos[1:]) for name in components}
    ideal, gpus = instance.ideal_s, instance.workload.jobs["gpus"]
    assert total["jct"] == pytest.approx(-numbers["mean_jct_s"] / ideal.mean(), rel=1e-9)
    assert total["slowdown"] == pytest.approx(-numbers["mean_slowdown"], rel=1e-9)
    assert total["fairness"] == pytest.approx(-numbers["rho_mean"], rel=1e-9)
    end = log.events["time_s"][-1] - first_decision
    assert total["makespan"] == pytest.approx(-end / ((ideal * gpus).sum() / instance.cluster.gpus), rel=1e-9)
    weighted = sum(components[name] * total[name] for name in components)
    assert infos[-1]["refusals"] > 0
    assert sum(rewards) == pytest.approx(weighted - 0.5 * infos[-1]["refusals"], rel=1e-9)
    assert infos[-1]["metrics"]["mean_jct_s"] == numbers["mean_jct_s"]
    assert infos[-1]["digest"] == log.digest()
    assert np.isinf(list(infos[-2]["metrics"].values())).all()


def brute_mask(env: ClusterEnv) -> np.ndarray:
    """The mask by its documentation, from the state alone."""
    simulation, windows = env.simulation, env.windows
    state, world = simulation.arrays, simulation.arrays.world
    mask = []
    for row in env.encoder.queue_slots.tolist():
        for rule in windows.rules:
            kind, gang = int(state.jobs[row]["job_class"]), int(state.jobs[row]["gpus"])
            mask.append(row >= 0 and bool(fits(simulation.arrays, kind, gang, RULE_NUMBER[rule])))
    for row in env.encoder.running_slots.tolist():
        replica = state.replicas[state.jobs[row]["replica"]]
        saving, fresh = replica["phase"] == 2, replica["start_s"] == simulation.now_s
        least_run_s = windows.least_run_in(simulation.instance.semantics)
        old = replica["start_s"] + least_run_s <= simulation.now_s or replica["lease_over"] > 0
        mask.append(bool(row >= 0 and world["waiting"] > 0 and not saving and not fresh and old))
    may_wait = world["running"] > 0 or world["next_arrival"] < world["jobs"]
    return np.array(mask + [bool(may_wait)] * (1 + len(windows.delays_s)))


@pytest.mark.parametrize("more", [{}, {"least_run_s": 0.0}, {"least_run_s": 3_000.0, "lease_s": 700.0}], ids=str)
def test_the_mask_marks_actions_that_the_simulator_accepts(more: dict[str, Any]) -> None:
    env = ClusterEnv(small_scenario(40), **(WIDE | more))
    rng = np.random.default_rng(0)
    _, info = env.reset(seed=2)
    kinds = set()
    for _ in range(600):
        assert (env.action_masks() == brute_mask(env)).all()
        assert (info["action_mask"] == env.action_masks()).all()
        assert env.action_masks().dtype == bool
        action = feasible(env, rng)
        before = info["refusals"]
        kinds.add(int(np.searchsorted([env.windows.first_preemption, env.windows.wait_action], action, side="right")))
        _, _, terminated, truncated, info = env.step(action)
        assert info["refusals"] == before, "a feasible action was refused"
        if terminated or truncated:
            break
    assert kinds == {0, 1, 2}


def test_skipping_forced_waits_never_skips_a_choice() -> None:
    """The same play with and without skipping of forced waits gives the same log and choices."""
    logs, choices = [], []
    for skip in (False, True):
        env = ClusterEnv(small_scenario(40), skip_forced_waits=skip, queue_window=8, running_window=4)
        rng = np.random.default_rng(7)
        env.reset(seed=5)
        over, seen = False, []
        while not over:
            free_choice = env.mask[: env.windows.wait_action].any()
            assert free_choice or not skip
            action = feasible(env, rng) if free_choice else env.windows.wait_action
            if free_choice:
                seen.append((env.simulation.now_s, env.mask.tobytes(), action))
            _, _, terminated, truncated, _ = env.step(action)
            over = terminated or truncated
        logs.append(env.event_log().digest())
        choices.append(seen)
    assert logs[0] == logs[1]
    assert choices[0] == choices[1]


def test_a_delay_wakes_the_agent_in_time_and_no_later_than_the_next_event() -> None:
    env = ClusterEnv("tiny-v1", delays_s=(1.0, 1e9), running_window=0)
    env.reset(seed=1)
    env.step(0)
    now = env.simulation.now_s
    _, _, _, _, info = env.step(env.windows.wait_action + 1)
    assert info["dt"] == 1.0
    assert env.simulation.now_s == now + 1.0
    events = len(env.event_log().events)
    _, _, _, _, info = env.step(env.windows.wait_action + 2)
    assert len(env.event_log().events) > events
    assert 0 < info["dt"] < 1e9


def test_truncation_by_the_time_limit() -> None:
    scenario = get_scenario("tiny-v1").replace(semantics=Semantics(time_limit_s=200.0))
    env = ClusterEnv(scenario)
    rng = np.random.default_rng(0)
    env.reset(seed=0)
    over = False
    while not over:
        _, _, terminated, over, info = env.step(feasible(env, rng))
        assert not terminated
    assert env.simulation.now_s == 200.0
    assert info["metrics"]["finished"] < 12


def test_the_default_step_limit_is_a_hundred_steps_a_job() -> None:
    env = ClusterEnv("tiny-v1")
    env.reset(seed=0)
    bad = int(np.flatnonzero(env.mask == 0)[0])
    for _ in range(1199):
        assert env.step(bad)[2:4] == (False, False)
    assert env.step(bad)[2:4] == (True, True)
