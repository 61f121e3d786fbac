"""A policy of sb3-contrib's MaskablePPO: a network with weights for each slot of the windows."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import torch
from gymnasium import spaces
from sb3_contrib import MaskablePPO
from sb3_contrib.common.maskable.policies import MaskableMultiInputActorCriticPolicy
from stable_baselines3.common.type_aliases import Schedule
from torch import nn
from torch.nn import functional as F  # noqa: N812

from gpusched_env.agents.network import FIRST_PREEMPTION, FIRST_RESIZE, FIRST_START, FIRST_WAIT
from gpusched_env.envs.observation.links import LINKS
from gpusched_env.envs.observation.registry import find_array
from gpusched_env.envs.windows import Windows
from gpusched_env.errors import SchedulerError

WIDTH: Final = 64  # of all embeddings


def _rows_of(name: str) -> str:
    """Return what an array has rows for: "queue", "running", "nodes", "links", or "cluster" for all others."""
    found = find_array(name)
    first = found.rows[0] if found is not None and found.rows else ""
    return first if first in ("queue", "running", "nodes", "links") else "cluster"


def _place(name: str) -> tuple[int, str]:
    """Sort key of an array among the inputs: the order in which networks without types and sharing were saved."""
    first = ("cluster", "links", "nodes", "queue", "running", "flows")
    return (first.index(name) if name in first else len(first), name)


def _two_layers(inputs: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(inputs, WIDTH), nn.Tanh(), nn.Linear(WIDTH, WIDTH), nn.Tanh())


class SlotExtractor(nn.Module):
    """Embed the cluster, and each slot together with the cluster: features [B, (1 + K + V) 64], the cluster first.

    The inputs of a slot are its rows of all arrays about such slots. An array with several rows per slot, such as
    ``pairs`` or ``queue_types``, gives all of them. The inputs of the cluster's embedding are all other arrays. Those
    about nodes, and about the links of a topology, are reduced to mean and maximum, so the network does not depend on
    the number of nodes or links.
    """

    def __init__(self, observation_space: spaces.Dict) -> None:
        super().__init__()
        shapes = {name: space.shape or () for name, space in observation_space.items()}
        queue, running = shapes["queue"][0], shapes.get("running", (0,))[0]
        pools_links = shapes["links"][1] == len(LINKS)
        about: dict[str, list[str]] = {"queue": [], "running": [], "nodes": [], "links": [], "cluster": []}
        for name in sorted(shapes, key=_place):
            about[_rows_of(name)].append(name)
        self.queue_arrays, self.running_arrays = about["queue"], about["running"]
        self.pooled = [*(about["links"] if pools_links else ()), *about["nodes"]]
        self.whole = [*about["cluster"], *(() if pools_links else about["links"])]
        columns = sum(math.prod(shapes[name]) for name in self.whole)
        columns += sum(2 * shapes[name][1] for name in self.pooled)
        self.context = _two_layers(columns)
        self.queue = _two_layers(sum(math.prod(shapes[name]) // queue for name in self.queue_arrays) + WIDTH)
        self.queue_slots, self.running_slots = queue, running
        self.features_dim = (1 + queue + running) * WIDTH
        if running:
            inputs = sum(math.prod(shapes[name]) // running for name in self.running_arrays)
            self.running = _two_layers(inputs + WIDTH)

    def forward(self, observations: Mapping[str, torch.Tensor]) -> torch.Tensor:
        """Embed a batch of observations."""
        seen = [observations[name].flatten(1) for name in self.whole]
        for name in self.pooled:
            seen += [observations[name].mean(1), observations[name].amax(1)]
        context = self.context(torch.cat(seen, dim=1)).unsqueeze(1)
        parts = [context, self._embedded(self.queue, self.queue_arrays, self.queue_slots, observations, context)]
        if self.running_slots:
            parts.append(self._embedded(self.running, self.running_arrays, self.running_slots, observations, context))
        return torch.cat(parts, dim=1).flatten(1)

    @staticmethod
    def _embedded(
        network: nn.Sequential, names: list[str], slots: int, observations: Mapping[str, torch.Tensor],
        context: torch.Tensor,
    ) -> torch.Tensor:  # fmt: skip
        rows = torch.cat([observations[name].reshape(len(context), slots, -1) for name in names], dim=2)
        # The first layer on (rows, context) side by side, but with the part of the context computed once for all slots.
        first, *others = network
        assert isinstance(first, nn.Linear)
        columns = rows.shape[2]
        embedded = F.linear(rows, first.weight[:, :columns]) + F.linear(context, first.weight[:, columns:], first.bias)
        for layer in others:
            embedded = layer(embedded)
        return embedded


class SlotActions(nn.Module):
    """Logits of all actions from the features: one linear head per kind of slot; starts and resizes are per slot."""

    def __init__(self, queue: int, starts: int, waits: int, resizes: int = 0) -> None:
        super().__init__()
        self.queue = queue
        self.start = nn.Linear(WIDTH, starts)
        self.preempt = nn.Linear(WIDTH, 1)
        self.wait = nn.Linear(WIDTH, waits)
        first = {self.start: FIRST_START, self.wait: FIRST_WAIT, self.preempt: FIRST_PREEMPTION}
        for head, logit in first.items():
            nn.init.orthogonal_(head.weight, gain=0.01)
            nn.init.constant_(head.bias, logit)
        self.resize = nn.Linear(WIDTH, resizes) if resizes else None
        if self.resize is not None:
            nn.init.orthogonal_(self.resize.weight, gain=0.01)
            nn.init.constant_(self.resize.bias, FIRST_RESIZE)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        """Return the logits of all actions."""
        slots = features.view(len(features), -1, WIDTH)
        start = self.start(slots[:, 1 : 1 + self.queue]).flatten(1)
        running = slots[:, 1 + self.queue :]
        resize = [] if self.resize is None else [self.resize(running).flatten(1)]
        return torch.cat([start, *resize, self.preempt(running).flatten(1), self.wait(slots[:, 0])], dim=1)


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
    """MaskablePPO policy for :class:`~gpusched_env.envs.cluster_env.ClusterEnv`."""

    def __init__(self, *args: Any, waits: int, **kwargs: Any) -> None:
        self._waits = waits
        kwargs.pop("rules", None)  # in older files
        super().__init__(*args, **(kwargs | {"net_arch": [], "features_extractor_class": SlotExtractor}))

    def _build(self, lr_schedule: Schedule) -> None:
        super()._build(lr_schedule)
        assert isinstance(self.action_space, spaces.Discrete)
        slots = self.features_extractor
        assert isinstance(slots, SlotExtractor)
        resizable = slots.running_slots if "running_sizes" in slots.running_arrays else 0  # as many actions as a start
        starts = (int(self.action_space.n) - slots.running_slots - self._waits) // (slots.queue_slots + resizable)
        self.action_net = SlotActions(slots.queue_slots, starts, self._waits, starts if resizable else 0)
        self.value_net = SlotValue()  # type: ignore[assignment] # declared as the Linear that it replaces
        self.optimizer = self.optimizer_class(self.parameters(), **(self.optimizer_kwargs | {"lr": lr_schedule(1)}))

    def _get_constructor_parameters(self) -> dict[str, Any]:
        data = super()._get_constructor_parameters()
        for fixed in ("net_arch", "features_extractor_class"):
            data.pop(fixed, None)
        return data | {"waits": self._waits}


class SavedMaskablePPO(nn.Module):
    """The policy of a saved MaskablePPO model, played as a :class:`~gpusched_env.agents.network.TokenNetwork`."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        try:
            model = MaskablePPO.load(path, device="cpu")
        except Exception as error:
            raise SchedulerError(
                f"{path}: cannot be loaded as a MaskablePPO model ({error}); train it again with this version"
            ) from error
        self.policy = model.policy
        assert isinstance(self.policy.features_extractor, SlotExtractor)
        self._pooled = self.policy.features_extractor.pooled
        assert isinstance(model.observation_space, spaces.Dict)
        self._shapes = {name: space.shape or () for name, space in model.observation_space.items()}

    def refusal(self, shapes: Mapping[str, tuple[int, ...]], windows: Windows) -> str:
        """Return why the network cannot play with these observations; empty = it can."""
        if missing := sorted(set(self._shapes) - set(shapes)):
            return f"trained with the observations {', '.join(missing)}, which this scenario does not have"
        for name, shape in self._shapes.items():
            first = 1 if name in self._pooled else 0
            if shape[first:] != shapes[name][first:]:
                hint = " (leave queue_window, running_window and partner_window out)"
                return f"trained with {name} of shape {shape}, but here it is {shapes[name]}{hint}"
        return ""

    def log_probabilities(self, observations: Mapping[str, torch.Tensor]) -> torch.Tensor:
        """Return the logarithms of the probabilities of all actions, feasible or not, [B, actions]."""
        policy = self.policy
        known = {name: observations[name] for name in self._shapes}  # a scenario may show more
        latent = policy.mlp_extractor.forward_actor(policy.pi_features_extractor(known))
        return torch.log_softmax(policy.action_net(latent), dim=1)
