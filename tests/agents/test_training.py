"""Training: the agent learns, its files are complete, and it plays the same schedule everywhere."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import json
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from helpers import linked_scenario
from rich.console import Console

import gpusched_env
from gpusched_env.agents.evaluation import default_baselines, evaluate_agents, evaluate_policy
from gpusched_env.agents.learned import LearnedScheduler
from gpusched_env.agents.network import TokenNetwork
from gpusched_env.agents.training import TrainingConfig, train
from gpusched_env.agents.validation import Validation
from gpusched_env.baselines import make_scheduler
from gpusched_env.envs.windows import Windows
from gpusched_env.errors import EntryError, GpuschedError, SchedulerError
from gpusched_env.evaluation import evaluate
from gpusched_env.event_log import COMPLETE, RESIZE
from gpusched_env.leaderboard.entry import About, Player
from gpusched_env.leaderboard.tracks import TrackProblem, get_track
from gpusched_env.leaderboard.verifying import check_player
from gpusched_env.metrics import paired_ratio, tenant_summary, validate
from gpusched_env.problem.cluster import NodeGroup
from gpusched_env.scenarios import Scenario, get_scenario, save_scenario
from gpusched_env.simulator import simulate
from gpusched_env.support.consoles import console

HELD_OUT = range(200_010, 200_026)  # report seeds: used neither for training nor for validation


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Train on the default scenario for a tenth as long as ``train.py`` does."""
    folder = tmp_path_factory.mktemp("trained")
    save_scenario(get_scenario("philly-64-v1"), folder / "scenario.json")
    config = TrainingConfig(
        scenario=str(folder / "scenario.json"), steps=300_000, workloads=4, validations=1, validation_seeds=2
    )
    said: list[str] = []
    model = train(config, folder, lambda done, total, text: said.append(text))
    assert said[-1].startswith("validation mean JCT")
    return model


def test_the_agent_clearly_beats_random_choice_on_held_out_seeds(trained: Path) -> None:
    scenario = get_scenario(str(trained.with_name("scenario.json")))
    results = evaluate_policy(trained, scenario, HELD_OUT) + evaluate(scenario, ["random"], HELD_OUT, progress=False)
    jct = np.array([result.metrics["mean_jct_s"] for result in results]).reshape(2, -1)
    assert paired_ratio(jct[0], jct[1]).high < 0.9


@pytest.mark.parametrize("reference", ["untrained", "initial"])
def test_training_beats_its_own_windows_and_its_initial_network(trained: Path, reference: str) -> None:
    """The result is due to learning, not to the windows or the first weights."""
    scenario = get_scenario(str(trained.with_name("scenario.json")))
    other = LearnedScheduler(str(trained), **{reference: True})
    results = evaluate_policy(trained, scenario, HELD_OUT) + evaluate_policy(other, scenario, HELD_OUT)
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
    files = {"model.npz", "initial.npz", "config.json", "learning.csv", "updates.csv", "tensorboard", "scenario.json"}
    assert written == files
    record = json.loads(trained.with_name("config.json").read_text(encoding="utf-8"))
    assert record["scenario_fingerprint"] == get_scenario(str(trained.with_name("scenario.json"))).fingerprint()
    header, initial, kept = (line.split(",") for line in trained.with_name("learning.csv").read_text().splitlines())
    assert header == ["steps", "validation_mean_jct_s", "kept"]
    assert [initial[0], initial[2], kept[2]] == ["0", "0", "1"]


def test_the_initial_network_is_a_scheduler_with_other_weights(trained: Path) -> None:
    scenario = get_scenario(str(trained.with_name("scenario.json")))
    initial = make_scheduler(f"learned:path={trained},initial=true")
    assert isinstance(initial, LearnedScheduler)
    results = evaluate_policy(trained, scenario, HELD_OUT[:1]) + evaluate_policy(initial, scenario, HELD_OUT[:1])
    assert [result.scheduler.name for result in results] == ["learned", "initial"]
    assert results[0].digest != results[1].digest


