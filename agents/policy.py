"""A policy network that scores all slots with shared weights."""

from __future__ import annotations

from typing import Any

import torch
from gymnasium import spaces
from sb3_contrib.common.maskable.policies import MaskableMultiInputActorCriticPolicy
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from stable_baselines3.common.type_aliases import Schedule
from torch import nn

from gpusched_env.envs.observation.columns import LINKS

WIDTH = 64


class SlotExtractor(BaseFeaturesExtractor):
    """Embed the cluster, and each slot together with the cluster: [B, (1 + K + V) * WIDTH] features, the cluster first.

    The inputs of the cluster's embedding are ``cluster``, mean and maximum over ``nodes``, and ``links``: all tiers, or
    mean and maximum over the links of a topology. Their number does not depend on the number of nodes or of links in a
    topology. The inputs of a running slot are its row of ``running`` and, with a topology, its row of ``flows``.
    """

    def __init__(self, observation_space: spaces.Dict) -> None:
        shapes = {key: space.shape or () for key, space in observation_space.items()}
        self.slots = shapes["queue"][0] + shapes.get("running", (0,))[0]
        super().__init__(observation_space, (1 + self.slots) * WIDTH)
        self.pools_links = shapes["links"][1] == len(LINKS)
        links_width = 2 * len(LINKS) if self.pools_links else shapes["links"][0] * shapes["links"][1]
        globals_width = shapes["cluster"][0] + links_width + 2 * shapes["nodes"][1]
        self.context = nn.Sequential(nn.Linear(globals_width, WIDTH), nn.Tanh(), nn.Linear(WIDTH, WIDTH), nn.Tanh())
        self.queue = nn.Sequential(
            nn.Linear(shapes["queue"][1] + WIDTH, WIDTH), nn.Tanh(), nn.Linear(WIDTH, WIDTH), nn.Tanh()
        )
        self.has_running = "running" in shapes
        if self.has_running:
            row_width = shapes["running"][1] + shapes.get("flows", (0, 0))[1]
            self.running = nn.Sequential(
                nn.Linear(row_width + WIDTH, WIDTH), nn.Tanh(), nn.Linear(WIDTH, WIDTH), nn.Tanh()
            )

    def forward(self, observations: dict[str, torch.Tensor]) -> torch.Tensor:
        """Embed a batch of observations."""
        nodes, links = observations["nodes"], observations["links"]
        over_links = [links.mean(1), links.amax(1)] if self.pools_links else [links.flatten(1)]
        seen = [observations["cluster"], *over_links, nodes.mean(1), nodes.amax(1)]
        context = self.context(torch.cat(seen, dim=1))
        parts = [context, self._embed(self.queue, observations["queue"], context)]
        if self.has_running:
            rows = observations["running"]
            if "flows" in observations:
                rows = torch.cat([rows, observations["flows"]], dim=2)
            parts.append(self._embed(self.running, rows, context))
        return torch.cat(parts, dim=1)

    @staticmethod
    def _embed(network: nn.Module, slots: torch.Tensor, context: torch.Tensor) -> torch.Tensor:
        shared = context.unsqueeze(1).expand(-1, slots.shape[1], -1)
        embedded: torch.Tensor = network(torch.cat([slots, shared], dim=2))
        return embedded.flatten(1)


class SlotActions(nn.Module):
    """Logits [B, K * P + V + 1 + W] from the extractor's features: one linear head per kind of slot."""

    def __init__(self, queue: int, running: int, rules: int, waits: int) -> None:
        super().__init__()
        self.queue, self.running = queue, running
        self.start = nn.Linear(WIDTH, rules)
        self.preempt = nn.Linear(WIDTH, 1)
        self.wait = nn.Linear(WIDTH, waits)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        """Return the logits of all actions."""
        slots = features.view(len(features), -1, WIDTH)
        start = self.start(slots[:, 1 : 1 + self.queue]).flatten(1)
        preempt = self.preempt(slots[:, 1 + self.queue :]).flatten(1)
        return torch.cat([start, preempt, self.wait(slots[:, 0])], dim=1)


class SlotValue(nn.Module):
    """Value [B, 1] from the cluster's features and the mean over the slots."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Sequential(nn.Linear(2 * WIDTH, WIDTH), nn.Tanh(), nn.Linear(WIDTH, 1))

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        """Return the estimated values."""
        slots = features.view(len(features), -1, WIDTH)
        value: torch.Tensor = self.head(torch.cat([slots[:, 0], slots[:, 1:].mean(1)], dim=1))
        return value


class SlotPolicy(MaskableMultiInputActorCriticPolicy):
    """MaskablePPO policy for :class:`~gpusched_env.envs.cluster_env.ClusterEnv`.

    Parameters
    ----------
    rules, waits : numbers of placement rules and of waiting actions of the environment
    """

    def __init__(self, *args: Any, rules: int, waits: int, **kwargs: Any) -> None:
        self._rules, self._waits = rules, waits
        super().__init__(*args, **(kwargs | {"net_arch": [], "features_extractor_class": SlotExtractor}))

    def _build(self, lr_schedule: Schedule) -> None:
        super()._build(lr_schedule)
        assert isinstance(self.observation_space, spaces.Dict)
        queue = self.observation_space["queue"].shape
        running = self.observation_space.spaces.get("running")
        assert queue is not None
        self.action_net = SlotActions(
            queue[0], 0 if running is None or running.shape is None else running.shape[0], self._rules, self._waits
        )
        self.value_net = SlotValue()  # type: ignore[assignment] # declared as the Linear that it replaces
        # Initially the policy starts any job that fits, with equal probabilities; waits and preemptions are rare.
        heads = {self.action_net.start: 0.0, self.action_net.wait: -3.0, self.action_net.preempt: -5.0}
        for head, bias in heads.items():
            nn.init.orthogonal_(head.weight, gain=0.01)
            nn.init.constant_(head.bias, bias)
        self.optimizer = self.optimizer_class(self.parameters(), **(self.optimizer_kwargs | {"lr": lr_schedule(1)}))

    def _get_constructor_parameters(self) -> dict[str, Any]:
        data = super()._get_constructor_parameters()
        for fixed in ("net_arch", "features_extractor_class"):
            data.pop(fixed, None)
        return data | {"rules": self._rules, "waits": self._waits}
