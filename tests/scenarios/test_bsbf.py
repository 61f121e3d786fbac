"""The scenarios of SJF-BSBF: jobs as described, rules of sharing in files and on the command line, real inputs."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import play
from published import TRACES, here

from gpusched_env.cli.changing import with_sharing
from gpusched_env.errors import GpuschedError, ScenarioError, WorkloadError
from gpusched_env.event_log import PREEMPT
from gpusched_env.scenarios import get_scenario, load_scenario, save_scenario, scenario_from_dict
from gpusched_env.sharing import LucidTable, Sharing, UserTable, model_of, synthetic
from gpusched_env.simulator import ClairvoyantView, ClusterView, Scheduler
from gpusched_env.traces import generate_workload
from gpusched_env.traces.profile_tables import load_fitted

SIM, PHYSICAL = "bsbf-sim-240-v1", "bsbf-physical-30-v1"


class ShareFirst(Scheduler):
    """Shortest job first; a job that does not fit on free GPUs shares the first GPUs with room."""

    name, clairvoyant = "share-first", True

    def decide(self, view: ClusterView) -> Any:
        assert isinstance(view, ClairvoyantView)
        order = view.waiting[np.argsort(view.remaining_s(view.waiting), kind="stable")]
        yield from view.shared_schedule(order, benefit=False)


def test_jobs_of_the_small_cluster() -> None:
    fits = load_fitted("bsbf").fits["T4"]
    models = set()
    for seed in range(200_000, 200_004):
        instance = get_scenario(PHYSICAL).instance(seed)
        jobs, profiles = instance.workload.jobs, instance.workload.profiles
        assert instance.cluster.gpus == 16
        assert np.isin(jobs["gpus"], (12, 16)).sum() == 10
        assert np.isin(jobs["gpus"], (1, 2, 4, 8)).sum() == 20
        assert ((jobs["iterations"] >= 100) & (jobs["iterations"] <= 5_000)).all()
        assert jobs["arrival_s"].min() == 0
        assert 600 < jobs["arrival_s"].max() <= 1_200
        for row, name in enumerate(profiles.rows["name"].tolist()):
            models.add(model_of(name))
            assert profiles.rows["batch"][row] == fits[model_of(name)].largest_batch // 2
        assert instance.sharing_tables is not None
        np.testing.assert_allclose(instance.sharing_tables.memory[:, 0], 0.625)
    assert models == set(fits)
    two_hours = get_scenario(f"{PHYSICAL}:span_s=7200").instance(200_000)
    assert 3_600 < two_hours.workload.jobs["arrival_s"].max() <= 7_200
    whole = get_scenario(f"{PHYSICAL}:batch=1").instance(200_000).sharing_tables
    assert whole is not None
    np.testing.assert_allclose(whole.memory[:, 0], 1.0)
    for parameters, message in (({"span_s": -1.0}, "span_s is -1"), ({"batch_share": 0.0}, "batch_share is 0")):
        with pytest.raises(WorkloadError, match=message):
            generate_workload("bsbf", 0, 3, **parameters)
    assert generate_workload("bsbf", 0, 30, 8).jobs["gpus"].max() == 8


@pytest.mark.parametrize("jobs", [80, 160, 240, 320])
def test_jobs_of_the_large_cluster(jobs: int) -> None:
    """Eight hours whatever the number of jobs; work is the application's, at the batch of the whole gang."""
    instance = get_scenario(f"{SIM}:jobs={jobs}").instance(200_000)
    workload, table = instance.workload, load_fitted("bsbf")
    assert instance.cluster.gpus == 64
    assert len(workload) == jobs
    assert 7 * 3600 < workload.jobs["arrival_s"].max() < 8 * 3600
    for model, batch, iterations in zip(
        workload.attributes["model"].tolist(),
        workload.attributes["batch_size"].tolist(),
        workload.jobs["iterations"].tolist(),
        strict=True,
    ):
        assert iterations == table.applications[model].iterations_at(batch)
    pollux = generate_workload("pollux", 200_000, jobs, relative_load=jobs / 160)
    for column in ("arrival_s", "gpus", "iterations"):  # the jobs of Pollux's generator
        np.testing.assert_array_equal(workload.jobs[column], pollux.jobs[column])


