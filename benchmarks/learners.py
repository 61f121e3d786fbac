"""Decisions per second of our PPO and of MaskablePPO in the same settings: play and updates.

    python benchmarks/learners.py [--steps 80000] [--repeats 3] [--clock cpu] [--output FILE.json]

All train on philly-64-v1 with the default windows, 32 episodes at once, three passes over minibatches of 1,024 steps;
torch uses one thread. Our PPO trains its default token network. MaskablePPO of sb3-contrib trains two networks:

- tokens: the token network of our PPO, with a linear value of its logits and of the token of the cluster;
- mlp: MultiInputPolicy, the default of stable-baselines3: two layers of 64 on all observations side by side.
"""

from __future__ import annotations

import dataclasses
import statistics
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import gymnasium as gym
import numpy as np
import torch
from gymnasium import spaces
from machine import CLOCKS, save_figures
from sb3_contrib import MaskablePPO
from sb3_contrib.common.maskable.policies import MaskableMultiInputActorCriticPolicy
from stable_baselines3.common.type_aliases import Schedule
from stable_baselines3.common.utils import LinearSchedule, set_random_seed
from torch import nn

from gpusched_env.agents.network import WIDTH, TokenNetwork
from gpusched_env.agents.ppo import Learner
from gpusched_env.agents.tokens import CLUSTER, Layout
from gpusched_env.agents.training import TrainingConfig
from gpusched_env.envs.cluster_env import ClusterEnv
from gpusched_env.envs.windows import Windows
from gpusched_env.integrations.stable_baselines3 import ClusterVecEnv
from gpusched_env.scenarios import get_scenario
from gpusched_env.support.commands import run_script

ROLLOUT = 512  # steps per environment between two updates of MaskablePPO


@dataclass
class Settings:
    """Measure the learners."""

    steps: int = 80_000
    """Steps of one training."""
    repeats: int = 3
    """Repeats; the median is reported."""
    clock: Literal["wall", "cpu"] = "wall"
    """Seconds of which clock: wall, or cpu for a machine that does other work, too."""
    output: Path | None = None
    """JSON file for the results."""


class LogitsAndCluster(nn.Module):
    """Logits of a token network, and the token of the cluster, side by side: [B, actions + width]."""

    def __init__(self, observation_space: spaces.Dict) -> None:
        super().__init__()
        shapes = {name: space.shape or () for name, space in observation_space.items()}
        windows = TrainingConfig().windows
        self.network = TokenNetwork(Layout.of(shapes, windows))
        self.features_dim = actions_of(shapes, windows) + WIDTH

    def forward(self, observations: dict[str, torch.Tensor]) -> torch.Tensor:
        """Return the features of a batch of observations."""
        tokens, pairs = self.network.tokens(self.network.layout.inputs(observations))
        return torch.cat([self.network.logits(tokens, pairs), tokens[CLUSTER]], dim=1)


class First(nn.Module):
    """The first columns."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.count = count

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        """Return the first columns of the features."""
        return features[:, : self.count]


class TokenPolicy(MaskableMultiInputActorCriticPolicy):
    """A policy of MaskablePPO with the network of our PPO."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **(kwargs | {"net_arch": [], "features_extractor_class": LogitsAndCluster}))

    def _build(self, lr_schedule: Schedule) -> None:
        super()._build(lr_schedule)
        assert isinstance(self.action_space, spaces.Discrete)
        self.action_net = First(int(self.action_space.n))
        self.features_extractor.network = TokenNetwork(self.features_extractor.network.layout)  # its own first logits
        self.optimizer = self.optimizer_class(self.parameters(), **(self.optimizer_kwargs | {"lr": lr_schedule(1)}))


def actions_of(shapes: dict[str, tuple[int, ...]], windows: Windows) -> int:
    """Return the number of actions: starts by each rule, preemptions, and to wait."""
    return shapes["queue"][0] * len(windows.rules) + shapes["running"][0] + 1


POLICIES: dict[str, Any] = {"tokens": TokenPolicy, "mlp": "MultiInputPolicy"}


def ours(settings: Settings) -> float:
    """Measure steps per second of our PPO: whole episodes and updates, until the steps are done."""
    torch.set_num_threads(1)
    clock, config = CLOCKS[settings.clock], TrainingConfig(steps=settings.steps)
    environment = ClusterEnv(config.scenario, reward=config.reward, **dataclasses.asdict(config.windows))
    learner = Learner(config, environment)
    begin = clock()
    while learner.done < settings.steps:
        learner.update()
    return learner.done / (clock() - begin)


def maskable_ppo(settings: Settings, policy: str) -> float:
    """Measure steps per second of MaskablePPO: rollouts and updates, until the steps are done."""
    torch.set_num_threads(1)
    clock, config = CLOCKS[settings.clock], TrainingConfig(steps=settings.steps)
    set_random_seed(config.seed)
    environments = make_environments(config)
    model = MaskablePPO(
        POLICIES[policy],
        environments,
        learning_rate=LinearSchedule(config.learning_rate, 0.0, 1.0),
        n_steps=min(ROLLOUT, max(config.steps // environments.num_envs, 2)),
        batch_size=config.batch,
        n_epochs=config.epochs,
        gamma=1.0,  # per step; decisions take no simulated time
        clip_range=config.clip,
        target_kl=config.target_kl,
        device="cpu",
    )
    begin = clock()
    model.learn(config.steps)
    seconds = clock() - begin
    environments.close()
    return float(model.num_timesteps / seconds)


def make_environments(config: TrainingConfig) -> ClusterVecEnv:
    """Make as many environments as our PPO plays episodes at once."""
    count = config.workloads * config.copies
    batch = gym.make_vec(
        "gpusched_env:gpusched/Cluster-v0",
        num_envs=count,
        scenario=config.scenario,
        reward=config.reward,
        autoreset_mode="SameStep",
        keep_logs=False,
        **dataclasses.asdict(config.windows),
    )
    environments = ClusterVecEnv(batch)
    first, end = get_scenario(config.scenario).seeds.train
    environments.seed(int(np.random.default_rng(config.seed).integers(first, end - count + 1)))
    return environments


def main(settings: Settings) -> None:
    """Measure, print and save."""
    ours(Settings(steps=1_000))  # compile
    runs = [
        {"ppo": ours(settings)} | {f"maskable_ppo {policy}": maskable_ppo(settings, policy) for policy in POLICIES}
        for _ in range(settings.repeats)
    ]
    figures = {}
    for name in runs[0]:
        figures[name] = statistics.median(run[name] for run in runs)
        ratio = statistics.median(run["ppo"] / run[name] for run in runs)
        print(f"{name:20s} {figures[name]:9,.0f} decisions per second; our PPO makes {ratio:.2f} times as many")
        figures[f"ratio to {name}"] = ratio
    save_figures(figures, settings.output)


if __name__ == "__main__":
    run_script(main)