def test_validation_records_the_metric_of_the_networks(trained: Path) -> None:
    scenario = get_scenario(str(trained.with_name("scenario.json")))
    first = scenario.seeds.validation[0]
    rows = trained.with_name("learning.csv").read_text().splitlines()[1:]
    for row, is_initial in zip(rows, (True, False), strict=True):
        results = evaluate_policy(LearnedScheduler(str(trained), initial=is_initial), scenario, (first, first + 1))
        mean = np.mean([result.metrics["mean_jct_s"] for result in results])
        assert float(row.split(",")[1]) == pytest.approx(mean, abs=1e-3)


def test_many_seeds_at_once_give_the_results_of_one_run_after_another(trained: Path) -> None:
    scenario = get_scenario(str(trained.with_name("scenario.json")))
    for agent in (LearnedScheduler(str(trained), seed=5), LearnedScheduler(str(trained), greedy=True)):
        alone = evaluate(scenario, [agent], HELD_OUT[:2], window=(50, 100), keep_logs=True, progress=False)
        batch = evaluate_policy(agent, scenario, HELD_OUT[:2], window=(50, 100), keep_logs=True)
        assert batch == alone
        assert [one.log.digest() for one in batch if one.log is not None] == [one.digest for one in alone]
    with pytest.raises(GpuschedError, match="at least one seed"):
        evaluate_policy(agent, scenario, [])


