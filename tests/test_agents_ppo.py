"""PPO: advantages worked out by hand, and both learners improve a network on the same scenario."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import numpy as np
import pytest
import torch

from gpusched_env.agents.ppo import Steps, advantages, paid_until
from gpusched_env.agents.training import TrainingConfig, train


def steps_of(rows: list[tuple[int, float, float, float]]) -> Steps:
    """Steps from (episode, begin, end, reward)."""
    episodes, begins_s, ends_s, rewards = (np.array(column) for column in zip(*rows, strict=True))
    none = torch.zeros(len(rows), 1)
    return Steps({}, none.bool(), none.long(), none, episodes.astype(np.int64), begins_s, ends_s, rewards)


TWO_COPIES = [(0, 0.0, 10.0, -1.0), (1, 0.0, 20.0, -2.0), (0, 10.0, 20.0, -3.0)]


def test_an_advantage_is_the_reward_beyond_that_of_the_copies() -> None:
    """Copy 1 pays 1 in each half of its only step, so in the second half copy 0 pays 3 and the mean is 2."""
    assert advantages(steps_of(TWO_COPIES), 2, np.inf) == pytest.approx([-1.0, 1.0, -1.0])


def test_later_effects_are_discounted_by_simulated_time() -> None:
    assert advantages(steps_of(TWO_COPIES), 2, 10.0) == pytest.approx([-np.exp(-1.0), 1.0, -1.0])


def test_decisions_at_one_time_are_not_discounted_against_each_other() -> None:
    rows = [(0, 5.0, 5.0, 0.0), (0, 5.0, 15.0, -4.0), (1, 5.0, 15.0, -2.0)]
    assert advantages(steps_of(rows), 2, 10.0) == pytest.approx([-1.0, -1.0, 1.0])


def test_workloads_are_not_compared_with_each_other() -> None:
    others = [(episode + 2, begin, end, 100.0 * reward) for episode, begin, end, reward in TWO_COPIES]
    found = advantages(steps_of(TWO_COPIES + others), 2, np.inf)
    assert found == pytest.approx([-1.0, 1.0, -1.0, -100.0, 100.0, -100.0])


def test_an_episode_that_is_over_pays_nothing_more() -> None:
    ends_s, paid = np.array([0.0, 4.0, 4.0, 8.0]), np.array([0.0, 1.0, 2.0, 6.0])
    assert paid_until(np.array([0.0, 4.0, 6.0, 8.0, 100.0]), ends_s, paid) == pytest.approx([0.0, 2.0, 4.0, 6.0, 6.0])


def test_training_twice_gives_equal_files(tmp_path: Path) -> None:
    config = TrainingConfig(scenario="tiny-v1", steps=256, workloads=2, copies=2, validations=2, validation_seeds=1)
    first, second = (train(config, tmp_path / name) for name in "ab")
    assert first.read_bytes() == second.read_bytes()
    assert first.with_name("learning.csv").read_bytes() == second.with_name("learning.csv").read_bytes()


@pytest.mark.parametrize("learner", ["ppo", "stable-baselines3"])
def test_both_learners_improve_the_network(learner: Literal["ppo", "stable-baselines3"], tmp_path: Path) -> None:
    """Validation mean JCT of the kept network against that of the initial one, on the default scenario."""
    config = TrainingConfig(learner=learner, steps=60_000, workloads=4, batch=1024, validations=4, learning_rate=1e-3)
    rows = [line.split(",") for line in train(config, tmp_path).with_name("learning.csv").read_text().splitlines()[1:]]
    assert min(float(row[1]) for row in rows[1:]) < float(rows[0][1])
