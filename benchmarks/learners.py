"""Decisions per second of our PPO and of MaskablePPO in the same settings: play and updates.

    python benchmarks/learners.py [--steps 80000] [--repeats 3] [--clock cpu] [--output FILE.json]

All train on philly-64-v1 with the default windows, 32 episodes at once, three passes over minibatches of 1,024 steps;
torch uses one thread. Our PPO trains its default token network. MaskablePPO trains three networks:

- slots: SlotPolicy of agents/policy.py, which ``train.py --learner stable-baselines3`` trains: width 64;
- tokens: the token network of our PPO, with a linear value of its logits and of the token of the cluster;
- mlp: MultiInputPolicy, the default of stable-baselines3: two layers of 64 on all observations side by side.
"""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from gymnasium import spaces
from machine import CLOCKS, save_figures
from sb3_contrib.common.maskable.policies import MaskableMultiInputActorCriticPolicy
from stable_baselines3.common.type_aliases import Schedule
from torch import nn

from gpusched_env.agents.maskable_ppo import make_environments, make_model
from gpusched_env.agents.network import WIDTH, TokenNetwork
from gpusched_env.agents.policy import SlotPolicy
from gpusched_env.agents.ppo import Learner
from gpusched_env.agents.tokens import CLUSTER, Layout
from gpusched_env.agents.training import TrainingConfig
from gpusched_env.envs.cluster_env import ClusterEnv
from gpusched_env.envs.windows import Windows
from gpusched_env.scenarios import get_scenario
from gpusched_env.support.commands import run_script

POLICIES: dict[str, Callable[[], tuple[Any, dict[str, Any]]]] = {
    "slots": lambda: (SlotPolicy, {"waits": 1}),
    "tokens": lambda: (TokenPolicy, {}),
    "mlp": lambda: ("MultiInputPolicy", {}),
}


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
    environments = make_environments(config, get_scenario(config.scenario))
    kind, arguments = POLICIES[policy]()
    model = make_model(config, environments, kind, **arguments)
    begin = clock()
    model.learn(config.steps)
    seconds = clock() - begin
    environments.close()
    return float(model.num_timesteps / seconds)


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
