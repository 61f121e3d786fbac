"""PPO: advantages worked out by hand, equal files twice, and resumed runs."""

from __future__ import annotations

import csv
import dataclasses
from pathlib import Path

import numpy as np
import pytest
import torch

from gpusched_env.agents.ppo import Steps, advantages, entropy_of, paid_until, weights_of
from gpusched_env.agents.training import TrainingConfig, train, trained_or_resumed
from gpusched_env.errors import GpuschedError


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


def test_the_vector_of_weights_is_the_network() -> None:
    network = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Linear(3, 1))
    again = {name: 2.0 * values for name, values in network.state_dict().items()}
    weights = weights_of(network)
    assert len(weights) == 2 * 3 + 3 + 3 + 1
    with torch.no_grad():
        weights.fill_(0.5)
    assert all((values == 0.5).all() for values in network.state_dict().values())
    network.load_state_dict(again)  # as a resumed run does
    assert torch.equal(weights, torch.cat([values.flatten() for values in again.values()]))


def test_infeasible_actions_have_no_entropy() -> None:
    """Two feasible actions with equal probabilities in one row, a single one in the other: (log 2 + 0) / 2."""
    logits = torch.tensor([[1.0, 1.0, -1e9], [3.0, -1e9, -1e9]])
    assert float(entropy_of(torch.log_softmax(logits, 1))) == pytest.approx(np.log(2.0) / 2.0)


def test_training_twice_gives_equal_files(tmp_path: Path) -> None:
    config = TrainingConfig(scenario="tiny-v1", steps=256, workloads=2, copies=2, validations=2, validation_seeds=1)
    first, second = (train(config, tmp_path / name) for name in "ab")
    assert first.read_bytes() == second.read_bytes()
    assert first.with_name("learning.csv").read_bytes() == second.with_name("learning.csv").read_bytes()


class _Killed(BaseException):
    """Stands for the end of the process."""


@pytest.mark.parametrize("teacher", ["", "sjf:placement=consolidate"])
def test_a_killed_run_that_is_resumed_gives_the_files_of_an_uninterrupted_one(teacher: str, tmp_path: Path) -> None:
    config = TrainingConfig(
        scenario="tiny-v1", teacher=teacher, teacher_episodes=2, steps=1_500, workloads=2, copies=2, validations=6,
        validation_seeds=1,
    )  # fmt: skip
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    train(config, whole)

    def kill(done: int, total: int, said: str) -> None:
        if done >= 700:
            raise _Killed

    with pytest.raises(_Killed):
        train(config, killed, kill)
    assert (killed / "state.pt").is_file()
    train(config, killed, resume=True)
    names = {path.name for path in whole.iterdir()}
    assert names == {path.name for path in killed.iterdir()} >= {"model.npz", "updates.csv", "learning.csv"}
    for name in names - {"tensorboard"}:
        assert (killed / name).read_bytes() == (whole / name).read_bytes(), name


def test_a_run_is_resumed_only_under_its_own_settings(tmp_path: Path) -> None:
    config = TrainingConfig(scenario="tiny-v1", steps=1_000, workloads=2, copies=2, validations=6, validation_seeds=1)

    def kill(done: int, total: int, said: str) -> None:
        if done >= 400:
            raise _Killed

    with pytest.raises(GpuschedError, match=r"state.pt: no such file, so there is nothing to resume"):
        train(config, tmp_path, resume=True)
    with pytest.raises(_Killed):
        train(config, tmp_path, kill)
    with pytest.raises(GpuschedError, match=r"saved under another training: clip was 0.2, is 0.3; resume with"):
        train(dataclasses.replace(config, clip=0.3), tmp_path, resume=True)
    state = torch.load(tmp_path / "state.pt", weights_only=True)
    state["learner"]["optimizer"]["param_groups"][0]["params"] = [0, 1]  # one tensor each of several weights
    torch.save(state, tmp_path / "state.pt")
    with pytest.raises(GpuschedError, match=r"state\.pt: saved by another version of the learner .*without --resume"):
        train(config, tmp_path, resume=True)
    (tmp_path / "state.pt").write_bytes(b"PK")
    with pytest.raises(GpuschedError, match=r"state\.pt: not a saved state; train without --resume"):
        train(config, tmp_path, resume=True)


def test_every_update_is_logged_for_spreadsheets_and_tensorboard(tmp_path: Path) -> None:
    config = TrainingConfig(scenario="tiny-v1", steps=600, workloads=2, copies=2, validations=1, validation_seeds=1)
    train(config, tmp_path)
    rows = list(csv.DictReader((tmp_path / "updates.csv").read_text(encoding="utf-8").splitlines()))
    assert int(rows[-1]["steps"]) >= 600
    assert all(0.0 <= float(row["clipped"]) <= 1.0 and float(row["entropy"]) >= 0.0 for row in rows)
    [events] = (tmp_path / "tensorboard").iterdir()
    content = events.read_bytes()
    for name in rows[0]:
        assert f"updates/{name}".encode() in content


def test_the_learning_rate_decreases_and_large_steps_end_an_update(tmp_path: Path) -> None:
    """Without the bound on the divergence, an update has as many minibatches as three passes take."""
    config = TrainingConfig(
        scenario="tiny-v1", steps=600, workloads=2, copies=2, batch=16, validations=1, validation_seeds=1,
        learning_rate=0.1, target_kl=1e-5,
    )  # fmt: skip
    train(config, tmp_path)
    rows = list(csv.DictReader((tmp_path / "updates.csv").read_text(encoding="utf-8").splitlines()))
    done = [0, *(int(row["steps"]) for row in rows)]
    assert [float(row["learning_rate"]) for row in rows] == pytest.approx([0.1 * (1 - k / 600) for k in done[:-1]])
    ended = [float(row["kl_divergence"]) > 1e-5 for row in rows]
    assert any(ended)
    for row, count, early in zip(rows, np.diff(done), ended, strict=True):
        assert (float(row["minibatches"]) < 3 * np.ceil(count / 16)) == early


def test_resuming_several_networks_trains_only_what_is_left(tmp_path: Path) -> None:
    """The first is finished, the second was killed, the third has not begun."""
    configs = [
        TrainingConfig(
            scenario="tiny-v1", steps=600, workloads=2, copies=2, validations=3, validation_seeds=1, seed=seed
        )
        for seed in range(3)
    ]

    def kill(done: int, total: int, said: str) -> None:
        if done >= 300:
            raise _Killed

    train(configs[0], tmp_path / "0")
    before = (tmp_path / "0" / "model.npz").stat().st_mtime_ns
    with pytest.raises(_Killed):
        train(configs[1], tmp_path / "1", kill)
    for number, config in enumerate(configs):
        found = trained_or_resumed(config, tmp_path / str(number), resume=True)
        assert found.read_bytes() == train(config, tmp_path / "whole" / str(number)).read_bytes()
    assert (tmp_path / "0" / "model.npz").stat().st_mtime_ns == before
