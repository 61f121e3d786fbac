"""Logits and gradients of compiled and packed forms of the token network, against the network step by step in float64.

The tolerance is a few hundred times the rounding error of float32; a wrong term is thousands of times larger.
"""

from __future__ import annotations

import copy
import inspect

import pytest
import torch

from gpusched_env.agents.compiled_policy import logits_for_play
from gpusched_env.agents.network import TokenNetwork, feasible_log_probabilities
from gpusched_env.agents.packed_layers import is_packable
from gpusched_env.agents.step_storage import StepStorage
from gpusched_env.core.handle import INTERPRETED
from gpusched_env.envs.registration import ENVIRONMENTS
from tests.agents.test_network import setting

STEPS = 5
pytestmark = pytest.mark.skipif(INTERPRETED, reason="without a compiler, torch computes everything step by step")


def steps_of(name: str) -> tuple[TokenNetwork, dict[str, torch.Tensor], torch.Tensor]:
    """A network, inputs of steps with some empty rows, and masks that allow every action about rows that are there."""
    env, network, seen = setting(name)
    many = {key: torch.rand(STEPS, *array.shape[1:]) for key, array in seen.items()}
    inputs = network.layout.inputs(many)
    masks = torch.rand(STEPS, env.windows.actions) < 0.7
    masks[:, -1] = True
    first = 0
    for kind, head in (("queue", network.start), ("running", getattr(network, "preempt", None))):
        if kind not in inputs or head is None:
            continue
        rows = inputs[kind].shape[1]
        there = torch.arange(rows) <= torch.arange(STEPS).unsqueeze(1)  # one in the first step, one more in the next
        inputs[kind][:, 1] = inputs[kind][:, 0]  # equal rows share the gradient of a maximum
        inputs[kind] *= there.unsqueeze(2)
        actions = rows * head.out_features
        masks[:, first : first + actions] &= there.repeat_interleave(head.out_features, 1)
        first += actions
    return network.float(), inputs, masks


def storage_of(inputs: dict[str, torch.Tensor], masks: torch.Tensor) -> StepStorage:
    storage = StepStorage()
    storage.inputs, storage.masks = inputs, masks
    return storage


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_packed_layers_have_the_gradients_of_the_network(name: str) -> None:
    network, inputs, masks = steps_of(name)
    assert is_packable(network, inputs) == (not network.layout.pairs)
    if network.layout.pairs:
        return
    exact = copy.deepcopy(network).double()
    steps = torch.tensor([3, 0, 4, 2])  # the order of a minibatch, which leaves a step out
    weights = torch.rand(len(steps), masks.shape[1]) * masks[steps]
    found, wanted = (
        feasible_log_probabilities(one, {key: array.to(one.wait.weight) for key, array in inputs.items()}, masks, steps)
        for one in (network, exact)
    )
    assert torch.allclose(found[masks[steps]].double(), wanted[masks[steps]], atol=1e-4)
    gradients = (
        torch.autograd.grad((logs * weights).sum(), list(one.parameters()))
        for one, logs in ((network, found), (exact, wanted))
    )
    for (key, _), a, b in zip(network.named_parameters(), *gradients, strict=True):
        assert (a - b).abs().max() <= 1e-4 * b.abs().max().clamp(min=1.0), key


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_the_compiled_policy_has_the_logits_of_the_network(name: str) -> None:
    network, inputs, masks = steps_of(name)
    some = slice(1, 4)
    with torch.inference_mode():
        storage = storage_of({key: array[:1] for key, array in inputs.items()}, masks[:1])
        logits_of = logits_for_play(network, storage, 3)
        is_compiled = inspect.ismethod(logits_of)  # of a CompiledPolicy; pairs are computed step by step
        assert is_compiled == (not network.layout.pairs)
        storage.inputs, storage.masks = inputs, masks  # as if it had grown
        wanted = copy.deepcopy(network).double()({key: array[some].double() for key, array in inputs.items()})
        assert torch.allclose(logits_of(some)[masks[some]].double(), wanted[masks[some]], atol=1e-4)
