"""The environment and the direct run are the same simulation: every baseline gives the same log through env.step."""

from __future__ import annotations

import dataclasses
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from helpers import small_scenario

from gpusched_env.baselines import list_baselines, make_scheduler
from gpusched_env.cluster import NodeGroup
from gpusched_env.envs.cluster_env import ClusterEnv
from gpusched_env.envs.scheduler_player import play_scheduler, wide_open
from gpusched_env.errors import GpuschedError, SchedulerError
from gpusched_env.instance import Semantics
from gpusched_env.metrics import validate
from gpusched_env.scenarios import Scenario, get_scenario
from gpusched_env.simulator import Preempt, Start, Wait, simulate

RULES = ("pack", "consolidate", "rack", "yarn")
SCENARIOS = {
    "tiny-v1": lambda: get_scenario("tiny-v1"),
    "philly-60": lambda: small_scenario(60),
    "philly-60-rounds": lambda: small_scenario(60, semantics=Semantics(round_s=300.0)),
    "rar-160-v0": lambda: get_scenario("rar-160-v0"),
    "leaf-spine-256-v1": lambda: fewer_jobs("leaf-spine-256-v1", 80),
    "leaf-spine-2048-v1": lambda: fewer_jobs("leaf-spine-2048-v1", 40),
    "dally-drift-v1": lambda: get_scenario("dally-drift-v1:jobs=60"),  # links change in the middle
}


def fewer_jobs(name: str, jobs: int) -> Scenario:
    scenario = get_scenario(name)
    return scenario.replace(workload=dataclasses.replace(scenario.workload, jobs=jobs))


@pytest.mark.parametrize("scenario", SCENARIOS)
@pytest.mark.parametrize("name", list_baselines())
def test_every_baseline_plays_alike_directly_and_through_the_environment(name: str, scenario: str) -> None:
    drawn, seed = SCENARIOS[scenario](), 200_000
    through = play_scheduler(wide_open(drawn, seed, rules=RULES), make_scheduler(name), seed)
    direct = simulate(drawn.instance(seed), make_scheduler(name), seed=seed)
    validate(drawn.instance(seed), through)
    assert through.digest() == direct.digest()


def test_long_episodes_are_alike_although_the_environment_drains_the_log_earlier() -> None:
    """More than 1,024 events: the direct run's log buffer fills at an arrival, the environment's never does."""
    scenario = get_scenario("poisson-64-v1")
    spec = scenario.workload
    small = scenario.with_workload(spec.source, parameters=spec.parameters, jobs=1_500, profiles="unit", load=0.2)
    small = small.replace(groups=(NodeGroup(16, 8),))
    for seed in range(200_000, 200_004):
        env = wide_open(small, seed, queue_window=64, running_window=64)
        assert play_scheduler(env, make_scheduler("fifo"), seed).digest() == (
            simulate(small.instance(seed), make_scheduler("fifo"), seed=seed).digest()
        )


def test_playing_needs_every_decision_point_and_rule_and_slot() -> None:
    scenario = get_scenario("tiny-v1")
    with pytest.raises(SchedulerError, match="skip_forced_waits=False"):
        play_scheduler(ClusterEnv(scenario), make_scheduler("fifo"), 0)
    with pytest.raises(GpuschedError, match="rules that include 'consolidate'"):
        play_scheduler(wide_open(scenario, 0), make_scheduler("fifo:placement=consolidate"), 0)
    with pytest.raises(GpuschedError, match="in no slot; raise queue_window"):
        play_scheduler(wide_open(scenario, 200_002, queue_window=1), make_scheduler("sjf"), 200_002)
    with pytest.raises(SchedulerError, match="truncated"):
        play_scheduler(wide_open(scenario, 0, step_limit=5), make_scheduler("fifo"), 0)


def test_playing_looks_through_wrappers() -> None:
    scenario = get_scenario("tiny-v1")
    env = gym.wrappers.RecordEpisodeStatistics(wide_open(scenario, 3))
    assert play_scheduler(env, make_scheduler("fifo"), 3).digest() == (
        simulate(scenario.instance(3), make_scheduler("fifo")).digest()
    )


def test_actions_and_decisions_translate_into_each_other() -> None:
    env = ClusterEnv("tiny-v1", rules=("pack", "spread"), running_window=3, delays_s=(5.0,), queue_window=4)
    rng = np.random.default_rng(0)
    env.reset(seed=3)
    for _ in range(60):
        for action in np.flatnonzero(env.mask).tolist():
            decision: Any = env.encoder.decision_of(action)
            if action == env.windows.wait_action:
                assert decision is None
            elif action > env.windows.wait_action:
                assert decision == Wait(env.simulation.now_s + 5.0)
            else:
                assert isinstance(decision, Start if action < env.windows.first_preemption else Preempt)
                assert env.encoder.action_of(decision) == action
        if env.step(int(rng.choice(np.flatnonzero(env.mask))))[2]:
            break
    with pytest.raises(GpuschedError, match="explicit GPUs"):
        env.encoder.action_of(Start(0, gpus=(1,)))
