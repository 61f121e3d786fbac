"""Minari datasets: episodes of any scheduler, which a replay repeats and a network can learn from."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from typer.testing import CliRunner

from gpusched_env.agents.evaluation import evaluate_policy
from gpusched_env.agents.training import TrainingConfig, train
from gpusched_env.baselines import make_scheduler
from gpusched_env.envs.cluster_env import ClusterEnv
from gpusched_env.envs.windows import Windows
from gpusched_env.errors import GpuschedError
from gpusched_env.evaluation import evaluate
from gpusched_env.scenarios import get_scenario
from gpusched_env.simulator import simulate
from tools.__main__ import app
from tools.datasets.reading import ROOT, read_dataset, settings_of
from tools.datasets.writing import mean_jct_s, verify, write_dataset

NAME = "gpusched/test-v0"
WINDOWS = Windows(queue_window=16, running_window=0, rules=("pack",), queue_order="shortest")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Minari's folder."""
    monkeypatch.setenv(ROOT, str(tmp_path))
    return tmp_path


def test_a_dataset_holds_the_schedule_of_its_scheduler(folder: Path) -> None:
    """SJF starts jobs only, so its episodes in the environment are its direct runs."""
    dataset = write_dataset("sjf", "tiny-v1", [3, 5], WINDOWS, NAME)
    assert (dataset.total_episodes, dataset.spec.dataset_id) == (2, NAME)
    scenario = get_scenario("tiny-v1")
    metadata = list(dataset.storage.get_episode_metadata([0, 1]))
    for seed, one in zip((3, 5), metadata, strict=True):
        assert str(one["digest"]) == simulate(scenario.instance(seed), make_scheduler("sjf"), seed=seed).digest()
    env = ClusterEnv("tiny-v1", mask_in_observation=True, queue_window=16, running_window=0, queue_order="shortest")
    for seed, episode in zip((3, 5), dataset, strict=True):
        observation: Any = env.reset(seed=seed)[0]
        for t, action in enumerate(episode.actions):
            np.testing.assert_equal({name: array[t] for name, array in episode.observations.items()}, observation)
            right = episode.infos["right_actions"][t + 1]
            assert right[action]
            assert not (right & ~observation["action_mask"].astype(bool)).any()
            observation, reward, terminated, truncated, _ = env.step(int(action))
            assert [episode.rewards[t], episode.terminations[t], episode.truncations[t]] == [
                reward, terminated, truncated
            ]  # fmt: skip
        assert terminated


def test_a_network_learns_from_a_dataset_alone(folder: Path) -> None:
    """It takes the scenario and the windows of the dataset, and comes within 2 % of the scheduler on report seeds."""
    write_dataset("sjf", "tiny-v1", range(40), WINDOWS, NAME)
    config = TrainingConfig(dataset=NAME, steps=0, batch=64, validation_seeds=1, greedy=True)
    assert (config.scenario, config.windows) == ("tiny-v1", WINDOWS)
    model = train(config, folder / "run")
    seeds = range(200_000, 200_020)
    ours = np.mean([result.metrics["mean_jct_s"] for result in evaluate_policy(model, "tiny-v1", seeds)])
    direct = evaluate("tiny-v1", ["sjf", "fifo"], seeds, progress=False)
    sjf, fifo = np.array([result.metrics["mean_jct_s"] for result in direct]).reshape(2, -1).mean(axis=1)
    assert ours < 1.02 * sjf < 0.9 * fifo


def test_dally_has_a_dataset_from_which_a_network_learns(folder: Path) -> None:
    """It relies on its decisions: only the action that it has taken is right."""
    windows = Windows(queue_window=16, running_window=8, rules=("consolidate", "pack"), lease_s=3600.0)
    scenario = "dally-poisson-v1:jobs=30"
    dataset = write_dataset("dally", scenario, range(6), windows, NAME)
    direct = evaluate(scenario, ["dally"], range(6), progress=False)
    expected = np.mean([result.metrics["mean_jct_s"] for result in direct])
    assert mean_jct_s(dataset) == pytest.approx(float(expected), rel=0.05)
    for episode in dataset:
        right = episode.infos["right_actions"][1:]
        assert (right.argmax(axis=1) == episode.actions).all()
        assert (right.sum(axis=1) == 1).all()
    config = TrainingConfig(dataset=NAME, steps=0, batch=64, validation_seeds=1)
    assert config.windows == windows
    assert train(config, folder / "run").is_file()


