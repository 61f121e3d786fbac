"""The training recipe learns, saves what it learned, and the agent plays alike wherever it plays."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from helpers import linked_scenario

from gpusched_env.agents.learned import LearnedScheduler
from gpusched_env.agents.training import TrainingConfig, train
from gpusched_env.baselines import make_scheduler
from gpusched_env.cluster import NodeGroup
from gpusched_env.errors import GpuschedError, SchedulerError
from gpusched_env.evaluation import evaluate
from gpusched_env.metrics import paired_ratio
from gpusched_env.scenarios import get_scenario, save_scenario
from gpusched_env.simulator import Scheduler, simulate

HELD_OUT = range(200_010, 200_018)  # report seeds: neither trained nor validated on


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
    """Otherwise the windows, not the learning, would explain the result."""
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


def test_what_training_leaves_behind(trained: Path) -> None:
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


def test_an_agent_learns_where_there_are_links_and_plays_where_it_may(tmp_path: Path) -> None:
    """It does not depend on the number of links, but on whether there are links."""
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
    simulate(larger.instance(200_000), agent)
    with pytest.raises(SchedulerError, match="learned where the network is a topology, but this one is priced by tier"):
        simulate(get_scenario("tiny-v1").instance(0), agent)


@pytest.mark.parametrize("field", ["steps", "environments", "rollout", "validations"])
def test_a_setting_that_cannot_work_is_refused(field: str) -> None:
    with pytest.raises(GpuschedError, match=f"{field} is 0"):
        TrainingConfig(**{field: 0})
