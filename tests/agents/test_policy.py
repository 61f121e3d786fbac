"""The policy network: every environment trains it; it plays the same in the environment, alone and in a batch."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from helpers import thirty_jobs

from gpusched_env.agents.evaluation import evaluate_policy
from gpusched_env.agents.learned import LearnedScheduler
from gpusched_env.agents.training import TrainingConfig, train
from gpusched_env.envs.cluster_env import ClusterEnv
from gpusched_env.envs.registration import ENVIRONMENTS
from gpusched_env.evaluation import evaluate
from gpusched_env.scenarios import Scenario, save_scenario

SEEDS = range(200_000, 200_003)


def scenario_of(name: str) -> tuple[Scenario, dict[str, Any]]:
    """A small scenario of an environment, and its other options."""
    options = dict(gym.spec(name).kwargs)
    return thirty_jobs(options.pop("scenario", "philly-64-v1")), options


def trained(name: str, folder: Path, **changes: Any) -> tuple[LearnedScheduler, Scenario, TrainingConfig]:
    scenario, options = scenario_of(name)
    save_scenario(scenario, folder / "scenario.json")
    config = TrainingConfig(
        scenario=str(folder / "scenario.json"), steps=256, workloads=1, copies=2, batch=64, epochs=1, validations=1,
        validation_seeds=1,
        **({"rules": ("pack",), "queue_order": "arrival", "running_order": "most-attained"} | options | changes),
    )  # fmt: skip
    return LearnedScheduler(str(train(config, folder))), scenario, config


def played_in_the_environment(agent: LearnedScheduler, scenario: Scenario, seed: int) -> str:
    """Digest of an episode with the actions of the agent."""
    env = ClusterEnv(scenario, step_limit=10_000_000, **dataclasses.asdict(agent.windows))
    generator = np.random.default_rng(agent.seed)
    observation, info = env.reset(seed=seed)
    over = False
    while not over:
        batch = {name: array[None] for name, array in observation.items()}
        action = agent.choose(batch, info["action_mask"][None].astype(bool), [generator])[0]
        observation, _, terminated, truncated, info = env.step(action)
        over = terminated or truncated
    return str(info["digest"])


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_every_environment_trains_saves_and_plays_equally_everywhere(name: str, tmp_path: Path) -> None:
    agent, scenario, config = trained(name, tmp_path)
    assert agent.windows == config.windows
    assert agent.clairvoyant == config.clairvoyant
    alone = evaluate(scenario, [agent], SEEDS, progress=False)
    assert evaluate_policy(agent, scenario, SEEDS) == alone
    assert [played_in_the_environment(agent, scenario, seed) for seed in SEEDS] == [one.digest for one in alone]
    for options in ({"greedy": True}, {"untrained": True}, {"initial": True}):
        other = LearnedScheduler(agent.path, **options)
        assert evaluate_policy(other, scenario, SEEDS[:1]) == evaluate(scenario, [other], SEEDS[:1], progress=False)
