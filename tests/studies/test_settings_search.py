"""The search for settings: it returns the best trial, stops bad ones, and continues."""

from __future__ import annotations

import csv
import dataclasses
from pathlib import Path
from typing import Any

import optuna
import pytest

from gpusched_env.agents.training import TrainingConfig
from gpusched_env.errors import GpuschedError
from studies import settings_search
from studies.settings_search import search

CONFIG = TrainingConfig(scenario="tiny-v1", steps=200, validations=2, validation_seeds=1, batch=64)


def best_of(folder: Path) -> float:
    with (folder / "learning.csv").open(encoding="utf-8") as stream:
        return min(float(row["validation_mean_jct_s"]) for row in list(csv.DictReader(stream))[1:])


def test_the_best_trial_wins_and_a_search_continues(tmp_path: Path) -> None:
    said: list[str] = []
    search(CONFIG, tmp_path, 2, said.append)
    found = search(CONFIG, tmp_path, 1, said.append)
    assert [line.split(":")[0] for line in said] == ["trial 0", "trial 1", "trial 2"]
    study = optuna.load_study(study_name="tiny-v1", storage=f"sqlite:///{tmp_path / 'search.db'}")
    values = [best_of(tmp_path / f"trial-{number}") for number in range(3)]
    assert study.best_value == pytest.approx(min(values))
    assert {name: getattr(found, name) for name in study.best_params} == study.best_params
    others = {field.name for field in dataclasses.fields(CONFIG)} - study.best_params.keys()
    assert all(getattr(found, name) == getattr(CONFIG, name) for name in others)


def test_a_trial_worse_than_the_median_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sixth trial validates worse than the five before it, so it is asked for no third result."""
    asked: list[list[float]] = []

    def pretend(config: TrainingConfig, output: Path, judge: Any) -> None:
        asked.append([])
        output.mkdir()
        for number in range(4):
            score = 100.0 + (50.0 if len(asked) == 6 else len(asked))
            asked[-1].append(score)
            judge(number, score)
        (output / "learning.csv").write_text("steps,validation_mean_jct_s,kept\n0,999,0\n1,100,1\n", encoding="utf-8")

    monkeypatch.setattr(settings_search, "train", pretend)
    said: list[str] = []
    search(CONFIG, tmp_path, 6, said.append)
    assert [len(scores) for scores in asked[:5]] == [4] * 5
    assert len(asked[5]) < 4
    assert "stopped early" in said[5]


def test_a_continued_search_tries_other_settings_and_knows_its_own(tmp_path: Path) -> None:
    with pytest.raises(GpuschedError, match="trials is -1"):
        search(CONFIG, tmp_path, -1)
    with pytest.raises(GpuschedError, match="no trial of the search has finished"):
        search(CONFIG, tmp_path, 0)
    first = search(CONFIG, tmp_path, 1)
    assert search(CONFIG, tmp_path, 0) == first
    search(CONFIG, tmp_path, 1)
    study = optuna.load_study(study_name="tiny-v1", storage=f"sqlite:///{tmp_path / 'search.db'}")
    assert study.trials[0].params["learning_rate"] != study.trials[1].params["learning_rate"]
    with pytest.raises(GpuschedError, match="a search with other settings is in this folder"):
        search(dataclasses.replace(CONFIG, steps=300), tmp_path, 1)
