"""Training: the agent learns, its files are complete, and it plays the same schedule everywhere."""

from __future__ import annotations

import io
import json
import runpy
import sys
from pathlib import Path

import numpy as np
import pytest
from helpers import linked_scenario

import gpusched_env
from gpusched_env.agents.evaluation import evaluate_agent
from gpusched_env.agents.learned import LearnedScheduler
from gpusched_env.agents.training import TrainingConfig, train
from gpusched_env.baselines import make_scheduler
from gpusched_env.cluster import NodeGroup
from gpusched_env.consoles import console
from gpusched_env.errors import GpuschedError, SchedulerError
from gpusched_env.evaluation import evaluate
from gpusched_env.event_log import COMPLETE
from gpusched_env.metrics import paired_ratio
from gpusched_env.scenarios import get_scenario, save_scenario
from gpusched_env.simulator import Scheduler, simulate

HELD_OUT = range(200_010, 200_018)  # report seeds: used neither for training nor for validation


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Train on the default scenario for half as long as ``train.py`` does."""
    folder = tmp_path_factory.mktemp("trained")
    save_scenario(get_scenario("philly-64-v1"), folder / "scenario.json")
    config = TrainingConfig(scenario=str(folder / "scenario.json"), steps=50_000, validations=1, validation_seeds=2)
    said: list[str] = []
    model = train(config, folder, lambda done, total, text: said.append(text))
    assert said[-1].startswith("validation mean JCT")
    return model


def test_the_agent_clearly_beats_random_choice_on_held_out_seeds(trained: Path) -> None:
    scenario = get_scenario(str(trained.with_name("scenario.json")))
    players: list[str | Scheduler] = [LearnedScheduler(str(trained)), "random"]
    results = evaluate(scenario, players, HELD_OUT, progress=False)
    jct = np.array([result.metrics["mean_jct_s"] for result in results]).reshape(2, -1)
    assert paired_ratio(jct[0], jct[1]).high < 0.9


def test_training_beats_its_own_windows_played_at_random(trained: Path) -> None:
    """The result is due to learning, not to the windows."""
    scenario = get_scenario(str(trained.with_name("scenario.json")))
    players: list[str | Scheduler] = [LearnedScheduler(str(trained)), LearnedScheduler(str(trained), untrained=True)]
    results = evaluate(scenario, players, HELD_OUT, progress=False)
    jct = np.array([result.metrics["mean_jct_s"] for result in results]).reshape(2, -1)
    assert paired_ratio(jct[0], jct[1]).high < 1.0


def test_an_agent_plays_the_same_schedule_again_and_in_other_processes(trained: Path) -> None:
    scenario = get_scenario(str(trained.with_name("scenario.json")))
    agent = f"learned:path={trained}"
    alone = evaluate(scenario, [agent], HELD_OUT[:2], workers=1, progress=False)
    apart = evaluate(scenario, [agent], HELD_OUT[:2], workers=2, progress=False)
    assert [result.digest for result in alone] == [result.digest for result in apart]
    assert alone[0].scheduler.clairvoyant


def test_files_that_training_writes(trained: Path) -> None:
    written = {path.name for path in trained.parent.iterdir()}
    assert written == {"model.zip", "config.json", "learning.csv", "scenario.json"}
    record = json.loads(trained.with_name("config.json").read_text(encoding="utf-8"))
    assert record["scenario_fingerprint"] == get_scenario(str(trained.with_name("scenario.json"))).fingerprint()
    rows = trained.with_name("learning.csv").read_text(encoding="utf-8").splitlines()
    assert rows[0] == "steps,validation_mean_jct_s,kept"
    assert rows[1].endswith(",1")


def test_a_damaged_model_is_a_clear_error(trained: Path, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_bytes(trained.with_name("config.json").read_bytes())
    (tmp_path / "model.zip").write_bytes(trained.read_bytes()[:2000])
    with pytest.raises(SchedulerError, match=r"model\.zip: cannot be loaded .* train it again"):
        evaluate("tiny-v1", [make_scheduler(f"learned:path={tmp_path / 'model.zip'}")], [0], progress=False)


def test_an_agent_trained_with_links_plays_only_where_there_are_links(tmp_path: Path) -> None:
    """The number of links does not matter."""
    save_scenario(linked_scenario(jobs=20), tmp_path / "scenario.json")
    config = TrainingConfig(
        scenario=str(tmp_path / "scenario.json"), steps=128, environments=2, rollout=32, batch=32, epochs=1,
        running_window=2, validations=1, validation_seeds=1,
    )  # fmt: skip
    agent = LearnedScheduler(str(train(config, tmp_path)))
    instance = linked_scenario(jobs=20).instance(200_000)
    assert simulate(instance, agent).digest() == simulate(instance, agent).digest()
    larger = linked_scenario(jobs=20).replace(groups=(NodeGroup(8, 4, nodes_per_rack=2),))
    assert len(larger.instance(200_000).links) > len(instance.links)
    log = simulate(larger.instance(200_000), agent)
    assert (log.events["kind"] == COMPLETE).sum() == len(larger.instance(200_000).workload)
    with pytest.raises(SchedulerError, match="trained on a network that is a topology, but this one is priced by tier"):
        simulate(get_scenario("tiny-v1").instance(0), agent)


@pytest.mark.parametrize("field", ["steps", "environments", "rollout", "validations"])
def test_impossible_settings_are_refused(field: str) -> None:
    with pytest.raises(GpuschedError, match=f"{field} is 0"):
        TrainingConfig(**{field: 0})


def small(folder: Path, **changes: int) -> TrainingConfig:
    """A configuration of 256 training steps with a validation after every 64."""
    save_scenario(get_scenario("tiny-v1"), folder / "scenario.json")
    return TrainingConfig(
        scenario=str(folder / "scenario.json"), steps=256, environments=2, rollout=32, batch=32, epochs=1,
        validations=4, validation_seeds=1, **changes,
    )  # fmt: skip


def test_an_interrupt_keeps_the_best_checkpoint_and_says_where(tmp_path: Path) -> None:
    said: list[str] = []

    def stop(done: int, total: int, text: str) -> None:
        said.append(text)
        if len([one for one in said if one.startswith("validation")]) == 2:
            raise KeyboardInterrupt

    model = tmp_path / "run" / "model.zip"
    with pytest.raises(KeyboardInterrupt, match=r"run/model\.zip is the best checkpoint so far, of step \d+"):
        train(small(tmp_path), model.parent, stop)
    assert {path.name for path in model.parent.iterdir()} == {"model.zip", "config.json", "learning.csv"}
    assert len(model.with_name("learning.csv").read_text().splitlines()) > 1
    simulate(get_scenario("tiny-v1").instance(0), LearnedScheduler(str(model)))


def test_an_interrupt_before_the_first_checkpoint_keeps_the_old_model(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    train(small(tmp_path), folder)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}

    def stop(done: int, total: int, text: str) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt, match=r"no checkpoint was validated yet, .* due at step 64"):
        train(small(tmp_path, seed=1), folder, stop)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_train_py_ends_in_one_line_at_an_interrupt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: object) -> Path:
        raise KeyboardInterrupt("model.zip is the best checkpoint so far")

    monkeypatch.setattr("gpusched_env.agents.training.train", interrupted)
    monkeypatch.setattr(sys, "argv", ["train.py", "--scenario", "tiny-v1", "--output", str(tmp_path)])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(Path(gpusched_env.__file__).parents[1] / "train.py"), run_name="__main__")
    assert ended.value.code == 130
    assert capsys.readouterr().err == "train.py: interrupted: model.zip is the best checkpoint so far\n"


def test_the_written_table_has_no_trailing_blanks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpusched_env.agents.evaluation.list_baselines", lambda *_, **__: ["fifo", "srtf"])
    model = train(small(tmp_path), tmp_path)
    evaluate_agent(model, get_scenario("tiny-v1"), tmp_path, 2, 1, console(io.StringIO()))
    lines = (tmp_path / "table.txt").read_text(encoding="utf-8").splitlines()
    assert any("learned" in line for line in lines)
    assert [line for line in lines if line != line.rstrip()] == []
