"""Logits of a token network in updates on the CPU: only tokens that are there, and one pass over memory per layer.

On average, half of the rows for waiting jobs are empty, and few of the jobs can be started. So one kernel packs the
rows of a minibatch: those of its first step, those of its second one, and so on, without the empty ones. The last layer
reads only tokens with a feasible action. Additions, negative values, maxima and sums after a product of matrices are
the work of one kernel, and their gradients that of another: torch would go through memory for each of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

from gpusched_env.agents.compiled_policy import is_empty
from gpusched_env.agents.tokens import CLUSTER
from gpusched_env.core import arithmetic  # noqa: F401 - kernels may call the functions
from gpusched_env.core.handle import INTERPRETED, Handle, array, kernel

if TYPE_CHECKING:
    from gpusched_env.agents.network import TokenNetwork

_NOTHING: Final = np.empty((0, 0), np.float32)  # a gradient that counts as 0


class Packing(Handle):
    """What :func:`pack` reads and writes: the tokens of a kind at some steps, without the empty ones."""

    tokens = array(np.float32, "all steps", "slots", "columns")
    masks = array(np.bool_, "all steps", "actions")
    steps = array(np.int64, "steps")
    packed = array(np.float32, "most tokens", "columns")  # written
    acting = array(np.int64, "2", "most tokens")  # written, of tokens with a feasible action: their rows, and slots
    begins = array(np.int64, "2", "steps + 1")  # written: where each step begins, among all tokens and among those


@kernel(lazy=True)
def pack(kind: Packing, first_action: int, actions: int) -> None:
    """Copy the tokens that are there, and find those with a feasible action; each slot has so many actions."""
    slots, columns = kind.tokens.shape[1], kind.tokens.shape[2]
    count, acting = 0, 0
    for b in range(len(kind.steps)):
        step = kind.steps[b]
        tokens, masks = kind.tokens[step], kind.masks[step]
        for slot in range(slots):
            token = tokens[slot]
            if is_empty(token):
                continue
            for c in range(columns):
                kind.packed[count, c] = token[c]
            feasible = False
            for a in range(first_action + slot * actions, first_action + (slot + 1) * actions):
                feasible = feasible or masks[a]
            if feasible:
                kind.acting[0, acting] = count
                kind.acting[1, acting] = b * slots + slot
                acting += 1
            count += 1
        kind.begins[0, b + 1] = count
        kind.begins[1, b + 1] = acting


class Forward(Handle):
    """What :func:`activate` reads and writes. The tokens of step b are the rows from ``begins[b]``."""

    values = array(np.float32, "tokens", "width")  # read: products; written: max(product + added, 0)
    begins = array(np.int64, "steps + 1")
    added = array(np.float32, "steps or 1", "width")
    largest = array(np.float32, "steps", "width")  # written: the largest value of the tokens of a step, at least 0
    total = array(np.float32, "steps", "width")  # written: their sum


class Backward(Handle):
    """What :func:`deactivate` reads and writes; gradients without rows count as 0."""

    values = array(np.float32, "tokens", "width")
    begins = array(np.int64, "steps + 1")
    largest = array(np.float32, "steps", "width")
    to_values = array(np.float32, "tokens", "width")  # gradients
    to_largest = array(np.float32, "steps", "width")
    to_total = array(np.float32, "steps", "width")
    share = array(np.float32, "width")  # of each token with the largest value, for intermediate results
    to_products = array(np.float32, "tokens", "width")  # written
    to_added = array(np.float32, "steps", "width")  # written


@kernel(lazy=True)
def activate(layer: Forward) -> None:
    """Add, replace negative values by 0, and find the largest values and the sums."""
    values, begins, added = layer.values, layer.begins, layer.added
    width = values.shape[1]
    for b in range(len(begins) - 1):
        largest, total, of_step = layer.largest[b], layer.total[b], added[b if len(added) > 1 else 0]
        for j in range(width):
            largest[j] = 0
            total[j] = 0
        for row in range(begins[b], begins[b + 1]):
            token = values[row]
            for j in range(width):
                value = token[j] + of_step[j]
                value = value if value > 0 else np.float32(0)
                token[j] = value
                total[j] += value
                largest[j] = value if value > largest[j] else largest[j]


@kernel(lazy=True)
def deactivate(layer: Backward) -> None:
    """Find the gradients of the products and of what was added. Equal values share the gradient of the largest."""
    values, begins, share = layer.values, layer.begins, layer.share
    width = values.shape[1]
    for b in range(len(begins) - 1):
        largest, to_added = layer.largest[b], layer.to_added[b]
        for j in range(width):
            share[j] = 0
            to_added[j] = 0
        if len(layer.to_largest) > 0:
            for row in range(begins[b], begins[b + 1]):
                token = values[row]
                for j in range(width):
                    share[j] += np.float32(1) if token[j] == largest[j] else np.float32(0)
            for j in range(width):
                share[j] = layer.to_largest[b, j] / share[j] if share[j] > 0 else np.float32(0)
        for row in range(begins[b], begins[b + 1]):
            token, to_product = values[row], layer.to_products[row]
            for j in range(width):
                to_product[j] = share[j] if token[j] == largest[j] else np.float32(0)
            if len(layer.to_values) > 0:
                to_token = layer.to_values[row]
                for j in range(width):
                    to_product[j] += to_token[j]
            if len(layer.to_total) > 0:
                to_total = layer.to_total[b]
                for j in range(width):
                    to_product[j] += to_total[j]
            for j in range(width):
                to_product[j] = to_product[j] if token[j] > 0 else np.float32(0)
                to_added[j] += to_product[j]


class _Layer(torch.autograd.Function):
    """A linear layer and what follows it: values [R, W], and their maxima and sums over the tokens of a step, [B, W].

    The arguments are rows [R, C], a weight [W, C], what is added to the products of a step, [B, W] or [1, W], and int64
    [B + 1], the first row of each step and the number of rows.
    """

    @staticmethod
    def forward(
        ctx: Any, rows: torch.Tensor, weight: torch.Tensor, added: torch.Tensor, begins: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        values = torch.mm(rows, weight.t())
        largest, total = values.new_empty(2, len(begins) - 1, len(weight))
        activate(
            Forward(
                values=values.numpy(),
                begins=begins.numpy(),
                added=added.numpy(),
                largest=largest.numpy(),
                total=total.numpy(),
            )
        )
        ctx.save_for_backward(rows, weight, added, begins, values, largest)
        ctx.set_materialize_grads(False)
        return values, largest, total

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor | None) -> tuple[torch.Tensor | None, ...]:
        rows, weight, added, begins, values, largest = ctx.saved_tensors
        to_products, to_added = torch.empty_like(values), torch.empty_like(largest)
        to_values, to_largest, to_total = (_NOTHING if one is None else one.contiguous().numpy() for one in gradients)
        deactivate(
            Backward(
                values=values.numpy(),
                begins=begins.numpy(),
                largest=largest.numpy(),
                to_values=to_values,
                to_largest=to_largest,
                to_total=to_total,
                share=np.empty(len(weight), np.float32),
                to_products=to_products.numpy(),
                to_added=to_added.numpy(),
            )
        )
        if len(added) == 1:
            to_added = to_added.sum(0, keepdim=True)
        to_rows = torch.mm(to_products, weight) if ctx.needs_input_grad[0] else None
        return to_rows, torch.mm(rows.t(), to_products).t(), to_added, None


def _layer(rows: torch.Tensor, weight: torch.Tensor, added: torch.Tensor, begins: torch.Tensor) -> list[torch.Tensor]:
    values: list[torch.Tensor] = _Layer.apply(rows, weight, added, begins)  # type: ignore[no-untyped-call]
    return values


def is_packable(network: TokenNetwork, inputs: Mapping[str, torch.Tensor]) -> bool:
    """Return whether :func:`packed_logits` computes these logits: with gradients, without pairs and further actions."""
    cluster = inputs[CLUSTER]
    fits = cluster.dtype == torch.float32 and cluster.device.type == "cpu" and not INTERPRETED
    return fits and torch.is_grad_enabled() and not network.layout.pairs and not network.layout.more


def packed_logits(
    network: TokenNetwork, inputs: Mapping[str, torch.Tensor], masks: torch.Tensor, steps: torch.Tensor
) -> torch.Tensor:
    """Return the logits of all feasible actions at some steps, [B, actions]; those of others may be anything."""
    tokens = network.tokens
    cluster = inputs[CLUSTER].index_select(0, steps)
    nothing = cluster.new_zeros(1, network.width)
    seen = [cluster]
    for kind, embed in tokens.around.items():
        if kind in inputs:
            packed = _packed(inputs[kind], masks, steps)
            _, largest, total = _layer(packed.tokens, embed.get_parameter("weight"), nothing, packed.begins)
            seen += [total / (packed.begins[1:] - packed.begins[:-1]).clamp(min=1).unsqueeze(1), largest]
        else:
            seen += [nothing.expand(len(steps), -1)] * 2
    cluster = tokens.cluster(torch.cat(seen, dim=1))
    told, first_action = [cluster], 0
    acting: list[tuple[Packed, torch.Tensor, int, nn.Linear]] = []
    for kind, first in tokens.first.items():
        head = network.start if kind == "queue" else network.preempt
        second, slots = tokens.second[kind], inputs[kind].shape[1]
        packed = _packed(inputs[kind], masks, steps, first_action, head.out_features)
        first_action += slots * head.out_features
        context = tokens.context[kind](cluster)
        hidden, *_ = _layer(packed.tokens, first.get_parameter("weight"), context, packed.begins)
        bias = second.get_parameter("bias").unsqueeze(0)
        values, largest, _ = _layer(hidden, second.get_parameter("weight"), bias, packed.begins)
        told.append(largest)
        acting.append((packed, values, slots, head))
    message = tokens.message(torch.cat(told, dim=1)) + tokens.own.bias
    logits = []
    for packed, values, slots, head in acting:
        after, *_ = _layer(values.index_select(0, packed.acting), tokens.own.weight, message, packed.acting_begins)
        of_kind = nothing.new_zeros(len(steps) * slots, head.out_features)
        logits.append(of_kind.index_copy(0, packed.slots, head(after)).view(len(steps), -1))
    after = F.relu(F.linear(cluster, tokens.own.weight) + message)
    return torch.cat([*logits, network.wait(after)], dim=1)


class Packed(NamedTuple):
    """The tokens of a kind that are there at B steps, those of the first step first.

    Tokens are float32 [R, columns]. ``begins`` : int64 [B + 1], the first token of each step. ``acting`` : int64 [A],
    indices of the tokens with a feasible action; ``slots`` : their places among the slots of all steps;
    ``acting_begins`` : int64 [B + 1], the first of them of each step.
    """

    tokens: torch.Tensor
    begins: torch.Tensor
    acting: torch.Tensor
    slots: torch.Tensor
    acting_begins: torch.Tensor


def _packed(
    rows: torch.Tensor, masks: torch.Tensor, steps: torch.Tensor, first_action: int = 0, actions: int = 0
) -> Packed:
    """Pack the tokens of a kind, rows [N, slots, columns] with empty ones, with their actions about each slot."""
    most = len(steps) * rows.shape[1]
    packed, acting = rows.new_empty(most, rows.shape[2]), steps.new_empty(2, most)
    begins = torch.zeros(2, len(steps) + 1, dtype=torch.int64)
    pack(
        Packing(
            tokens=rows.numpy(),
            masks=masks.numpy(),
            steps=steps.numpy(),
            packed=packed.numpy(),
            acting=acting.numpy(),
            begins=begins.numpy(),
        ),
        first_action,
        actions,
    )
    (tokens, acting_tokens), (indices, slots) = begins[:, -1].tolist(), acting
    return Packed(packed[:tokens], begins[0], indices[:acting_tokens], slots[:acting_tokens], begins[1])