def test_a_damaged_model_is_a_clear_error(trained: Path, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_bytes(trained.with_name("config.json").read_bytes())
    (tmp_path / "model.npz").write_bytes(trained.read_bytes()[:2000])
    with pytest.raises(SchedulerError, match=r"model\.npz: not an agent .* train one again"):
        evaluate("tiny-v1", [make_scheduler(f"learned:path={tmp_path / 'model.npz'}")], [0], progress=False)


def test_an_agent_trained_with_links_plays_only_where_there_are_links(tmp_path: Path) -> None:
    """The number of links does not matter."""
    save_scenario(linked_scenario(jobs=20), tmp_path / "scenario.json")
    config = TrainingConfig(
        scenario=str(tmp_path / "scenario.json"), steps=128, workloads=1, copies=2, batch=32, epochs=1,
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


@pytest.mark.parametrize("field", ["steps", "workloads", "copies", "validations", "horizon"])
def test_impossible_settings_are_refused(field: str) -> None:
    with pytest.raises(GpuschedError, match=f"{field} is 0"):
        TrainingConfig(**{field: 0})


def small(folder: Path, **changes: Any) -> TrainingConfig:
    """A configuration of 256 training steps with a validation after every 64."""
    save_scenario(get_scenario("tiny-v1"), folder / "scenario.json")
    return TrainingConfig(
        scenario=str(folder / "scenario.json"), steps=256, workloads=1, copies=2, batch=32, epochs=1,
        validations=4, validation_seeds=1, **changes,
    )  # fmt: skip


def test_an_elastic_agent_trains_and_plays_resizes(tmp_path: Path) -> None:
    """The settings of docs/elastic.md, but for less time."""
    config = TrainingConfig(
        scenario="pollux-64-v0:jobs=10,load=2", teacher="max-min", teacher_episodes=1, steps=256, learning_rate=1e-3,
        horizon=1.0, epochs=2, queue_window=8, running_window=24, rules=("pack",), sizes=(1, 2, 4, 8, 16), workloads=1,
        copies=2, validations=1, validation_seeds=1,
    )  # fmt: skip
    agent = LearnedScheduler(str(train(config, tmp_path)))
    instance = get_scenario(config.scenario).instance(HELD_OUT[0])
    log = simulate(instance, agent)
    validate(instance, log)
    assert (log.events["kind"] == RESIZE).any()


def test_a_network_of_tokens_learns_among_tenants_and_keeps_their_limits_in_the_environment_and_as_a_scheduler(
    tmp_path: Path,
) -> None:
    """Each tenant may hold 32 of 256 GPUs; without the mask, the agent exceeds this."""
    scenario = get_scenario("cohort-256-v0:jobs=60,load=3")
    assert scenario.tenants is not None
    tree = tuple(dataclasses.replace(one, most=32) for one in scenario.tenants.tree)
    tight = scenario.replace(tenants=dataclasses.replace(scenario.tenants, tree=tree))
    save_scenario(tight, tmp_path / "scenario.json")
    shown = {name: value for name, value in gym.spec("gpusched/Tenants-v0").kwargs.items() if name != "scenario"}
    config = TrainingConfig(
        scenario=str(tmp_path / "scenario.json"), steps=1_000, workloads=1, copies=2, validations=1,
        validation_seeds=1, **shown,
    )  # fmt: skip
    model = train(config, tmp_path)
    weights = [np.load(path)["tokens.around.tenants.weight"] for path in (model, model.with_name("initial.npz"))]
    assert (weights[0] != weights[1]).any()
    agent, generator = LearnedScheduler(str(model)), np.random.default_rng(0)
    instance = tight.instance(HELD_OUT[0])
    log = simulate(instance, agent)
    env = gym.make("gpusched/Tenants-v0", scenario=tight).unwrapped
    observation, info = env.reset(seed=HELD_OUT[0])
    over = False
    while not over:
        batch = {name: array[None] for name, array in observation.items()}
        [action] = agent.choose(batch, info["action_mask"][None].astype(bool), [generator])
        observation, _, terminated, truncated, info = env.step(action)
        over = terminated or truncated
    assert env.event_log().digest() == log.digest()
    [result] = evaluate_policy(model, tight, HELD_OUT[:1])
    assert result.digest == log.digest()
    assert tenant_summary(instance, log)["tenant_violation"] == 0.0
    agent.windows = dataclasses.replace(agent.windows, limits=False)
    assert tenant_summary(instance, simulate(instance, agent))["tenant_violation"] > 0.0


WINDOWS: dict[str, Any] = dict(
    queue_window=3, running_window=2, rules=("spread", "pack"), delays_s=(60.0,), queue_order="arrival",
    running_order="start", clairvoyant=False, migration=True, lease_s=600.0, least_run_s=90.0,
    partner_window=3, sub_batches=2, pair_benefit=False, extras=(), sizes=(1, 2), tenant_window=3, limits=True,
    more_actions=(),
    predictor="quantile",
)  # fmt: skip


@pytest.mark.parametrize("name", [field.name for field in dataclasses.fields(Windows)])
def test_every_field_of_windows_is_a_setting_that_is_saved(name: str, tmp_path: Path) -> None:
    orders = {name: WINDOWS[name] for name in ("queue_order", "running_order")}  # the default ones need run times
    needed = {"tenant_window": WINDOWS["tenant_window"]} if name == "limits" else {}
    config = TrainingConfig(**orders | needed | {name: WINDOWS[name]})
    (tmp_path / "config.json").write_text(json.dumps({"training": dataclasses.asdict(config)}))
    windows = LearnedScheduler(str(tmp_path / "model.npz")).windows
    assert getattr(windows, name) == WINDOWS[name]
    assert windows == config.windows


@pytest.mark.parametrize("name", ["queue_order", "running_order"])
def test_orders_by_run_time_are_refused_without_run_times(name: str) -> None:
    others = {"queue_order": "arrival", "running_order": "start"} | {name: "shortest"}
    with pytest.raises(GpuschedError, match=f"{name}='shortest' needs run times.* choose 'arrival'.*'least-attained'"):
        TrainingConfig(clairvoyant=False, **others)


def test_an_agent_that_reads_no_run_times_may_take_part_in_every_track(tmp_path: Path) -> None:
    track = get_track("philly-log-v0")
    assert isinstance(track.scenario, Scenario)
    problem = TrackProblem(track, track.scenario)
    blind = small(tmp_path, clairvoyant=False, queue_order="arrival", running_order="start")
    for config, refused in ((blind, False), (small(tmp_path), True)):
        agent = LearnedScheduler(str(train(config, tmp_path)))
        simulate(get_scenario("tiny-v1").instance(0), agent)
        player = Player(f"learned:path={agent.path}", agent.name, {}, agent.clairvoyant)
        with pytest.raises(EntryError, match="true run times") if refused else contextlib.nullcontext():
            check_player(player, About("An agent", ("A.",), "PPO", "a laptop", (), "", "CC-BY-4.0"), problem)


@pytest.mark.parametrize(
    ("reward", "metric"),
    [("jct", "mean_jct_s"), ("slowdown", "mean_slowdown"), ("makespan", "makespan_s"), ("fairness", "rho_mean")],
)
def test_checkpoints_are_chosen_by_the_metric_that_is_trained(reward: str, metric: str, tmp_path: Path) -> None:
    model = train(small(tmp_path, reward=reward), tmp_path)
    header, *rows = (line.split(",") for line in model.with_name("learning.csv").read_text().splitlines())
    assert header == ["steps", f"validation_{metric}", "kept"]
    best = min(float(row[1]) for row in rows[1:])
    assert best == min(float(row[1]) for row in rows if row[2] == "1")
    scenario = get_scenario("tiny-v1")
    [result] = evaluate_policy(model, scenario, [scenario.seeds.validation[0]])
    assert result.metrics[metric] == pytest.approx(best, abs=1e-3)


def test_a_model_is_kept_although_no_run_finishes(tmp_path: Path) -> None:
    """Its makespan is undefined; the runs end at the time limit, in the batch as well."""
    config = small(tmp_path, reward="makespan")
    whole = get_scenario("tiny-v1")
    scenario = whole.replace(semantics=dataclasses.replace(whole.semantics, time_limit_s=600.0))
    save_scenario(scenario, Path(config.scenario))
    model = train(config, tmp_path)
    rows = model.with_name("learning.csv").read_text().splitlines()[1:]
    assert [row.split(",")[1:] for row in rows] == [["inf", "0"], ["inf", "1"]] + [["inf", "0"]] * (len(rows) - 2)
    [result] = evaluate_policy(model, scenario, [200_000])
    assert result.metrics["finished"] < result.metrics["jobs"]
    assert result.digest == evaluate(scenario, [LearnedScheduler(str(model))], [200_000], progress=False)[0].digest


def test_validating_the_initial_network_does_not_change_the_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def trained_in(folder: Path) -> dict[str, torch.Tensor]:
        return TokenNetwork.load(train(small(tmp_path, seed=3), folder)).state_dict()

    scores = iter(range(100, 0, -1))  # falling, so that the last network is kept
    validation = "gpusched_env.agents.validation.Validation"
    score = Validation._score
    monkeypatch.setattr(f"{validation}._score", lambda *given: (score(*given), float(next(scores)))[1])
    saved = [trained_in(tmp_path / "with")]
    monkeypatch.setattr(f"{validation}._score", lambda *_: float(next(scores)))
    saved.append(trained_in(tmp_path / "without"))
    assert all(torch.equal(saved[0][name], saved[1][name]) for name in saved[0])


def test_baselines_that_plan_again_at_every_arrival_are_left_out() -> None:
    scenario = linked_scenario(jobs=20)
    instance = scenario.instance(0)
    suited, left_out = default_baselines(scenario, instance)
    assert left_out == ["sjf-bco"]
    assert "sjf-bco" not in suited
    assert {"fifo", "srtf", "ada-srsf"} <= set(suited)
    together = get_scenario("rar-160-v0")
    suited, left_out = default_baselines(together, together.instance(0))
    assert left_out == []
    assert "sjf-bco" in suited


def test_baselines_that_need_gangs_on_single_nodes_are_left_out_of_other_scenarios() -> None:
    for name, suits in (("hadare-lab-v0", True), ("family-v1", False)):
        scenario = get_scenario(name)
        suited, _ = default_baselines(scenario, scenario.instance(0))
        assert ("hadare" in suited) == suits
        assert "hadar" in suited


def test_unknown_baselines_are_refused_before_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("gpusched_env.agents.training.train", lambda *_: pytest.fail("trained"))
    monkeypatch.setattr(sys, "argv", ["train.py", "--schedulers", "fifo,nonsense", "--output", str(tmp_path)])
    with pytest.raises(SystemExit):
        runpy.run_path(str(Path(gpusched_env.__file__).parents[1] / "train.py"), run_name="__main__")
    assert "gpusched: unknown scheduler 'nonsense'" in capsys.readouterr().err


@pytest.mark.parametrize("folder", ["", "seed-3"])
def test_a_finished_training_is_not_overwritten_unasked(
    folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / folder).mkdir(exist_ok=True)
    model = tmp_path / folder / "model.npz"
    model.write_bytes(b"weeks of work")
    monkeypatch.setattr("gpusched_env.agents.training.train", lambda *_: pytest.fail("trained"))
    arguments = ["train.py", "--scenario", "tiny-v1", "--output", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", arguments)
    with pytest.raises(SystemExit):
        runpy.run_path(str(Path(gpusched_env.__file__).parents[1] / "train.py"), run_name="__main__")
    assert f"would be overwritten: {model}. Give --overwrite" in capsys.readouterr().err
    monkeypatch.setattr(sys, "argv", [*arguments, "--overwrite"])
    with pytest.raises(pytest.fail.Exception, match="trained"):
        runpy.run_path(str(Path(gpusched_env.__file__).parents[1] / "train.py"), run_name="__main__")
    assert model.read_bytes() == b"weeks of work"


def test_an_interrupt_keeps_the_best_checkpoint_and_says_where(tmp_path: Path) -> None:
    said: list[str] = []

    def stop(done: int, total: int, text: str) -> None:
        said.append(text)
        if len([one for one in said if one.startswith("validation")]) == 2:
            raise KeyboardInterrupt

    model = tmp_path / "run" / "model.npz"
    with pytest.raises(KeyboardInterrupt, match=r"run/model\.npz is the best checkpoint so far, of step \d+.*--resume"):
        train(small(tmp_path), model.parent, stop)
    files = {"model.npz", "initial.npz", "config.json", "learning.csv", "updates.csv", "tensorboard", "state.pt"}
    assert {path.name for path in model.parent.iterdir()} == files
    assert len(model.with_name("learning.csv").read_text().splitlines()) > 1
    simulate(get_scenario("tiny-v1").instance(0), LearnedScheduler(str(model)))


def test_an_interrupt_before_the_first_checkpoint_keeps_the_old_model(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    train(small(tmp_path), folder)
    before = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}

    def stop(done: int, total: int, text: str) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt, match=r"no checkpoint was validated yet, .* due at step 64"):
        train(small(tmp_path, seed=1), folder, stop)
    assert {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()} == before


def test_train_py_ends_in_one_line_at_an_interrupt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: object) -> Path:
        raise KeyboardInterrupt("model.npz is the best checkpoint so far")

    monkeypatch.setattr("gpusched_env.agents.training.train", interrupted)
    monkeypatch.setattr(sys, "argv", ["train.py", "--scenario", "tiny-v1", "--output", str(tmp_path)])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(Path(gpusched_env.__file__).parents[1] / "train.py"), run_name="__main__")
    assert ended.value.code == 130
    assert capsys.readouterr().err == "gpusched: interrupted: model.npz is the best checkpoint so far\n"


