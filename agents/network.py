"""A policy network for any cluster: one set of weights for any number of jobs, nodes, links, GPU types and partners."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Self

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

from gpusched_env.agents.checkpoints import checkpoint, write_checkpoint
from gpusched_env.agents.packed_layers import is_packable, packed_logits
from gpusched_env.agents.tokens import CLUSTER, SIZES, Layout, kinds_of
from gpusched_env.envs.windows import Windows

WIDTH: Final = 32  # of all embeddings: twice the width learns as well, in twice the time
INFEASIBLE: Final = -1e9  # logit of an action that the mask forbids
FORMAT: Final = "gpusched-token-network-1"
# Initial logits: the policy starts any job that fits, with equal probabilities; it rarely waits, and hardly ever
# preempts or resizes, since random preemptions hide what good ones are worth.
FIRST_START: Final = 0.0
FIRST_WAIT: Final = -3.0
FIRST_PREEMPTION: Final = -8.0
FIRST_RESIZE: Final = -8.0
SURROUNDINGS: Final = ("nodes", "links", "types", "tenants")  # kinds of tokens that no action is about
ACTING: Final = ("partners", "queue", "running")  # in an order in which pairs find the tokens that they need

Tensors = dict[str, torch.Tensor]


class _Largest(torch.autograd.Function):
    """The largest of each column over the rows, [..., rows, W] to [..., W], with the gradient of torch's ``amax``.

    Equal rows share the gradient. That of ``amax`` compares into bool, which takes six times as long as into float.
    """

    @staticmethod
    def forward(ctx: Any, rows: torch.Tensor) -> torch.Tensor:
        largest = rows.amax(-2)
        ctx.save_for_backward(rows, largest)
        return largest

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        rows, largest = ctx.saved_tensors
        is_largest = torch.eq(rows, largest.unsqueeze(-2), out=torch.empty_like(rows))
        return is_largest.mul_((gradient / is_largest.sum(-2)).unsqueeze(-2))


def _largest(rows: torch.Tensor) -> torch.Tensor:
    """Return the largest of each column over the rows of tokens or pairs, [..., rows, W] to [..., W]."""
    if not torch.is_grad_enabled():
        return rows.amax(-2)
    largest: torch.Tensor = _Largest.apply(rows)  # type: ignore[no-untyped-call]
    return largest


def _embedded(layer: nn.Module, rows: torch.Tensor) -> torch.Tensor:
    """Return ``layer(rows)``; with few columns, the gradient of a transposed weight takes half the time."""
    if not torch.is_grad_enabled():
        embedded: torch.Tensor = layer(rows)
        return embedded
    return torch.matmul(rows, layer.get_parameter("weight").t().contiguous())


def _present(rows: torch.Tensor) -> torch.Tensor:
    """Return 0 for each empty row of tokens and 1 for each other one, [B, tokens, columns] to [B, tokens, 1]."""
    return rows.any(2, keepdim=True).to(rows.dtype)


class Tokens(nn.Module):
    """Turn an observation into tokens that know of each other.

    Each waiting job, running gang, node, link, GPU type, tenant and partner is a token. First nodes, links, types and
    tenants are embedded. Their mean and maximum, and the columns of the cluster, make the token of the cluster. The
    embedding of jobs and partners depends on it, and on the maximum over a job's embedded pairs with types, partners
    and sizes. Then one message passes: every token learns of the cluster and of the maxima over waiting jobs, over
    running gangs and over partners. So whether to preempt a gang can depend on the jobs that wait.

    The token of an empty row is 0, and no token is negative. So neither empty rows nor the number of rows change the
    other tokens.
    """

    def __init__(self, layout: Layout, width: int) -> None:
        super().__init__()
        columns, pairs = layout.columns, layout.pairs
        around = [kind for kind in SURROUNDINGS if kind in layout.kinds]
        self.around = nn.ModuleDict({kind: nn.Linear(columns(kind), width, bias=False) for kind in around})
        self.cluster = nn.Sequential(
            nn.Linear(columns(CLUSTER) + 2 * width * len(around), width), nn.ReLU(), nn.Linear(width, width), nn.ReLU()
        )
        acting = [kind for kind in ACTING if kind in layout.kinds]
        self.first = nn.ModuleDict({kind: nn.Linear(columns(kind), width, bias=False) for kind in acting})
        self.context = nn.ModuleDict({kind: nn.Linear(width, width) for kind in acting})
        self.second = nn.ModuleDict({kind: nn.Linear(width, width) for kind in acting})
        self.pair = nn.ModuleDict({name: nn.Linear(count, width, bias=False) for name, count in pairs.items()})
        others = [name for name in pairs if kinds_of(name)[1] != SIZES]
        self.other = nn.ModuleDict({name: nn.Linear(width, width, bias=False) for name in others})
        self.best = nn.ModuleDict({name: nn.Linear(width, width, bias=False) for name in pairs})
        self.own = nn.Linear(width, width)
        self.message = nn.Linear((1 + len(acting)) * width, width)

    def forward(self, inputs: Mapping[str, torch.Tensor]) -> tuple[Tensors, Tensors]:
        """Return the tokens after the message, [B, width] or [B, tokens, width], and [B, tokens, others, width]."""
        nothing = inputs[CLUSTER].new_zeros(len(inputs[CLUSTER]), self.own.out_features)
        tokens: Tensors = {}
        seen = [inputs[CLUSTER]]
        for kind, embed in self.around.items():
            if kind in inputs:
                tokens[kind] = _embedded(embed, inputs[kind]).relu_()
                rows = _present(inputs[kind]).sum(1).clamp(min=1.0)
                seen += [tokens[kind].sum(1) / rows, _largest(tokens[kind])]
            else:
                seen += [nothing, nothing]
        cluster = self.cluster(torch.cat(seen, dim=1))
        pairs: Tensors = {}
        told = [cluster]
        for kind, first in self.first.items():
            if kind not in inputs:
                told.append(nothing)
                continue
            embedded = _embedded(first, inputs[kind]) + self.context[kind](cluster).unsqueeze(1)
            for name in self.pair:
                one, other = kinds_of(name)
                if one == kind and name in inputs:
                    pair = _embedded(self.pair[name], inputs[name])
                    if name in self.other:
                        pair = pair + self.other[name](tokens[other]).unsqueeze(1)
                    pairs[name] = pair.relu_()
                    embedded = embedded + self.best[name](_largest(pairs[name]))
            tokens[kind] = (self.second[kind](embedded.relu_()) * _present(inputs[kind])).relu_()
            told.append(_largest(tokens[kind]))
        message = self.message(torch.cat(told, dim=1))
        after = {kind: (self.own(tokens[kind]) + message.unsqueeze(1)).relu_() for kind in self.first if kind in tokens}
        return after | {CLUSTER: F.relu(self.own(cluster) + message)}, pairs


class TokenNetwork(nn.Module):
    """A policy over the actions of :class:`~gpusched_env.envs.cluster_env.ClusterEnv`.

    The logits are read from the tokens: starts and preemptions from those of jobs, waits from that of the cluster, and
    a start beside a partner from job, partner and pair. Where actions choose sizes, starts and resizes are read from a
    job and its pair with the size, with the same weights for all sizes.
    """

    def __init__(self, layout: Layout, width: int = WIDTH) -> None:
        super().__init__()
        self.layout, self.width = layout, width
        self.tokens = Tokens(layout, width)
        self.start = self._head(layout.rules * layout.sizes, FIRST_START)
        self.wait = self._head(layout.waits, FIRST_WAIT)
        if "running" in layout.kinds:
            self.preempt = self._head(1, FIRST_PREEMPTION)
        sized = [kind for kind in ("queue", "running") if f"{kind}_sizes" in layout.pairs]
        if sized:
            names = [name for kind in sized for name in (kind, f"{kind}_sizes")]
            self.sized = nn.ModuleDict({name: nn.Linear(width, width) for name in names})
        if "running" in sized:
            self.resize = self._head(layout.rules, FIRST_RESIZE)
        if "partners" in layout.kinds:
            self.beside = nn.ModuleDict({name: nn.Linear(width, width) for name in ("queue", "partners", "pairs")})
            self.join = self._head(layout.sizes, FIRST_START)
        self.more = nn.ModuleDict({name: self._head(1, FIRST_PREEMPTION) for name in layout.more})

    def _head(self, actions: int, first: float) -> nn.Linear:
        """Return a layer whose initial outputs are close to ``first``."""
        layer = nn.Linear(self.width, actions)
        nn.init.orthogonal_(layer.weight, gain=0.01)
        nn.init.constant_(layer.bias, first)
        return layer

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return self.start.weight.device

    def forward(self, inputs: Mapping[str, torch.Tensor]) -> torch.Tensor:
        """Return the logits of all actions, [B, actions], from the inputs of :meth:`Layout.inputs`."""
        return self.logits(*self.tokens(inputs))

    def logits(self, tokens: Tensors, pairs: Tensors) -> torch.Tensor:
        """Return the logits of all actions, [B, actions], from what :class:`Tokens` returns."""
        starts = self._by_size("queue", self.start, tokens, pairs)
        if "partners" in tokens:
            queue = self.beside["queue"](tokens["queue"]).unsqueeze(2)
            partners = self.beside["partners"](tokens["partners"]).unsqueeze(1)
            together = F.relu(queue + partners + self.beside["pairs"](pairs["pairs"]))
            starts = torch.cat([starts, self.join(together).flatten(2)], dim=2)
        logits = [starts.flatten(1)]
        if "running_sizes" in pairs:
            logits.append(self._by_size("running", self.resize, tokens, pairs).flatten(1))
        if "running" in tokens:
            logits.append(self.preempt(tokens["running"]).flatten(1))
        logits.append(self.wait(tokens[CLUSTER]))
        slots = self.layout.more
        logits += [head(tokens[slots[name]]).flatten(1) for name, head in self.more.items() if slots[name] in tokens]
        return torch.cat(logits, dim=1)

    def _by_size(self, kind: str, head: nn.Linear, tokens: Tensors, pairs: Tensors) -> torch.Tensor:
        """Return the logits of actions about a kind of job, [B, tokens, actions]: by each rule, to each size."""
        if (name := f"{kind}_sizes") not in pairs:
            logits: torch.Tensor = head(tokens[kind])
            return logits
        both = F.relu(self.sized[kind](tokens[kind]).unsqueeze(2) + self.sized[name](pairs[name]))
        return head(both).transpose(2, 3).flatten(2)

    def seen(self, observations: Mapping[str, np.ndarray], masks: np.ndarray) -> tuple[Tensors, torch.Tensor]:
        """Return observations, float32 [B, ...] by name, and masks, bool [B, actions], as inputs of the network."""
        device = self.device
        tensors = {name: torch.from_numpy(array).to(device) for name, array in observations.items()}
        return self.layout.inputs(tensors), torch.from_numpy(masks).to(device)

    def log_probabilities(self, observations: Mapping[str, torch.Tensor]) -> torch.Tensor:
        """Return the logarithms of the probabilities of all actions, feasible or not, [B, actions]."""
        return torch.log_softmax(self(self.layout.inputs(observations)), dim=1)

    def refusal(self, shapes: Mapping[str, tuple[int, ...]], windows: Windows) -> str:
        """Return why the network cannot play with these observations; empty = it can."""
        return self.layout.refusal(shapes, windows)

    # --- files

    def save(self, path: Path, about: Mapping[str, Any]) -> None:
        """Write weights and metadata as ``.npz``: only arrays and JSON, so that reading it runs no code."""
        metadata = {"format": FORMAT, "layout": self.layout.as_dict(), "width": self.width, "about": dict(about)}
        write_checkpoint(path, metadata, {name: value.cpu().numpy() for name, value in self.state_dict().items()})

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read a file that :meth:`save` wrote."""
        with checkpoint(path, FORMAT, "an agent") as (metadata, arrays):
            layout, width = Layout(**metadata["layout"]), metadata["width"]
            with torch.device("meta"):  # shapes alone: a file that says a width of a million takes no memory
                shapes = {name: tuple(value.shape) for name, value in cls(layout, width).state_dict().items()}
            if shapes != {name: array.shape for name, array in arrays.items()}:
                raise ValueError("the shapes of its weights are not those of its layout")
            network = cls(layout, width)
            network.load_state_dict({name: torch.from_numpy(array) for name, array in arrays.items()})
            return network


def feasible_log_probabilities(
    network: TokenNetwork, inputs: Tensors, masks: torch.Tensor, steps: torch.Tensor
) -> torch.Tensor:
    """Return the logarithms of the probabilities of all actions at ``steps`` [B], float32 [B, actions].

    ``inputs`` (float32 [N, ...] by name) and ``masks`` (bool [N, actions]) are of all steps.
    """
    if is_packable(network, inputs):
        logits = packed_logits(network, inputs, masks, steps)
    else:
        logits = network({name: array.index_select(0, steps) for name, array in inputs.items()})
    return masked_log_softmax(logits, masks.index_select(0, steps))


def masked_log_softmax(logits: torch.Tensor, masks: torch.Tensor) -> torch.Tensor:
    """Return the logarithms of the probabilities of all actions, [B, actions], from their logits and the masks."""
    return torch.log_softmax(logits.masked_fill(~masks, INFEASIBLE), dim=1)