def test_parameters() -> None:
    scenario = get_scenario(f"{SIM}:xi=1.25,load=0.5,gangs=log")
    assert scenario.name == f"{SIM}:xi=1.25,load=0.5,gangs=log"
    assert scenario.sharing == Sharing(2, 1.25)
    slow, fast = (get_scenario(text).instance(0).workload.jobs for text in (scenario.name, SIM))
    assert slow["gpus"].mean() < fast["gpus"].mean() / 2
    assert slow["arrival_s"].max() == pytest.approx(24 * 3600, rel=0.05)  # 240 jobs at 80 in eight hours
    with pytest.raises(ScenarioError, match="leave out load and gangs"):
        get_scenario(f"{SIM}:workload=x.csv,gangs=log")
    assert get_scenario(f"{PHYSICAL}:limit=3,xi=2").sharing == Sharing(3, 2.0)
    assert get_scenario(f"{SIM}:limit=1").instance(0).gpu_jobs == 1
    for text in ("xi=0.9", "limit=0", "gangs=none", "jobs=0"):
        with pytest.raises(ScenarioError, match="give "):
            get_scenario(f"{SIM}:{text}")
    prints = {get_scenario(f"{SIM}:{text}").fingerprint() for text in ("xi=1.5", "xi=2", "limit=3")}
    assert len(prints) == 3


@pytest.mark.parametrize("scheduler", ["fifo", "tiresias", "share-first"])
def test_the_scenarios_play(scheduler: str) -> None:
    """The validator accepts the logs; only rivals preempt."""
    instance = get_scenario(PHYSICAL).instance(200_000)
    log = play(instance, ShareFirst() if scheduler == "share-first" else scheduler)
    preemptions = (log.events["kind"] == PREEMPT).sum()
    assert (preemptions > 0) == (scheduler == "tiresias")
    most = (log.events["sub_steps"] > 1).sum()
    assert (most > 0) == (scheduler == "share-first")  # at half of the largest batch two jobs fit only in parts


TOML = """
name = "mine"
description = "two jobs a GPU"
groups = [{ count = 1, gpus = 4, gpu_type = "T4" }]
[workload]
source = "synthetic:bsbf"
profiles = "own"
[sharing]
limit = 3
gpu_memory_GB = { T4 = 16 }
[sharing.interference]
source = "table"
path = "xi.csv"
missing = "default"
default_xi = 2
names = { imagenet = "resnet50" }
"""