def test_the_comparison_has_the_references_and_the_chosen_baselines(tmp_path: Path) -> None:
    model = train(small(tmp_path), tmp_path)
    text = io.StringIO()
    results = evaluate_agents(
        [model], get_scenario("tiny-v1"), tmp_path, 2, 1, console(text), ["fifo", "tiresias:knob=4"]
    )
    names = [result.label for result in results[::2]]
    assert names == ["trained", "initial", "untrained", "random", "fifo", "tiresias:knob=4"]
    lines = (tmp_path / "table.txt").read_text(encoding="utf-8").splitlines()
    assert all(any(name in line for line in lines) for name in names)
    assert [line for line in lines if line != line.rstrip()] == []
    bound = paired_ratio(*([run.against_bound() for run in results[:2]], [1.0, 1.0]))
    assert [line.split()[2] for line in lines if "lower bound" in line][-1] == f"{bound.mean:.3f}"


def test_a_training_without_matplotlib_ends_with_its_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = train(small(tmp_path), tmp_path)
    text = io.StringIO()
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    evaluate_agents([model], get_scenario("tiny-v1"), tmp_path, 1, 1, console(text), ["fifo"])
    assert "no figures: pip install 'gpusched-env[plot]'" in text.getvalue()
    assert (tmp_path / "table.txt").is_file()
    assert not (tmp_path / "comparison.png").exists()


