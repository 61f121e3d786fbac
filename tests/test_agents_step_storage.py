"""The storage of steps holds what the environments showed, in the order of play, also after it has grown."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch

from gpusched_env.agents.episodes import Episodes
from gpusched_env.agents.step_storage import StepStorage
from gpusched_env.agents.tokens import Layout
from gpusched_env.agents.training import TrainingConfig
from gpusched_env.envs.cluster_env import ClusterEnv
from gpusched_env.scenarios import get_scenario


@pytest.mark.parametrize("scenario", ["tiny-v1", "dally-poisson-v1"])
def test_the_storage_holds_the_inputs_of_all_steps(scenario: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Against copies that are made step by step; the second episodes are stored over the first ones."""
    monkeypatch.setattr("gpusched_env.agents.step_storage._FIRST", 16)
    config = TrainingConfig(scenario=scenario, queue_window=5, running_window=3)
    chosen = get_scenario(scenario)
    small = chosen.replace(workload=dataclasses.replace(chosen.workload, jobs=20))
    environment = ClusterEnv(small, **dataclasses.asdict(config.windows))
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
