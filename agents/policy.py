"""A policy network that scores all slots with shared weights."""

from __future__ import annotations

import math
from typing import Any, Final

import torch
from gymnasium import spaces
from sb3_contrib.common.maskable.policies import MaskableMultiInputActorCriticPolicy
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from stable_baselines3.common.type_aliases import Schedule
from torch import nn

from gpusched_env.envs.observation.columns import LINKS
from gpusched_env.envs.observation.extras import EXTRAS

WIDTH: Final = 64


# What the arrays have rows for, beside those of their own name. All other arrays describe the whole cluster.
_ROWS: Final = {
    "queue": ("queue", "queue_types", "forks", "sub_batches", "pairs"),
    "running": ("running", "flows", "running_types", "copies", "company"),
    "nodes": ("nodes", "node_types"),
    "links": ("links",),
}


def _rows_of(name: str) -> str:
    """Return what an array has rows for: "queue", "running", "nodes", "links", or "cluster" for all others."""
    if name in EXTRAS:
        return EXTRAS[name].rows
    return next((rows for rows, names in _ROWS.items() if name in names), "cluster")


class SlotExtractor(BaseFeaturesExtractor):
    """Embed the cluster, and each slot together with the cluster: [B, (1 + K + V) * WIDTH] features, the cluster first.

    The inputs of a slot are its rows of all arrays about such slots. An array with several rows per slot, such as
    ``pairs`` or ``queue_types``, gives all of them. The inputs of the cluster's embedding are all other arrays. Those
    about nodes, and about the links of a topology, are reduced to mean and maximum, so the network does not depend on
    the number of nodes or links.

    Attributes
    ----------
    pooled : arrays that are reduced to mean and maximum
    """

    def __init__(self, observation_space: spaces.Dict) -> None:
        shapes = {key: space.shape or () for key, space in observation_space.items()}
        queue, running = shapes["queue"][0], shapes.get("running", (0,))[0]
        super().__init__(observation_space, (1 + queue + running) * WIDTH)
        pools_links = shapes["links"][1] == len(LINKS)
        about: dict[str, list[str]] = {"queue": [], "running": [], "nodes": [], "links": [], "cluster": []}
        for name in sorted(shapes, key=_place):
            about[_rows_of(name)].append(name)
        self.queue_arrays, self.running_arrays = about["queue"], about["running"]
        self.pooled = [*(about["links"] if pools_links else ()), *about["nodes"]]
        self.whole = [*about["cluster"], *(() if pools_links else about["links"])]
        width = sum(math.prod(shapes[name]) for name in self.whole)
        width += sum(2 * shapes[name][1] for name in self.pooled)
        self.context = _two_layers(width)
        self.queue = _two_layers(sum(math.prod(shapes[name]) // queue for name in self.queue_arrays) + WIDTH)
        self.queue_slots, self.running_slots = queue, running
        if running:
            inputs = sum(math.prod(shapes[name]) // running for name in self.running_arrays)
            self.running = _two_layers(inputs + WIDTH)

    def forward(self, observations: dict[str, torch.Tensor]) -> torch.Tensor:
        """Embed a batch of observations."""
        seen = [observations[name].flatten(1) for name in self.whole]
        for name in self.pooled:
            seen += [observations[name].mean(1), observations[name].amax(1)]
        context = self.context(torch.cat(seen, dim=1))
        parts = [context, self._embed(self.queue, observations, self.queue_arrays, self.queue_slots, context)]
        if self.running_slots:
            parts.append(self._embed(self.running, observations, self.running_arrays, self.running_slots, context))
        return torch.cat(parts, dim=1)

    @staticmethod
    def _embed(
        network: nn.Module, observations: dict[str, torch.Tensor], names: list[str], slots: int, context: torch.Tensor
    ) -> torch.Tensor:
        rows = [observations[name].reshape(len(context), slots, -1) for name in names]
        embedded: torch.Tensor = network(torch.cat([*rows, context.unsqueeze(1).expand(-1, slots, -1)], dim=2))
        return embedded.flatten(1)


def _place(name: str) -> tuple[int, str]:
    """Sort key of an array among the inputs: the order in which networks without types and sharing were saved."""
    first = ("cluster", "links", "nodes", "queue", "running", "flows")
    return (first.index(name) if name in first else len(first), name)


def _two_layers(inputs: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(inputs, WIDTH), nn.Tanh(), nn.Linear(WIDTH, WIDTH), nn.Tanh())


class SlotActions(nn.Module):
    """Logits of all actions from the extractor's features: one linear head per kind of slot.

    Parameters
    ----------
    queue, running : numbers of queue and running slots
    starts : number of start actions of each queue slot
    waits : number of waiting actions
    """

    def __init__(self, queue: int, running: int, starts: int, waits: int) -> None:
        super().__init__()
        self.queue, self.running = queue, running
        self.start = nn.Linear(WIDTH, starts)
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
    waits : number of waiting actions of the environment, 1 + W
    """

    def __init__(self, *args: Any, waits: int, **kwargs: Any) -> None:
        self._waits = waits
        kwargs.pop("rules", None)  # in older files
        super().__init__(*args, **(kwargs | {"net_arch": [], "features_extractor_class": SlotExtractor}))

    def _build(self, lr_schedule: Schedule) -> None:
        super()._build(lr_schedule)
        assert isinstance(self.action_space, spaces.Discrete)
        slots = self.features_extractor
        assert isinstance(slots, SlotExtractor)
        starts = (int(self.action_space.n) - slots.running_slots - self._waits) // slots.queue_slots
        self.action_net = SlotActions(slots.queue_slots, slots.running_slots, starts, self._waits)
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
        return data | {"waits": self._waits}
