"""Errors of a learned scheduler name the file that cannot be read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from helpers import instance_i, play

from gpusched_env.agents.learned import LearnedScheduler
from gpusched_env.baselines import make_scheduler
from gpusched_env.envs.windows import Windows
from gpusched_env.errors import SchedulerError

WINDOWS = dict(
    queue_window=4, running_window=2, queue_order="arrival", running_order="most-attained", rules=["pack", "spread"]
)


def write(folder: Path, text: str) -> str:
    (folder / "config.json").write_text(text)
    return str(folder / "model.npz")


def test_missing_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(SchedulerError, match=r"learned:path="):
        make_scheduler("learned:greedy=on")
    with pytest.raises(SchedulerError, match=r"config\.json: cannot be read"):
        make_scheduler("learned", path=str(tmp_path / "model.npz"))
    path = write(tmp_path, json.dumps({"training": WINDOWS}))
    with pytest.raises(SchedulerError, match=r"model\.npz: no such model"):
        play(instance_i(), "learned", path=path)


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"training": {}}', '{"training": 3}', '{"training": null}'])
def test_a_damaged_configuration_is_named(tmp_path: Path, text: str) -> None:
    path = write(tmp_path, text)
    with pytest.raises(SchedulerError, match=r"config\.json: not a configuration written by train\.py"):
        make_scheduler("learned", path=path)


def test_unknown_windows_are_a_scheduler_error(tmp_path: Path) -> None:
    path = write(tmp_path, json.dumps({"training": WINDOWS | {"rules": ["teleport"]}}))
    with pytest.raises(SchedulerError, match=r"config\.json.*teleport"):
        make_scheduler("learned", path=path)


def test_a_configuration_of_an_earlier_version_loads(tmp_path: Path) -> None:
    """It names five fields of the windows; the others are what they were then."""
    scheduler = make_scheduler("learned", path=write(tmp_path, json.dumps({"training": WINDOWS | {"steps": 10}})))
    assert isinstance(scheduler, LearnedScheduler)
    windows = scheduler.windows
    expected = Windows(4, 2, ("pack", "spread"), (), "arrival", "most-attained", clairvoyant=True, lease_s=None)
    assert all(getattr(windows, name) == getattr(expected, name) for name in (*WINDOWS, "clairvoyant", "lease_s"))


def test_a_damaged_model_is_named(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    path = write(tmp_path, json.dumps({"training": WINDOWS}))
    Path(path).write_bytes(b"not a zip")
    with pytest.raises(SchedulerError, match=r"model\.npz: not an agent"):
        play(instance_i(), "learned", path=path)


def test_untrained_windows_play_without_a_model(tmp_path: Path) -> None:
    path = write(tmp_path, json.dumps({"training": WINDOWS}))
    log = play(instance_i(), "learned", path=path, untrained=True)
    assert log.digest() == play(instance_i(), "learned", path=path, untrained=True).digest()


@pytest.mark.parametrize(("saved", "expected"), [({}, 0.0), ({"least_run_s": None}, None), ({"least_run_s": 5.0}, 5.0)])
def test_agents_saved_before_least_run_s_play_without_a_limit(
    tmp_path: Path, saved: dict[str, float | None], expected: float | None
) -> None:
    path = write(tmp_path, json.dumps({"training": WINDOWS | saved}))
    assert LearnedScheduler(path).windows.least_run_s == expected


def test_training_saves_the_limit_under_which_an_agent_has_learned() -> None:
    training = pytest.importorskip("gpusched_env.agents.training", exc_type=ImportError)
    assert training.TrainingConfig().windows.least_run_s is None
    assert training.TrainingConfig(least_run_s=7.0).windows.least_run_s == 7.0