def test_the_ratios_are_those_of_the_metric_that_was_trained(tmp_path: Path) -> None:
    model = train(small(tmp_path), tmp_path)
    text = io.StringIO()
    results = evaluate_agents(
        [model], get_scenario("tiny-v1"), tmp_path, 2, 1, console(text), ["fifo"], metric="makespan_s"
    )
    own, fifo = ([one.metrics["makespan_s"] for one in results[first : first + 2]] for first in (0, -2 + len(results)))
    *_, line = (tmp_path / "table.txt").read_text(encoding="utf-8").splitlines()
    assert line.split()[:2] == ["fifo", f"{paired_ratio(own, fifo).mean:.3f}"]
    assert "makespan of trained / that of the others" in text.getvalue()


def test_an_agent_that_was_validated_greedily_is_played_greedily(tmp_path: Path) -> None:
    drawn = LearnedScheduler(str(train(small(tmp_path), tmp_path / "drawn")))
    model = train(dataclasses.replace(small(tmp_path), greedy=True), tmp_path / "greedy")
    greedy = LearnedScheduler(str(model))
    assert (drawn.greedy, greedy.greedy, greedy.reference("initial").greedy) == (False, True, True)
    seeds = get_scenario("tiny-v1").seeds.report[:1]
    one, other = (evaluate_policy(player, "tiny-v1", seeds) for player in (greedy, dataclasses.replace(greedy, seed=7)))
    assert one[0].digest == other[0].digest  # nothing is drawn


