"""The logits of a token network as one kernel, for play: few steps at once, where torch mostly prepares its calls.

It computes what :class:`~gpusched_env.agents.network.TokenNetwork` computes, to rounding, for networks without pairs on
the CPU. Empty tokens and actions that are not feasible take no time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
import torch

from gpusched_env.agents.tokens import CLUSTER
from gpusched_env.core import arithmetic  # noqa: F401 - kernels may call the functions
from gpusched_env.core.handle import INTERPRETED, Handle, array, helper, kernel

if TYPE_CHECKING:
    from gpusched_env.agents.network import TokenNetwork
    from gpusched_env.agents.step_storage import StepStorage

LogitsOf: TypeAlias = Callable[[slice], torch.Tensor]  # of some steps in a storage
_AROUND: Final = ("nodes", "links", "tenants")
_ACTING: Final = ("queue", "running")


class Policy(Handle):
    """Inputs, weights and logits; kinds that the network lacks have no columns and no weights.

    Weights are [inputs, outputs]; the last row of [inputs + 1, outputs] has the biases.
    """

    cluster = array(np.float32, "steps", "cluster columns")
    nodes = array(np.float32, "steps", "nodes", "node columns")
    links = array(np.float32, "steps", "links", "link columns")
    tenants = array(np.float32, "steps", "tenants", "tenant columns")
    queue = array(np.float32, "steps", "queue", "queue columns")
    running = array(np.float32, "steps", "running", "running columns")
    masks = array(np.bool_, "steps", "actions")
    logits = array(np.float32, "steps at once", "actions")
    around_nodes = array(np.float32, "node columns", "width")
    around_links = array(np.float32, "link columns", "width")
    around_tenants = array(np.float32, "tenant columns", "width")
    cluster_first = array(np.float32, "seen + 1", "width")
    cluster_second = array(np.float32, "width + 1", "width")
    first_queue = array(np.float32, "queue columns", "width")
    context_queue = array(np.float32, "width + 1", "width")
    second_queue = array(np.float32, "width + 1", "width")
    first_running = array(np.float32, "running columns", "width")
    context_running = array(np.float32, "width + 1", "width")
    second_running = array(np.float32, "width + 1", "width")
    message = array(np.float32, "told + 1", "width")
    own = array(np.float32, "width + 1", "width")
    start = array(np.float32, "width + 1", "starts of a job")
    preempt = array(np.float32, "width + 1", "1")
    wait = array(np.float32, "width + 1", "waits")
    # for intermediate results
    seen = array(np.float32, "seen")
    told = array(np.float32, "told")
    vectors = array(np.float32, "4", "width")
    queue_tokens = array(np.float32, "queue", "width")
    running_tokens = array(np.float32, "running", "width")


@helper
def add_product(inputs: Any, weight: Any, results: Any) -> None:
    """Add inputs [C] x the first C rows of a weight to results [W]; four at once, so that results are written less."""
    count, width = len(inputs), len(results)
    c = 0
    while c + 4 <= count:
        a, b, d, e = inputs[c], inputs[c + 1], inputs[c + 2], inputs[c + 3]
        for j in range(width):
            results[j] += (a * weight[c, j] + b * weight[c + 1, j]) + (d * weight[c + 2, j] + e * weight[c + 3, j])
        c += 4
    while c < count:
        a = inputs[c]
        for j in range(width):
            results[j] += a * weight[c, j]
        c += 1


@helper
def cut(values: Any) -> None:
    """Replace negative values by 0."""
    for j in range(len(values)):
        values[j] = values[j] if values[j] > 0 else np.float32(0)


@helper
def layer(inputs: Any, weight: Any, results: Any) -> None:
    """Write inputs [C] x weight [C + 1, W], biases included, to results [W]."""
    for j in range(len(results)):
        results[j] = weight[len(inputs), j]
    add_product(inputs, weight, results)


@helper
def is_empty(row: Any) -> bool:
    """Return whether all columns of a row are 0."""
    for c in range(len(row)):  # noqa: SIM110 - kernels have no all()
        if row[c] != 0:
            return False
    return True


@helper
def pool(rows: Any, weight: Any, token: Any, mean: Any, largest: Any) -> None:
    """Write mean and maximum of the embedded rows that are not empty."""
    width, count = len(token), 0
    for j in range(width):
        mean[j] = 0
        largest[j] = 0
    for t in range(len(rows)):
        if is_empty(rows[t]):
            continue
        count += 1
        for j in range(width):
            token[j] = 0
        add_product(rows[t], weight, token)
        cut(token)
        for j in range(width):
            mean[j] += token[j]
            largest[j] = token[j] if token[j] > largest[j] else largest[j]
    for j in range(width):
        mean[j] = mean[j] / np.float32(max(count, 1))


@helper
def embed(rows: Any, first: Any, context: Any, second: Any, hidden: Any, tokens: Any, largest: Any) -> None:
    """Write the tokens of a kind, and their maximum; the tokens of empty rows are not written."""
    width = len(hidden)
    for j in range(width):
        largest[j] = 0
    for t in range(len(rows)):
        if is_empty(rows[t]):
            continue
        for j in range(width):
            hidden[j] = context[j]
        add_product(rows[t], first, hidden)
        cut(hidden)
        token = tokens[t]
        layer(hidden, second, token)
        cut(token)
        for j in range(width):
            largest[j] = token[j] if token[j] > largest[j] else largest[j]


@helper
def act(token: Any, own: Any, message: Any, after: Any, head: Any, masks: Any, logits: Any) -> None:
    """Write the logits of the actions about a token, if one of them is feasible."""
    actions = head.shape[1]
    feasible = False
    for a in range(actions):
        feasible = feasible or masks[a]
    if not feasible:
        return
    for j in range(len(after)):
        after[j] = message[j]
    add_product(token, own, after)
    cut(after)
    for a in range(actions):
        value = head[len(after), a]
        for j in range(len(after)):
            value += after[j] * head[j, a]
        logits[a] = value


@kernel(lazy=True)
def find_logits(net: Policy, first: int, end: int) -> None:
    """Write the logits of all feasible actions at the steps from ``first`` to before ``end``."""
    width = net.own.shape[1]
    seen, told, token, message = net.seen, net.told, net.vectors[0], net.vectors[1]
    hidden, after = net.vectors[2], net.vectors[3]
    starts, queue, running = net.start.shape[1], net.queue.shape[1], net.running.shape[1]
    for b in range(first, end):
        at = net.cluster.shape[1]
        for c in range(at):
            seen[c] = net.cluster[b, c]
        if len(net.around_nodes) > 0:
            pool(net.nodes[b], net.around_nodes, token, seen[at : at + width], seen[at + width : at + 2 * width])
            at += 2 * width
        if len(net.around_links) > 0:
            pool(net.links[b], net.around_links, token, seen[at : at + width], seen[at + width : at + 2 * width])
            at += 2 * width
        if len(net.around_tenants) > 0:
            pool(net.tenants[b], net.around_tenants, token, seen[at : at + width], seen[at + width : at + 2 * width])
        layer(seen, net.cluster_first, hidden)
        cut(hidden)
        cluster = told[:width]
        layer(hidden, net.cluster_second, cluster)
        cut(cluster)
        layer(cluster, net.context_queue, token)
        embed(net.queue[b], net.first_queue, token, net.second_queue, hidden,
              net.queue_tokens, told[width : 2 * width])  # fmt: skip
        if len(net.first_running) > 0:
            layer(cluster, net.context_running, token)
            embed(net.running[b], net.first_running, token, net.second_running, hidden,
                  net.running_tokens, told[2 * width : 3 * width])  # fmt: skip
        layer(told, net.message, message)
        for j in range(width):
            message[j] += net.own[width, j]
        masks, logits = net.masks[b], net.logits[b - first]
        a = 0
        for t in range(queue):
            act(net.queue_tokens[t], net.own, message, after, net.start,
                masks[a : a + starts], logits[a : a + starts])  # fmt: skip
            a += starts
        for t in range(running):
            act(net.running_tokens[t], net.own, message, after, net.preempt,
                masks[a : a + 1], logits[a : a + 1])  # fmt: skip
            a += 1
        act(cluster, net.own, message, after, net.wait, masks[a:], logits[a:])


def logits_for_play(network: TokenNetwork, storage: StepStorage, most: int) -> LogitsOf:
    """Return a function that computes the logits of feasible actions of up to ``most`` steps with today's weights."""
    weight, known = network.start.weight, {CLUSTER, *_AROUND, *_ACTING}
    fits = weight.dtype == torch.float32 and weight.device.type == "cpu" and not INTERPRETED
    if fits and not network.layout.pairs and not network.layout.more and set(network.layout.kinds) <= known:
        return CompiledPolicy(network, storage, most).logits
    return lambda steps: network({name: array[steps].to(weight.device) for name, array in storage.inputs.items()})


