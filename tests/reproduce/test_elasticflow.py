"""The card of ElasticFlow, and EDF as it compares with it: the runs of a reference after its simulator's source."""

from __future__ import annotations

import csv
import gzip
import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
from elasticflow_reference import Job, Simulator
from helpers import ink
from published import TRACES

from gpusched_env import Cluster, Instance, Network, Semantics, Workload, make_scheduler, simulate
from gpusched_env.errors import SchedulerError
from gpusched_env.event_log import REFUSE
from gpusched_env.metrics import job_times, summarise, validate
from gpusched_env.metrics.deadlines import SLACK_S
from gpusched_env.problem.cluster import NodeGroup
from gpusched_env.scenarios import FAMILIES
from gpusched_env.traces.downloads.public_files import find
from gpusched_env.traces.elastic import make_elastic
from studies.reproduce import load_card, play_card
from studies.reproduce.elasticflow import EDF, EDF_ADMISSION, NEAR, OWN, SETTINGS, Setting
from studies.reproduce.expressions import Missing

DATA = load_card("elasticflow").data["data"]
RIVALS, BESIDE_THEIRS = DATA["RIVALS"], DATA["BESIDE_THEIRS"]


def test_a_full_card_has_every_cell_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUSCHED_DATA", str(tmp_path))  # nothing was fetched
    runs = load_card("elasticflow").runs(quick=False)
    assert len({(tuple(run.labels.items()), run.seed) for run in runs}) == len(runs)
    assert len(runs) == 10 * 3 * (1 + len(RIVALS))
    file = tmp_path / "philly" / "elasticflow_103959.csv"
    file.parent.mkdir()
    file.write_text("job_id,submit_time,num_gpu,duration,ddl,model_name,batch_size\n0,0,1,60,90,bert,128\n")
    more = load_card("elasticflow").runs(quick=False)[len(runs) :]
    assert len(more) == 2 * 6 * len(RIVALS) + len(BESIDE_THEIRS)  # without Chronus on the list
    assert more[0].problem.instance(0).workload.deadline_s.tolist() == [90.0]


def test_ratios_are_those_of_the_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUSCHED_DATA", str(tmp_path))
    card = load_card("elasticflow")
    runs = [run for run in card.runs(quick=True) if run.labels["scheduler"] in (OWN, EDF, EDF_ADMISSION)]
    card.runs = lambda quick: runs  # type: ignore[method-assign]
    results = play_card(card, tmp_path / "out", quick=True, progress=False)[0]
    setting = results.known("setting")[0]
    own, rival = (results.values("deadlines_met", setting=setting, scheduler=name) for name in (OWN, EDF))
    place = card.scope(results, setting=setting)
    found = place.value("paired(of(setting, OWN), of(setting, EDF))")
    assert found.mean == pytest.approx(((own / rival).prod()) ** (1 / len(own)))
    with pytest.raises(Missing):
        place.value("of(setting, 'chronus')")
    assert {finding.setting for finding in card.findings(results)} == {setting}
    assert [path.name for path in card.draw(results, tmp_path)] == ["deadlines_met.png"]
    assert ink(tmp_path / "deadlines_met.png") > 0


