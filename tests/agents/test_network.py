"""The token network: the same weights for any number of jobs, nodes, links, types and partners."""

from __future__ import annotations

from pathlib import Path

import gymnasium as gym
import pytest
import torch
from helpers import thirty_jobs

from gpusched_env.agents.evaluation import evaluate_policy
from gpusched_env.agents.learned import LearnedScheduler
from gpusched_env.agents.network import INFEASIBLE, TokenNetwork, feasible_log_probabilities
from gpusched_env.agents.tokens import SIZES, Layout, kinds_of
from gpusched_env.envs.cluster_env import ClusterEnv
from gpusched_env.envs.registration import ENVIRONMENTS
from gpusched_env.envs.windows import Windows
from gpusched_env.errors import SchedulerError
from gpusched_env.evaluation import evaluate
from gpusched_env.simulator import simulate
from tests.agents.test_policy import trained

SLOTS = {"queue": "queue_window", "running": "running_window", "partners": "partner_window"}


def setting(name: str) -> tuple[ClusterEnv, TokenNetwork, dict[str, torch.Tensor]]:
    """An environment at the begin of an episode, a network with random weights, and a random observation."""
    options = dict(gym.spec(name).kwargs)
    scenario = thirty_jobs(options.pop("scenario", "philly-64-v1"))
    env = ClusterEnv(scenario, **(options | {"queue_window": 6, "running_window": 5}))
    observation, _ = env.reset(seed=1)
    torch.manual_seed(0)
    network = TokenNetwork(Layout.of({key: array.shape for key, array in observation.items()}, env.windows)).double()
    for parameter in network.parameters():  # the initial heads are so small that they would hide differences
        torch.nn.init.normal_(parameter, std=0.3)
    return env, network, {key: torch.rand(1, *array.shape, dtype=torch.float64) for key, array in observation.items()}