class CompiledPolicy:
    """The logits of a network with its weights of now; the parameters are those of :func:`logits_for_play`."""

    def __init__(self, network: TokenNetwork, storage: StepStorage, most: int) -> None:
        self._storage = storage
        self._logits = torch.empty(most, storage.masks.shape[1])
        arrays = self._seen() | {"logits": self._logits} | _weights(network)
        for kind in _ACTING:
            arrays[f"{kind}_tokens"] = torch.empty(arrays[kind].shape[1], network.width)
        self._handle = Policy(**{name: value.numpy() for name, value in arrays.items()})

    def _seen(self) -> dict[str, torch.Tensor]:
        """Return inputs and masks of all steps; kinds that are not shown have no columns."""
        self._inputs = self._storage.inputs
        nothing = torch.empty(0, 0, 0)
        inputs = {name: self._inputs.get(name, nothing) for name in (CLUSTER, *_AROUND, *_ACTING)}
        return inputs | {"masks": self._storage.masks}

    def logits(self, steps: slice) -> torch.Tensor:
        """Return the logits of feasible actions, [steps, actions], until the next call; others may be anything."""
        if self._inputs is not self._storage.inputs:  # it has grown
            for name, array in self._seen().items():
                self._handle.replace(name, array.numpy())
        find_logits(self._handle, steps.start, steps.stop)
        return self._logits[: steps.stop - steps.start]


