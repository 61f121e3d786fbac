"""The policy network: every environment trains it; it plays the same in the environment, alone and in a batch."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces
from helpers import thirty_jobs

from gpusched_env.agents.evaluation import evaluate_policy
from gpusched_env.agents.learned import LearnedScheduler
from gpusched_env.agents.policy import WIDTH, SlotExtractor, SlotPolicy
from gpusched_env.agents.training import TrainingConfig, train
from gpusched_env.envs.cluster_env import ClusterEnv
from gpusched_env.envs.registration import ENVIRONMENTS
from gpusched_env.errors import SchedulerError
from gpusched_env.evaluation import evaluate
from gpusched_env.scenarios import Scenario, save_scenario
from gpusched_env.simulator import simulate

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


@pytest.mark.parametrize("learner", ["ppo", "stable-baselines3"])
@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_every_environment_trains_saves_and_plays_equally_everywhere(name: str, learner: str, tmp_path: Path) -> None:
    agent, scenario, config = trained(name, tmp_path, learner=learner)
    assert agent.windows == config.windows
    assert agent.clairvoyant == config.clairvoyant
    alone = evaluate(scenario, [agent], SEEDS, progress=False)
    assert evaluate_policy(agent, scenario, SEEDS) == alone
    assert [played_in_the_environment(agent, scenario, seed) for seed in SEEDS] == [one.digest for one in alone]
    for options in ({"greedy": True}, {"untrained": True}, {"initial": True}):
        other = LearnedScheduler(agent.path, **options)
        assert evaluate_policy(other, scenario, SEEDS[:1]) == evaluate(scenario, [other], SEEDS[:1], progress=False)


def space_of(name: str, **changes: Any) -> tuple[spaces.Dict, ClusterEnv]:
    scenario, options = scenario_of(name)
    env = ClusterEnv(scenario, **(options | changes))
    assert isinstance(env.observation_space, spaces.Dict)
    return env.observation_space, env


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_every_observation_is_an_input(name: str) -> None:
    """A change of any array changes the features, and only those of the slot that the changed row is about."""
    space, env = space_of(name)
    torch.manual_seed(0)
    extractor = SlotExtractor(space).double()
    observation = {key: torch.from_numpy(array)[None].double() for key, array in env.reset(seed=0)[0].items()}
    windows = env.windows
    slots = 1 + windows.queue_window + windows.running_window
    before = extractor(observation).view(slots, WIDTH)
    for key, array in observation.items():
        changed = dict(observation) | {key: array.clone()}
        changed[key][0, -1] += 0.5
        after = extractor(changed).view(slots, WIDTH)
        differs = (after != before).any(dim=1)
        if key in ("queue", "pairs", "sub_batches", "queue_types", "forks", "queue_sizes", "queue_tenants"):
            assert differs.nonzero().flatten().tolist() == [windows.queue_window], key
        elif key in ("running", "flows", "running_types", "copies", "company", "running_sizes", "running_tenants"):
            assert differs.nonzero().flatten().tolist() == [slots - 1], key
        else:
            assert differs.all(), key


def test_the_default_network_has_the_shapes_of_saved_models() -> None:
    """Otherwise models saved by earlier versions cannot be loaded."""
    space, env = space_of("gpusched/Cluster-v0", queue_window=16, running_window=4)
    policy = SlotPolicy(space, env.action_space, lambda _: 0.0, rules=1, waits=1)  # earlier versions saved rules
    extractor, layer = "features_extractor", {"queue": 13, "running": 11}
    expected = {
        f"{extractor}.context.0": (WIDTH, 11 + 3 * 3 + 2 * 4), f"{extractor}.context.2": (WIDTH, WIDTH),
        **{f"{extractor}.{name}.0": (WIDTH, width + WIDTH) for name, width in layer.items()},
        **{f"{extractor}.{name}.2": (WIDTH, WIDTH) for name in layer},
        "action_net.start": (1, WIDTH), "action_net.preempt": (1, WIDTH), "action_net.wait": (1, WIDTH),
        "value_net.head.0": (WIDTH, 2 * WIDTH), "value_net.head.2": (1, WIDTH),
    }  # fmt: skip
    state = {key: tuple(value.shape) for key, value in policy.state_dict().items()}
    aliases = ("pi_features_extractor", "vf_features_extractor")
    weights = {key.removesuffix(".weight"): shape for key, shape in state.items() if key.endswith(".weight")}
    assert {key: shape for key, shape in weights.items() if not key.startswith(aliases)} == expected


def test_logits_follow_the_numbers_of_the_actions() -> None:
    """The bias of a head appears at the actions of its kind: K (P + C) S starts, V preemptions, 1 + W waits."""
    space, env = space_of("gpusched/Sharing-v0", running_window=3, delays_s=(60.0,))
    policy = SlotPolicy(space, env.action_space, lambda _: 0.0, waits=2)
    for number, head in enumerate((policy.action_net.start, policy.action_net.preempt, policy.action_net.wait)):
        torch.nn.init.zeros_(head.weight)
        head.bias.data = number * 100.0 + torch.arange(len(head.bias), dtype=torch.float32)
    observation = {key: torch.from_numpy(array)[None] for key, array in env.reset(seed=0)[0].items()}
    logits = policy.action_net(policy.extract_features(observation))[0].tolist()
    windows = env.windows
    assert logits[: windows.first_preemption] == list(range(windows.slot_starts)) * windows.queue_window
    assert logits[windows.first_preemption :] == [100.0] * 3 + [200.0, 201.0]


def test_an_agent_of_maskable_ppo_does_not_play_on_other_gpu_types(tmp_path: Path) -> None:
    agent, scenario, _ = trained("gpusched/Heterogeneous-v0", tmp_path, learner="stable-baselines3")
    with pytest.raises(SchedulerError, match=r"trained with the observations .*queue_types"):
        simulate(thirty_jobs("philly-64-v1").instance(0), agent)
    two = scenario.replace(groups=scenario.groups[:2])
    with pytest.raises(SchedulerError, match=r"trained with \w+ of shape .*, but here it is"):
        simulate(two.instance(0), agent)