def test_files_with_rules_of_sharing(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(TOML)
    mine = load_scenario(path)
    table = UserTable("xi.csv", "default", 2.0, {"imagenet": "resnet50"})
    assert mine.sharing == Sharing(3, table, {"T4": 16.0})
    others = (Sharing(), Sharing(2, synthetic(4)), Sharing(2, LucidTable("l.csv", "forbid", amp="no")), None)
    for sharing in (mine.sharing, *others):
        changed = mine.replace(sharing=sharing)
        save_scenario(changed, tmp_path / "again.json")
        assert load_scenario(tmp_path / "again.json") == changed
        assert ("sharing" in json.loads((tmp_path / "again.json").read_text())) == (sharing is not None)


@pytest.mark.parametrize(
    ("section", "message"),
    [
        (3, r"f.toml.sharing: 3 must be a table"),
        ({"limits": 2}, "did you mean 'limit'"),
        ({"limit": 0}, "sharing.limit is 0"),
        ({"limit": 2.5}, "limit is 2.5: it must be a whole number"),
        ({"interference": 0.5}, "xi must be a number of at least 1"),
        ({"interference": "high"}, "interference is 'high': give a number .* or a table with 'source'"),
        ({"interference": {"xi": 2}}, "unknown source of interference 'None'"),
        ({"interference": {"source": "tables"}}, "did you mean 'table'"),
        ({"interference": {"source": "table"}}, "'path' is missing"),
        ({"interference": {"source": "table", "path": "x", "missing": "no"}}, "missing: unknown rule 'no'"),
        ({"interference": {"source": "synthetic", "seed": "a"}}, "seed is 'a': it must be a whole number"),
        ({"gpu_memory_GB": {"T4": 0}}, "gpu_memory_GB of 'T4' is 0: give a number above 0"),
    ],
)
def test_sections_that_are_refused(section: object, message: str) -> None:
    data = get_scenario(PHYSICAL).as_dict() | {"sharing": section}
    with pytest.raises(ScenarioError, match=message) as refusal:
        scenario_from_dict(data, "f.toml")
    assert str(refusal.value).startswith("f.toml.sharing")


def test_the_option_sharing(tmp_path: Path) -> None:
    tiny, sim = get_scenario("tiny-v1"), get_scenario(SIM)
    assert with_sharing(tiny, None) is tiny
    assert with_sharing(tiny, "limit=3").sharing == Sharing(3)
    assert with_sharing(sim, "none").sharing is None
    found = with_sharing(sim, "xi=2")
    assert found.sharing == Sharing(2, 2.0)
    assert found.name == f"{SIM} + sharing xi=2"
    assert found.fingerprint() == get_scenario(f"{SIM}:xi=2").fingerprint()
    assert with_sharing(found, "limit=3").sharing == Sharing(3, 2.0)
    assert with_sharing(sim, "source=synthetic,seed=3").sharing == Sharing(2, synthetic(3))
    table = tmp_path / "xi.csv"
    found = with_sharing(sim, f"source=table,path={table},missing=forbid,gpu_memory_GB=15")
    assert found.sharing == Sharing(2, UserTable(str(table), "forbid"), {"T4": 15.0})
    with pytest.raises(ScenarioError, match=r"xi\.csv"):
        found.fingerprint()
    for text, message in (
        ("2", "'2' is not of the form field=value"),
        ("limit=2,limit=3", "limit is given twice"),
        ("limits=2", "did you mean"),
        ("xi=0", "xi must be a number of at least 1"),
        ("source=tabel", "did you mean 'table'"),
    ):
        with pytest.raises(GpuschedError, match=message):
            with_sharing(sim, text)


@here
def test_published_workloads_of_pollux() -> None:
    for path in sorted((TRACES / "pollux").glob("workloads*/workload-*.csv")):
        scenario = get_scenario(f"{SIM}:jobs=320,workload={path}")
        instance = scenario.instance(0)
        assert len(instance.workload) == len(path.read_text().splitlines()) - 1
        assert (instance.passes.max() > 1) == ("realistic" not in str(path))  # tuned batches do not all fit
        assert instance.sharing_tables is not None
        assert (instance.sharing_tables.memory[:, 0] <= 1.0).all()
    assert len(get_scenario(f"{SIM}:jobs=5,workload={path}").instance(0).workload) == 5


@here
def test_published_jobs_of_the_authors() -> None:
    """Their job list on 4 x 8 GPUs, memory by their constants, and slowdowns by the models of the list."""
    path = TRACES / "bsbf" / "trace_data_new.csv"
    scenario = get_scenario("tiny-v1").with_workload(f"bsbf:{path}", profiles="models")
    data = scenario.as_dict() | {"groups": [{"count": 4, "gpus": 8, "gpu_type": "A"}]}
    data["sharing"] = {
        "interference": {"source": "synthetic", "seed": 0},
        "gpu_memory_GB": {"A": 48.0},
        "model_memory_GB": {"gpt2": 10.532, "bert": 40.0},
    }
    instance = scenario_from_dict(data).instance(0)
    tables = instance.sharing_tables
    assert tables is not None
    names = instance.workload.profiles.rows["name"][instance.classes[:, 0]]
    assert len(instance.workload) == 30
    assert {"gpt2", "resnet18", "a2c"} <= set(names)
    assert tables.memory[names == "gpt2", 0, 0].max() == pytest.approx(10.532 / 48)
    same = names[:, None] == names
    a, b = np.argwhere(~same)[0]
    assert tables.interference[a, b, 0] == synthetic(0).xi(str(names[a]), str(names[b]))
    np.testing.assert_allclose(instance.ideal_s, instance.workload.jobs["duration_s"])
    play(instance, ShareFirst())


def test_unnamed_models_are_refused() -> None:
    scenario = get_scenario("tiny-v1")
    data = scenario.as_dict()
    data["workload"]["profiles"] = "models"
    with pytest.raises(WorkloadError, match="names no models"):
        scenario_from_dict(data).instance(0)
    assert math.isfinite(scenario.instance(0).ideal_s.sum())