def logits_of(network: TokenNetwork, seen: dict[str, torch.Tensor]) -> torch.Tensor:
    with torch.inference_mode():
        return network(network.layout.inputs(seen))[0]


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_every_array_is_an_input(name: str) -> None:
    env, network, seen = setting(name)
    before = logits_of(network, seen)
    assert len(before) == env.windows.actions
    for key, array in seen.items():
        changed = dict(seen) | {key: array + 0.25}
        assert not torch.equal(logits_of(network, changed), before), key


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_gradients_are_finite_differences(name: str) -> None:
    """A change of all weights in a random direction changes a random mix of the logits as the gradient says."""
    _, network, seen = setting(name)
    for array in seen.values():
        array[:, :2] = array[:, :1]  # two equal rows share the gradient of a maximum
    inputs = network.layout.inputs(seen)
    mix = torch.randn(network(inputs).shape, dtype=torch.float64)
    weights = list(network.parameters())
    directions = [torch.randn_like(weight) for weight in weights]
    gradients = torch.autograd.grad((network(inputs) * mix).sum(), weights, materialize_grads=True)
    slope = sum((gradient * direction).sum() for gradient, direction in zip(gradients, directions, strict=True))
    ends = []
    for step in (1e-7, -2e-7):  # to one side of the weights, and from there to the other side
        with torch.no_grad():
            for weight, direction in zip(weights, directions, strict=True):
                weight.add_(direction, alpha=step)
            ends.append((network(inputs) * mix).sum())
    assert float((ends[0] - ends[1]) / 2e-7) == pytest.approx(float(slope), rel=1e-5)


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_empty_rows_change_nothing(name: str) -> None:
    """Two more empty rows of every kind: the logits of all actions that existed before are the same."""
    env, network, seen = setting(name)
    padded = {}
    for key, array in seen.items():
        kind = next((k for k, arrays in network.layout.kinds.items() if key in arrays), "")
        if kind == "cluster":
            padded[key] = array
        elif len(kinds_of(key)) == 2:
            one, kind = seen[kinds_of(key)[0]].shape[1], kinds_of(key)[1]
            more = 0 if kind == SIZES else 2
            other = array.shape[1] // one
            wide = torch.nn.functional.pad(array.reshape(1, one, other, -1), (0, 0, 0, more, 0, 2))
            padded[key] = wide.reshape(1, (one + 2) * (other + more), -1)
        else:
            per_token = array.shape[1] // seen[kind].shape[1]
            padded[key] = torch.nn.functional.pad(array, (0, 0, 0, 2 * per_token))
    before, after = logits_of(network, seen), logits_of(network, padded)
    windows, sizes = env.windows, env.windows.options
    slots = windows.queue_window, len(windows.rules) + windows.partner_window, sizes
    starts = before[: windows.first_resize].reshape(slots)
    extra = 2 if windows.partner_window else 0
    wide_starts = after[: (slots[0] + 2) * (slots[1] + extra) * sizes].reshape(slots[0] + 2, slots[1] + extra, sizes)
    torch.testing.assert_close(wide_starts[: slots[0], : slots[1]], starts)
    rest, wide_rest = before[windows.first_resize :], after[wide_starts.numel() :]
    running = windows.running_window
    resizes = running * windows.slot_resizes
    torch.testing.assert_close(wide_rest[:resizes], rest[:resizes])
    rest, wide_rest = rest[resizes:], wide_rest[(running + 2) * windows.slot_resizes :]
    torch.testing.assert_close(wide_rest[:running], rest[:running])
    torch.testing.assert_close(wide_rest[running + 2 if running else 0 :], rest[running:])


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_the_order_of_rows_is_the_order_of_actions(name: str) -> None:
    """Reversed rows of jobs reverse their logits; the order of nodes and links means nothing."""
    env, network, seen = setting(name)
    windows = env.windows
    turned = dict(seen)
    for kind, arrays in network.layout.kinds.items():
        for key in arrays if kind in ("queue", "running", "nodes", "links") else ():
            rows = seen[key].reshape(1, seen[kind].shape[1], -1)
            turned[key] = rows.flip(1).reshape(seen[key].shape)
    for key in network.layout.pairs:
        rows = seen[key].reshape(1, seen[kinds_of(key)[0]].shape[1], -1)
        turned[key] = rows.flip(1).reshape(seen[key].shape)
    before, after = logits_of(network, seen), logits_of(network, turned)
    starts = before[: windows.first_resize].reshape(windows.queue_window, -1)
    torch.testing.assert_close(after[: windows.first_resize].reshape(windows.queue_window, -1), starts.flip(0))
    if windows.slot_resizes:
        resizes = slice(windows.first_resize, windows.first_preemption)
        before_of, after_of = (logits[resizes].reshape(windows.running_window, -1) for logits in (before, after))
        torch.testing.assert_close(after_of, before_of.flip(0))
    preemptions = slice(windows.first_preemption, windows.wait_action)
    torch.testing.assert_close(after[preemptions], before[preemptions].flip(0))
    torch.testing.assert_close(after[windows.wait_action :], before[windows.wait_action :])


def test_infeasible_actions_have_probability_0() -> None:
    env, network, seen = setting("gpusched/Cluster-v0")
    mask = torch.from_numpy(env.mask.astype(bool))[None]
    assert (~mask).any()
    shares = feasible_log_probabilities(network, network.layout.inputs(seen), mask, torch.arange(1)).exp()
    assert (shares[~mask] == 0.0).all()
    assert shares.sum().item() == pytest.approx(1.0)
    assert INFEASIBLE < -1e6


def test_a_saved_network_is_the_same_network(tmp_path: Path) -> None:
    _, network, seen = setting("gpusched/Sharing-v0")
    network.float().save(tmp_path / "model.npz", {})
    again = TokenNetwork.load(tmp_path / "model.npz")
    assert again.layout == network.layout
    assert torch.equal(logits_of(again.double(), seen), logits_of(network.double(), seen))


def test_one_agent_plays_on_every_size(tmp_path: Path) -> None:
    """An agent of 64 GPUs and six slots plays 256 GPUs with 64 slots, alone as in a batch."""
    agent, _, _ = trained("gpusched/Cluster-v0", tmp_path, queue_window=6, running_window=3)
    other = thirty_jobs("philly-256-v1")
    wide = LearnedScheduler(agent.path, queue_window=64, running_window=16)
    assert (wide.windows.queue_window, wide.windows.running_window) == (64, 16)
    for player in (agent, wide):
        assert evaluate_policy(player, other, [7]) == evaluate(other, [player], [7], progress=False)