def test_shares_stand_beside_those_of_the_authors_simulator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One job whose deadline EDF misses on its largest size, and which is met otherwise."""
    monkeypatch.setenv("GPUSCHED_DATA", str(tmp_path))
    file = tmp_path / "philly" / "elasticflow_103959.csv"
    file.parent.mkdir()
    row = "0,0,8,600,606,bert,64\n"  # 11.06 iterations/s on 8 GPUs, 10.99 on 16, 10.61 on 32
    file.write_text(f"job_id,submit_time,num_gpu,duration,ddl,model_name,batch_size\n{row}")
    card = load_card("elasticflow")
    runs = [run for run in card.runs(quick=True) if run.labels["setting"] in SETTINGS]
    card.runs = lambda quick: runs  # type: ignore[method-assign]
    results = play_card(card, tmp_path / "out", quick=True, progress=False)[0]
    [name] = results.known("setting")
    table = card.tables(results)[-1]
    assert list(table.columns[1].cells) == ["1.000", "0.000", "0.000", "1.000", "1.000", "", "1.00"]
    assert list(table.columns[2].cells)[:5] == ["0.933", "0.060", "0.507", "", ""]
    found = {finding.claim.rpartition(": ")[2]: finding.holds for finding in card.findings(results)}
    assert found == {OWN: False, EDF: False, EDF_ADMISSION: False}
    assert name == "150 jobs, 32 A100"


COLUMNS: Final = ("job_id", "submit_time", "num_gpu", "duration", "ddl", "model_name", "batch_size")
NAMES: Final = {False: EDF, True: EDF_ADMISSION}


def rates_of(gpu_type: str) -> dict[tuple[str, int], dict[int, float]]:
    """Return the iterations per second of every model and batch, by number of GPUs."""
    file = Path(__file__).parents[2] / "traces" / "profile_tables" / "elasticflow.json"
    found = {}
    for name, model in json.loads(file.read_text(encoding="utf-8"))["models"].items():
        if gpu_type in model["rates"]:
            kind, _, batch = name.removesuffix(")").partition(" (batch size ")
            found[kind, int(batch)] = {int(gpus): rate for gpus, (rate,) in model["rates"][gpu_type].items()}
    return found


def drawn(seed: int, gpu_type: str, count: int) -> list[dict[str, Any]]:
    """Draw a list: bursts, run times of seconds to hours, deadlines after half to 1.5 times the run time."""
    draw, now_s, rows = random.Random(seed), 1_000, []
    rates = rates_of(gpu_type)
    for number in range(count):
        model, batch = draw.choice(sorted(rates))
        gpus = draw.choice([size for size in rates[model, batch] if size <= 8])
        running_s = int(20 * 1_000 ** draw.random())
        due_s = now_s + int(draw.uniform(0.5, 1.5) * running_s)
        rows.append(dict(zip(COLUMNS, (number, now_s, gpus, running_s, due_s, model, batch), strict=True)))
        now_s += int(draw.expovariate(1 / 300)) if draw.random() < 0.7 else draw.randrange(3)
    return rows


def reference(rows: list[dict[str, Any]], gpu_type: str) -> list[Job]:
    rates = rates_of(gpu_type)
    jobs = []
    for row in rows:
        speed = rates[row["model_name"], int(row["batch_size"])]
        work = float(row["iteration"]) if "iteration" in row else int(row["duration"]) * speed[int(row["num_gpu"])]
        jobs.append(Job(int(row["submit_time"]), work, int(row["ddl"]), speed, int(row["batch_size"])))
    return jobs


def played(instance: Instance, admission: bool) -> np.ndarray:
    """Return which jobs meet their deadlines."""
    log = simulate(instance, make_scheduler(NAMES[admission]))
    validate(instance, log)
    return job_times(instance, log)["finish_s"] <= instance.workload.deadline_s + SLACK_S


def theirs(jobs: list[Job], gpus: int, admission: bool) -> np.ndarray:
    simulator = Simulator(jobs, gpus, admission)
    simulator.play()
    return np.array([job in simulator.met for job in sorted(jobs, key=lambda job: job.submit_s)])


@pytest.mark.parametrize("admission", [False, True])
@pytest.mark.parametrize(("gpu_type", "machines", "gpus"), [("T4", 4, 4), ("A100", 2, 8), ("T4", 16, 4)])
def test_the_same_jobs_meet_their_deadlines(
    tmp_path: Path, gpu_type: str, machines: int, gpus: int, admission: bool
) -> None:
    some = 0
    for seed in range(4):
        rows = drawn(seed, gpu_type, 60)
        file = tmp_path / f"{seed}.csv"
        with file.open("w", encoding="utf-8", newline="") as stream:
            writer = csv.DictWriter(stream, COLUMNS)
            writer.writeheader()
            writer.writerows(rows)
        setting = Setting("", len(rows), NodeGroup(machines, gpus, gpu_type), {})
        expected = theirs(reference(rows, gpu_type), machines * gpus, admission)
        assert played(setting.scenario(str(file)).instance(0), admission).tolist() == expected.tolist(), seed
        some += int(expected.sum())
    assert 0 < some < 4 * 60


def of_list(setting: Setting) -> Path:
    """Return the authors' list; skip the test if it is absent."""
    fetched = find(setting.log).file
    for file in (TRACES / f"{setting.log}.gz", TRACES / setting.log, fetched):
        if file.is_file():
            return file
    pytest.skip(f"{setting.log} is neither in ../shared/traces nor in {fetched.parent} (gpusched traces fetch)")