def test_an_impossible_number_of_report_seeds_is_refused_before_the_training(tmp_path: Path) -> None:
    script = [sys.executable, str(Path(__file__).parents[2] / "train.py"), "--scenario", "tiny-v1", "--steps", "64"]
    run = subprocess.run(
        [*script, "--report-seeds", "1000", "--output", str(tmp_path / "out")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 2
    assert "report_seeds is 1000: scenario tiny-v1 has 20 of them" in run.stderr
    assert not (tmp_path / "out").exists()


def test_an_agent_is_compared_with_an_older_one(tmp_path: Path) -> None:
    scenario = get_scenario("tiny-v1")
    older, newer = (
        train(
            TrainingConfig(scenario="tiny-v1", steps=64, workloads=1, copies=2, batch=32, seed=seed),
            tmp_path / str(seed),
        )
        for seed in (0, 1)
    )
    console = Console(file=io.StringIO(), width=150)
    evaluate_agents([newer], scenario, tmp_path / "1", 2, 1, console, ["fifo", f"learned:path={older}"])
    table = (tmp_path / "1" / "table.txt").read_text(encoding="utf-8")
    assert table.count("trained") >= 3
    assert table.count("learned") == table.count("learned:path=") >= 2  # only the older one
    assert "/ that of the others" in table


def test_several_networks_are_compared_over_training_seeds(tmp_path: Path) -> None:
    """Each ratio is the geometric mean over the networks; its interval is over the networks."""
    scenario = get_scenario("tiny-v1")
    models = []
    for seed in range(3):
        config = dataclasses.replace(small(tmp_path), seed=seed)
        models.append(train(config, tmp_path / f"seed-{seed}"))
    text = io.StringIO()
    results = evaluate_agents(models, scenario, tmp_path, 2, 1, console(text), ["fifo"])
    jct = np.array([result.metrics["mean_jct_s"] for result in results]).reshape(-1, 2)
    assert len(jct) == 7  # three networks, initial, untrained, random, fifo
    ratios = [paired_ratio(jct[k], jct[6]).mean for k in range(3)]
    expected = paired_ratio(ratios, [1.0] * 3)
    [line] = [line for line in text.getvalue().splitlines() if line.strip().startswith("fifo ") and "[" in line]
    assert line.split()[1:] == [f"{expected.mean:.3f}", f"[{expected.low:.3f},", f"{expected.high:.3f}]"]