def test_arrays_that_a_scenario_does_not_show_are_empty(tmp_path: Path) -> None:
    """An agent of three GPU types plays on one type."""
    agent, scenario, _ = trained("gpusched/Heterogeneous-v0", tmp_path)
    one = scenario.replace(groups=scenario.groups[:1])
    assert len(evaluate_policy(agent, one, [3])) == 1
    assert simulate(one.instance(3), agent).digest() == evaluate_policy(agent, one, [3])[0].digest


def test_tiers_do_not_take_the_place_of_a_topology(tmp_path: Path) -> None:
    agent, _, _ = trained("gpusched/Cluster-v0", tmp_path)
    with pytest.raises(SchedulerError, match=r"priced by tiers, but this one is a topology"):
        simulate(thirty_jobs("leaf-spine-256-v1").instance(0), agent)


def test_an_agent_has_no_actions_that_it_was_not_trained_with(tmp_path: Path) -> None:
    agent, _, _ = trained("gpusched/Cluster-v0", tmp_path, running_window=0)
    wide = LearnedScheduler(agent.path, running_window=4)
    with pytest.raises(SchedulerError, match=r"without actions about running, but running_window is not 0 here"):
        simulate(thirty_jobs("philly-64-v1").instance(0), wide)


def test_other_columns_are_refused() -> None:
    windows = Windows(partner_window=2, sub_batches=4)
    shapes = {"queue": (32, 13), "cluster": (11,), "nodes": (8, 4), "links": (3, 3), "sub_batches": (128, 2)}
    layout = Layout.of(shapes, windows)
    assert layout.refusal(shapes | {"nodes": (100, 4)}, windows) == ""
    assert layout.refusal(shapes | {"sub_batches": (64, 2)}, windows) == (
        "trained with 8 columns of sub_batches, but here it has 4"
    )


def test_weights_do_not_depend_on_the_number_of_sizes() -> None:
    """Actions on the sizes that both environments name have equal logits if the job's best size is the same."""
    _, network, _ = setting("gpusched/Elastic-v0")
    env = ClusterEnv(thirty_jobs("pollux-64-v0"), queue_window=6, running_window=5, sizes=(1, 2, 4))
    observation, _ = env.reset(seed=1)
    shapes = {name: array.shape for name, array in observation.items()}
    assert network.refusal(shapes, env.windows) == ""
    random = {name: torch.rand(1, *array.shape, dtype=torch.float64) for name, array in observation.items()}
    doubled = dict(random)
    for name, slots in (("queue_sizes", 6), ("running_sizes", 5)):  # each size twice: the maximum over sizes is equal
        rows = random[name].reshape(1, slots, 3, -1)
        doubled[name] = torch.cat([rows, rows], dim=2).reshape(1, slots * 6, -1)
    once, twice = logits_of(network, random), logits_of(network, doubled)
    starts, resizes = once[:18].reshape(6, 3), once[18:33].reshape(5, 3)
    torch.testing.assert_close(twice[:36].reshape(6, 6), torch.cat([starts, starts], dim=1))
    torch.testing.assert_close(twice[36:66].reshape(5, 6), torch.cat([resizes, resizes], dim=1))
    torch.testing.assert_close(twice[66:], once[33:])


def test_a_network_without_actions_about_sizes_refuses_them_and_the_other_way_round() -> None:
    _, with_sizes, seen = setting("gpusched/Elastic-v0")
    env, without, plain = setting("gpusched/Cluster-v0")
    sized = ClusterEnv(thirty_jobs("pollux-64-v0"), sizes=(1, 2)).windows
    assert "actions choose sizes" in without.refusal({name: array.shape[1:] for name, array in seen.items()}, sized)
    plain_shapes = {name: array.shape[1:] for name, array in plain.items()}
    assert "jobs keep the sizes" in with_sizes.refusal(plain_shapes, env.windows)
