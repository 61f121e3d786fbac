"""A policy network that scores all slots with shared weights."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Self

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

from gpusched_env.agents.checkpoints import read_checkpoint, write_checkpoint
from gpusched_env.envs.observation.columns import LINKS
from gpusched_env.envs.observation.extras import EXTRAS

WIDTH: Final = 64  # of saved MaskablePPO models
NARROW: Final = 32  # of ours: it learns as well as twice the width, in half the time
INFEASIBLE: Final = -1e9  # logit of an action that the mask forbids
FORMAT: Final = "gpusched-slot-network-2"
# Initial logits: the policy starts any job that fits, with equal probabilities; it rarely waits, and hardly ever
# preempts, since random preemptions hide what good ones are worth.
_FIRST_START, _FIRST_WAIT, _FIRST_PREEMPTION = 0.0, -3.0, -8.0
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


def _place(name: str) -> tuple[int, str]:
    """Sort key of an array among the inputs: the order in which networks without types and sharing were saved."""
    first = ("cluster", "links", "nodes", "queue", "running", "flows")
    return (first.index(name) if name in first else len(first), name)


def _two_layers(inputs: int, width: int, activation: type[nn.Module]) -> nn.Sequential:
    return nn.Sequential(nn.Linear(inputs, width), activation(), nn.Linear(width, width), activation())


class SlotEncoder(nn.Module):
    """Embed the cluster, and each slot together with the cluster: features [B, 1 + K + V, width], the cluster first.

    The inputs of a slot are its rows of all arrays about such slots. An array with several rows per slot, such as
    ``pairs`` or ``queue_types``, gives all of them. The inputs of the cluster's embedding are all other arrays. Those
    about nodes, and about the links of a topology, are reduced to mean and maximum, so the network does not depend on
    the number of nodes or links.

    Parameters
    ----------
    shapes : shape of each observation array, by name
    activation : after each layer
    width : length of an embedding

    Attributes
    ----------
    pooled : arrays that are reduced to mean and maximum
    """

    def __init__(
        self, shapes: Mapping[str, tuple[int, ...]], activation: type[nn.Module] = nn.ReLU, width: int = WIDTH
    ) -> None:
        super().__init__()
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
        self.context = _two_layers(columns, width, activation)
        self.queue = _two_layers(
            sum(math.prod(shapes[name]) // queue for name in self.queue_arrays) + width, width, activation
        )
        self.queue_slots, self.running_slots = queue, running
        if running:
            inputs = sum(math.prod(shapes[name]) // running for name in self.running_arrays)
            self.running = _two_layers(inputs + width, width, activation)

    def inputs(self, observations: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """Return the inputs of the layers: "cluster" [B, columns], "queue" [B, K, columns], "running" [B, V, columns].

        No weights take part, so training stores the inputs instead of the observations.
        """
        seen = [observations[name].flatten(1) for name in self.whole]
        for name in self.pooled:
            seen += [observations[name].mean(1), observations[name].amax(1)]
        inputs = {"cluster": torch.cat(seen, dim=1)}
        kinds = {"queue": (self.queue_arrays, self.queue_slots), "running": (self.running_arrays, self.running_slots)}
        for kind, (names, slots) in kinds.items():
            if slots:
                rows = [observations[name].reshape(len(inputs["cluster"]), slots, -1) for name in names]
                inputs[kind] = torch.cat(rows, dim=2)
        return inputs

    def features(self, inputs: Mapping[str, torch.Tensor]) -> torch.Tensor:
        """Return the embeddings of the cluster and of all slots, [B, 1 + K + V, width]."""
        context = self.context(inputs["cluster"]).unsqueeze(1)
        parts = [context, self._embedded(self.queue, inputs["queue"], context)]
        if self.running_slots:
            parts.append(self._embedded(self.running, inputs["running"], context))
        return torch.cat(parts, dim=1)

    @staticmethod
    def _embedded(network: nn.Sequential, rows: torch.Tensor, context: torch.Tensor) -> torch.Tensor:
        # The first layer on (rows, context) side by side, but with the part of the context computed once for all slots.
        first, *others = network
        assert isinstance(first, nn.Linear)
        columns = rows.shape[2]
        embedded = F.linear(rows, first.weight[:, :columns]) + F.linear(context, first.weight[:, columns:], first.bias)
        for layer in others:
            embedded = layer(embedded)
        return embedded


class SlotActions(nn.Module):
    """Logits of all actions from the encoder's features: one linear head per kind of slot.

    Parameters
    ----------
    queue : number of queue slots
    starts : number of start actions of each queue slot
    waits : number of waiting actions
    width : length of the embedding of a slot
    """

    def __init__(self, queue: int, starts: int, waits: int, width: int = WIDTH) -> None:
        super().__init__()
        self.queue = queue
        self.start = nn.Linear(width, starts)
        self.preempt = nn.Linear(width, 1)
        self.wait = nn.Linear(width, waits)
        first = {self.start: _FIRST_START, self.wait: _FIRST_WAIT, self.preempt: _FIRST_PREEMPTION}
        for head, logit in first.items():
            nn.init.orthogonal_(head.weight, gain=0.01)
            nn.init.constant_(head.bias, logit)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        """Return the logits of all actions, [B, actions], from features [B, 1 + K + V, width]."""
        start = self.start(features[:, 1 : 1 + self.queue]).flatten(1)
        preempt = self.preempt(features[:, 1 + self.queue :]).flatten(1)
        return torch.cat([start, preempt, self.wait(features[:, 0])], dim=1)


class SlotNetwork(nn.Module):
    """A policy over the actions of :class:`~gpusched_env.envs.cluster_env.ClusterEnv`.

    The encoder embeds each slot without the others. One more layer lets slots compare: whether to preempt a gang
    depends on the jobs that wait. Its inputs are the slot's own embedding, that of the cluster, and the maxima over all
    queue slots and over all running slots.

    Parameters
    ----------
    shapes : shape of each observation array, by name
    starts : number of start actions of each queue slot
    waits : number of waiting actions
    width : length of all embeddings
    """

    def __init__(self, shapes: Mapping[str, tuple[int, ...]], starts: int, waits: int, width: int = NARROW) -> None:
        super().__init__()
        self.shapes = {name: tuple(shape) for name, shape in shapes.items()}
        self.starts, self.waits, self.width = starts, waits, width
        self.encoder = SlotEncoder(self.shapes, width=width)
        self.own = nn.Linear(width, width)
        self.everyone = nn.Linear((3 if self.encoder.running_slots else 2) * width, width)
        self.actions = SlotActions(self.encoder.queue_slots, starts, waits, width)

    def forward(self, inputs: Mapping[str, torch.Tensor]) -> torch.Tensor:
        """Return the logits of all actions, [B, actions], from the inputs of :meth:`SlotEncoder.inputs`."""
        features = self.encoder.features(inputs)
        running = 1 + self.encoder.queue_slots  # the first one, behind the cluster and the queue slots
        maxima = [features[:, 0], features[:, 1:running].amax(1)]
        if self.encoder.running_slots:
            maxima.append(features[:, running:].amax(1))
        compared = F.relu(self.own(features) + self.everyone(torch.cat(maxima, dim=1)).unsqueeze(1))
        logits: torch.Tensor = self.actions(compared)
        return logits

    def log_probabilities(self, observations: Mapping[str, torch.Tensor]) -> torch.Tensor:
        """Return the logarithms of the probabilities of all actions, feasible or not, [B, actions]."""
        return torch.log_softmax(self(self.encoder.inputs(observations)), dim=1)

    # --- files

    def save(self, path: Path, about: Mapping[str, Any]) -> None:
        """Write weights and metadata as ``.npz``: only arrays and JSON, so that reading it runs no code.

        Parameters
        ----------
        about : provenance: versions, scenario, seeds

        Raises
        ------
        GpuschedError : the file has more than 2 MB, or cannot be written
        """
        metadata = {
            "format": FORMAT,
            "shapes": self.shapes,
            "starts": self.starts,
            "waits": self.waits,
            "width": self.width,
            "about": dict(about),
        }
        write_checkpoint(path, metadata, {name: value.numpy() for name, value in self.state_dict().items()})

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read a file that :meth:`save` wrote.

        Raises
        ------
        SchedulerError : the file is missing, damaged, or of another format
        """
        metadata, arrays = read_checkpoint(path, FORMAT, "an agent")
        shapes = {name: tuple(shape) for name, shape in metadata["shapes"].items()}
        network = cls(shapes, metadata["starts"], metadata["waits"], metadata["width"])
        network.load_state_dict({name: torch.from_numpy(np.array(array)) for name, array in arrays.items()})
        return network


def feasible_log_probabilities(
    network: SlotNetwork, inputs: dict[str, torch.Tensor], masks: torch.Tensor
) -> torch.Tensor:
    """Return the logarithms of the probabilities of all actions, [N, actions]; infeasible ones have probability 0."""
    return torch.log_softmax(network(inputs).masked_fill(~masks, INFEASIBLE), dim=1)