def _weights(network: TokenNetwork) -> dict[str, torch.Tensor]:
    """Return the weights of a network, and room for intermediate results."""
    width, tokens = network.width, network.tokens
    arrays: dict[str, torch.Tensor] = {}

    def keep(name: str, layer: Any, outputs: int = width) -> None:
        rows = [] if layer is None else [layer.weight.detach().t()]
        if getattr(layer, "bias", None) is not None:
            rows.append(layer.bias.detach().unsqueeze(0))
        arrays[name] = torch.cat(rows) if rows else torch.empty(0, outputs)

    for part, kinds in (("around", _AROUND), *((part, _ACTING) for part in ("first", "context", "second"))):
        layers = dict(getattr(tokens, part).items())
        for kind in kinds:
            keep(f"{part}_{kind}", layers.get(kind))
    for name, one in (("cluster_first", tokens.cluster[0]), ("cluster_second", tokens.cluster[2]),
                      ("message", tokens.message), ("own", tokens.own)):  # fmt: skip
        keep(name, one)
    keep("start", network.start, network.start.out_features)
    keep("preempt", getattr(network, "preempt", None), 1)
    keep("wait", network.wait, network.wait.out_features)
    arrays["seen"] = torch.zeros(len(arrays["cluster_first"]) - 1)
    arrays["told"] = torch.zeros(len(arrays["message"]) - 1)
    arrays["vectors"] = torch.empty(4, width)
    return arrays