@pytest.mark.parametrize("name", list(SETTINGS))
@pytest.mark.parametrize("admission", [False, True])
def test_the_authors_lists(name: str, admission: bool) -> None:
    setting = SETTINGS[name]
    log = of_list(setting)
    text = gzip.decompress(log.read_bytes()) if log.suffix == ".gz" else log.read_bytes()
    rows = list(csv.DictReader(text.decode().splitlines()))[: setting.jobs]
    instance = setting.scenario(str(log)).instance(0)
    expected = theirs(reference(rows, setting.group.gpu_type), instance.cluster.gpus, admission)
    assert expected.mean() == pytest.approx(setting.theirs[NAMES[admission]], abs=0.01)
    ours = played(instance, admission)
    # the lists give the work exactly, and the run times, which we read, in whole seconds
    assert (ours != expected).sum() <= 1
    assert ours.mean() == pytest.approx(setting.theirs[NAMES[admission]], abs=NEAR)


@pytest.mark.skipif(not TRACES.is_dir(), reason="published traces are not here: ../shared/traces is absent")
def test_elasticflow_on_the_authors_list() -> None:
    setting = SETTINGS["150 jobs, 32 A100"]
    instance = setting.scenario(str(of_list(setting))).instance(0)
    met = summarise(instance, simulate(instance, make_scheduler("elasticflow")))["deadlines_met"]
    assert met == pytest.approx(setting.theirs["elasticflow"], abs=NEAR)


def example(arrival_s: list[float], deadline_s: list[float]) -> Instance:
    """Return jobs that take 100 s on one GPU and 75 s on two, which are 4/3 times as fast, and 100 s on four GPUs."""
    speeds = {1: 1.0, 2: 4 / 3, 4: 1.0}
    told = {"deadline_s": np.array(deadline_s)}
    jobs = Workload.from_columns(arrival_s, [1] * len(arrival_s), duration_s=[100.0] * len(arrival_s), attributes=told)
    free = Semantics(checkpoint_s=0.0, restore_s=0.0)
    return Instance(Cluster.parse("1x4"), make_elastic(jobs, speeds.__getitem__, 1, 4), Network(model="none"), free)


def test_a_job_gets_its_largest_size_even_if_that_is_slower() -> None:
    instance = example([0.0], [80.0])
    for spec, end_s in (("edf", 75.0), ("edf:sizes=largest", 100.0)):
        assert job_times(instance, simulate(instance, make_scheduler(spec)))["finish_s"] == pytest.approx([end_s])


def test_a_slot_begins_with_a_decision() -> None:
    # job 1 has the earlier deadline: it takes the GPUs 60 s after the last decision, at 30.5, which was put off to 31
    instance = example([30.5, 40.0], [1_000.0, 200.0])
    finish_s = job_times(instance, simulate(instance, make_scheduler("edf:sizes=largest")))["finish_s"]
    assert finish_s == pytest.approx([31.0 + 60.0 + 100.0 + 40.0, 91.0 + 100.0])


def test_arrivals_are_tested_one_by_one() -> None:
    instance = example([0.0, 0.0, 0.0], [100.0, 219.0, 220.0])  # the second would end at 120 + 100, the end of a slot
    for spec, refused in (("edf-admission:sizes=largest", [1]), ("edf-admission:sizes=largest,slot_s=0", [2])):
        log = simulate(instance, make_scheduler(spec))
        validate(instance, log)
        assert log.events["job"][log.events["kind"] == REFUSE].tolist() == refused
        assert summarise(instance, log)["deadlines_met"] == pytest.approx(2 / 3)


def test_rounds_of_any_length_begin_slots() -> None:
    """A round need not begin at a whole second: jobs wait for at most some rounds, not for one that does."""
    scenario = FAMILIES["elasticflow-v0"].plain(jobs=20, overhead_s=0.0)
    mean_wait_s = {}
    for round_s in (33.0, 33.337):
        semantics = replace(scenario.semantics, round_s=round_s)
        instance = replace(scenario, semantics=semantics).instance(0)
        log = simulate(instance, make_scheduler("edf:sizes=largest"))
        mean_wait_s[round_s] = summarise(instance, log)["mean_queueing_s"]
    assert mean_wait_s[33.337] == pytest.approx(mean_wait_s[33.0], abs=10 * 33.337)


def test_an_unknown_rule_is_refused() -> None:
    with pytest.raises(SchedulerError, match="sizes"):
        make_scheduler("edf-admission:sizes=biggest")
