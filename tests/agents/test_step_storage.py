"""The storage of steps holds what the environments showed, in the order of play, also after it has grown."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch

from gpusched_env.agents.episodes import Episodes
from gpusched_env.agents.network import TokenNetwork, feasible_log_probabilities
from gpusched_env.agents.ppo import play
from gpusched_env.agents.step_storage import StepStorage
from gpusched_env.agents.tokens import Layout
from gpusched_env.agents.training import TrainingConfig
from gpusched_env.envs.cluster_env import ClusterEnv
from gpusched_env.envs.windows import Windows
from gpusched_env.scenarios import get_scenario


def environment_of(scenario: str, config: TrainingConfig) -> ClusterEnv:
    """An environment with twenty jobs."""
    chosen = get_scenario(scenario)
    small = chosen.replace(workload=dataclasses.replace(chosen.workload, jobs=20))
    return ClusterEnv(small, **dataclasses.asdict(config.windows))


@pytest.mark.parametrize("scenario", ["tiny-v1", "dally-poisson-v1"])
def test_the_storage_holds_the_inputs_of_all_steps(scenario: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Against copies that are made step by step; the second episodes are stored over the first ones."""
    monkeypatch.setattr("gpusched_env.agents.step_storage._FIRST", 16)
    config = TrainingConfig(scenario=scenario, queue_window=5, running_window=3)
    environment = environment_of(scenario, config)
    storage = StepStorage()
    for seeds in ([1, 2, 3], [4]):
        episodes = Episodes(environment, seeds)
        layout = Layout.of(episodes.shapes, config.windows)
        storage.begin(layout, episodes)
        copies: list[dict[str, torch.Tensor]] = []
        masks: list[np.ndarray] = []
        while len(rows := episodes.waiting()):
            observations, shown_masks = episodes.seen(rows)
            steps = storage.write(rows)
            assert steps == slice(sum(map(len, masks)), storage.count)
            copies.append(layout.inputs({name: torch.from_numpy(array) for name, array in observations.items()}))
            masks.append(shown_masks)
            episodes.play(rows, shown_masks.argmax(1))
        assert storage.count > 16  # it has grown at least once
        for name, array in storage.inputs.items():
            assert torch.equal(array[: storage.count], torch.cat([inputs[name] for inputs in copies])), name
        assert (storage.masks[: storage.count].numpy() == np.concatenate(masks)).all()


def test_play_and_updates_read_the_same_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each action was drawn with the probability that the update computes, also where the storage grows in play."""
    monkeypatch.setattr("gpusched_env.agents.step_storage._FIRST", 16)
    torch.manual_seed(0)
    config = TrainingConfig(scenario="tiny-v1", queue_window=5, running_window=3)
    environment = environment_of("tiny-v1", config)
    network = TokenNetwork(Layout.of(Episodes(environment, [1]).shapes, config.windows))
    for weight in network.parameters():  # so that the probabilities of the actions differ
        torch.nn.init.normal_(weight.data, std=0.3)
    storage = StepStorage()
    for seeds in ([1, 2, 3], [4]):
        steps = play(network, environment, seeds, storage)
        rows = torch.arange(len(steps.actions))
        assert len(rows) > 16
        wanted = feasible_log_probabilities(network, steps.inputs, steps.masks, rows).gather(1, steps.actions)
        assert steps.masks.gather(1, steps.actions).all()
        assert torch.allclose(steps.log_probabilities, wanted, atol=1e-4)
        assert wanted.std() > 0.1


def test_what_a_storage_reads_are_views() -> None:
    """A copy would stay as it was when the environments write the next observation."""
    shapes = {"cluster": (2,), "nodes": (3, 4), "node_types": (3, 2, 5), "queue": (1, 6)}
    shown = {name: torch.rand(4, *shape) for name, shape in shapes.items()}
    layout, addresses = Layout.of(shapes, Windows()), {array.data_ptr() for array in shown.values()}
    assert {part.data_ptr() for parts in layout.parts(shown).values() for part in parts} == addresses
    shown["node_types"] = torch.rand(4, 3, 5, 2).transpose(2, 3)
    with pytest.raises(RuntimeError, match="view"):
        layout.parts(shown)