def test_a_changed_dataset_is_found_by_its_replay(folder: Path) -> None:
    dataset = write_dataset("sjf", "tiny-v1", [3], WINDOWS, NAME)
    verify(dataset)
    assert mean_jct_s(dataset) > 0.0
    with h5py.File(Path(dataset.spec.data_path) / "main_data.hdf5", "r+") as file:
        file["episode_0"]["rewards"][4] -= 1.0
    with pytest.raises(GpuschedError, match="seed 3, step 4: the replay's reward"):
        verify(read_dataset(NAME))


def test_a_damaged_file_of_episodes_is_refused_in_one_line(folder: Path) -> None:
    """HDF5 raises errors of four types, when a file is opened or later, when an episode is read."""
    dataset = write_dataset("sjf", "tiny-v1", [3], WINDOWS, NAME)
    path = Path(dataset.spec.data_path) / "main_data.hdf5"
    whole = path.read_bytes()
    config = TrainingConfig(dataset=NAME, steps=0, batch=64, validation_seeds=1)
    for part in range(1, 40):
        at = len(whole) * part // 40
        path.write_bytes(whole[:at])
        with pytest.raises(GpuschedError, match=r"^dataset [^\n]*$"):
            verify(read_dataset(NAME))
        path.write_bytes(whole[:at] + bytes(3000) + whole[at + 3000 :])
        with contextlib.suppress(GpuschedError):  # what nobody reads may be zero
            verify(read_dataset(NAME))
    path.write_bytes(whole[:1000])
    with pytest.raises(GpuschedError, match=r"^dataset [^\n]*$"):
        train(config, folder / "run")


def metadata_of(folder: Path) -> tuple[Path, dict[str, Any]]:
    """The metadata of the dataset, and their file."""
    file = next(folder.rglob("metadata.json"))
    return file, json.loads(file.read_text())


def test_a_dataset_does_not_choose_the_code_that_verifies_it(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_dataset("sjf", "tiny-v1", [3], WINDOWS, NAME)
    (folder / "evil.py").write_text("from pathlib import Path\nPath(__file__).with_name('ran').touch()\n")
    monkeypatch.syspath_prepend(str(folder))
    file, metadata = metadata_of(folder)
    spec = json.loads(metadata["env_spec"]) | {"entry_point": "evil:Env"}
    file.write_text(json.dumps(metadata | {"env_spec": json.dumps(spec)}))
    verify(read_dataset(NAME))
    assert not (folder / "ran").exists()
    file.write_text(json.dumps(metadata | {"env_spec": json.dumps(spec | {"kwargs": {}})}))
    with pytest.raises(GpuschedError, match=r"is not of gpusched/Cluster-v0"):
        read_dataset(NAME)
    for damaged in ("[]", "{}", "[" * 100_000, json.dumps(metadata | {"observation_space": 3})):
        file.write_text(damaged)
        with pytest.raises(GpuschedError, match="cannot be read"):
            read_dataset(NAME)


def test_wrong_datasets_are_refused(folder: Path) -> None:
    with pytest.raises(GpuschedError, match="at least one seed"):
        write_dataset("sjf", "tiny-v1", [], WINDOWS, NAME)
    with pytest.raises(GpuschedError, match=r"'gpusched/none-v0' cannot be read .* known: none"):
        settings_of("gpusched/none-v0")
    write_dataset("sjf", "tiny-v1", [3], WINDOWS, NAME)
    with pytest.raises(GpuschedError, match="'foo': write NAMESPACE/NAME-v0"):
        write_dataset("sjf", "tiny-v1", [3], WINDOWS, "foo")
    with pytest.raises(GpuschedError, match="exists; delete it"):
        write_dataset("sjf", "tiny-v1", [3], WINDOWS, NAME)


def test_the_command_writes_a_dataset_of_training_seeds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = ["datasets", "--scheduler", "srtf", "--scenario", "tiny-v1", "--seeds", "3", "--rules", "pack"]
    arguments += ["--output", "sets", "--lease-s", "3600"]  # a relative path
    monkeypatch.chdir(tmp_path)
    refused = CliRunner().invoke(app, [*arguments, "--delays-s", "600;3600"])
    assert refused.exit_code == 2
    assert "600,3600" in refused.output
    done = CliRunner().invoke(app, [*arguments, "--delays-s", "600,3600"])
    assert done.exit_code == 0, done.output
    monkeypatch.setenv(ROOT, str(tmp_path / "sets"))
    settings = settings_of("gpusched/tiny-v1-srtf-v0")
    assert (settings["lease_s"], tuple(settings["delays_s"])) == (3600.0, (600.0, 3600.0))
    assert "gpusched/tiny-v1-srtf-v0: 3 episodes" in done.output
    assert (tmp_path / "sets" / "gpusched" / "tiny-v1-srtf-v0" / "data" / "main_data.hdf5").is_file()
