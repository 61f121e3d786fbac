"""Scenarios are data: they round-trip, name wrong fields, draw equal jobs everywhere, and have fingerprints."""

from __future__ import annotations

import concurrent.futures
import dataclasses
import json
import multiprocessing
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import check_refused_or_built
from hypothesis import given, settings
from hypothesis import strategies as st
from published import TRACES, here

from gpusched_env.errors import ScenarioError, TraceError, WorkloadError
from gpusched_env.network import Network
from gpusched_env.problem.cluster import Cluster, NodeGroup
from gpusched_env.problem.instance import Semantics
from gpusched_env.problem.workload import Profiles, Workload
from gpusched_env.scenarios import (
    SCENARIOS,
    Scenario,
    Seeds,
    WorkloadSpec,
    get_scenario,
    list_scenarios,
    load_scenario,
    save_scenario,
    scenario_from_dict,
)
from gpusched_env.scenarios.registry import RETIRED
from gpusched_env.scenarios.workload_spec import LATER_FIELDS
from gpusched_env.traces import offered_load

LOG = "timestamp,duration,num_gpus,gpu_time,cluster\n" + "".join(
    f"2017-10-09 00:{m:02d}:00,{60 + m},{g},0,a\n" for m, g in enumerate([1, 2, 4, 8, 16, 1])
)


@pytest.fixture
def log(tmp_path: Path) -> str:
    path = tmp_path / "log.csv"
    path.write_text(LOG)
    return f"philly:{path}"


@pytest.mark.parametrize("name", list_scenarios())
def test_registered_scenarios_play(name: str) -> None:
    scenario = get_scenario(name)
    instance = scenario.instance(scenario.seeds.report[0])
    assert len(instance.workload) == scenario.workload.jobs
    assert instance.fingerprint() == scenario.instance(scenario.seeds.report[0]).fingerprint()
    assert instance.fingerprint() != scenario.instance(scenario.seeds.report[0] + 1).fingerprint()
    if scenario.workload.load is not None:
        assert offered_load(instance.workload, scenario.cluster.gpus) == pytest.approx(scenario.workload.load)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda s: s.name)
def test_round_trips(scenario: Scenario, tmp_path: Path) -> None:
    save_scenario(scenario, tmp_path / "s.json")
    for again in (load_scenario(tmp_path / "s.json"), pickle.loads(pickle.dumps(scenario))):
        assert again == scenario
        assert again.fingerprint() == scenario.fingerprint()


def ranges(low: int, high: int) -> st.SearchStrategy[tuple[int, int]]:
    pair = st.tuples(st.integers(low, high), st.integers(low, high))
    return pair.filter(lambda p: p[0] != p[1]).map(lambda p: (min(p), max(p)))


scenarios = st.builds(
    Scenario,
    name=st.text(max_size=20),
    description=st.text(max_size=20),
    groups=st.lists(
        st.builds(
            NodeGroup,
            st.integers(1, 400),
            st.integers(1, 16),
            st.sampled_from(["V100", "K80"]),
            st.none() | st.integers(1, 50),
        ),
        min_size=1,
        max_size=3,
    ).map(tuple),
    workload=st.builds(
        WorkloadSpec,
        source=st.sampled_from(["synthetic:philly", "synthetic:helios-venus"]),
        parameters=st.sampled_from([{}, {"rate_scale": 2.0}, {"demand": {"1": 0.5, "2": 0.5}}]),
        profiles=st.sampled_from(["mix", "unit"]),
        jobs=st.none() | st.integers(1, 10_000),
        max_gpus=st.none() | st.integers(1, 64),
        load=st.none() | st.floats(0.01, 10),
    )
    | st.builds(
        WorkloadSpec,
        source=st.just("philly:log.csv"),
        where=st.lists(st.sampled_from(["user=ann", "status!=Killed", "virtual_cluster=a,b"])).map(tuple),
        sample=st.none() | st.floats(0.01, 0.99) | st.integers(2, 1_000).map(float),
        sample_seed=st.integers(0, 2**64),
        clip=st.booleans(),
        max_gpus=st.integers(1, 64),
    ),
    network=st.builds(Network, model=st.sampled_from(["none", "tiered-ring"])),
    semantics=st.builds(
        Semantics,
        checkpoint_s=st.floats(0, 1e6),
        time_limit_s=st.floats(1, 1e6) | st.just(float("inf")),
        queue=st.sampled_from(["strict", "skip"]),
    ),
    seeds=st.builds(Seeds, ranges(0, 9), ranges(10, 19), ranges(20, 29)),
)


@settings(max_examples=50)
@given(scenarios)
def test_any_scenario_round_trips_through_json(scenario: Scenario) -> None:
    again = scenario_from_dict(json.loads(json.dumps(scenario.as_dict())))
    assert again == scenario
    if scenario.workload.synthetic:
        assert again.fingerprint() == scenario.fingerprint()


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
paths = [(key,) for key in get_scenario("tiny-v1").as_dict()]
for outer in ("workload", "network", "semantics", "seeds"):
    paths += [(outer, inner) for inner in get_scenario("tiny-v1").as_dict()[outer]]
paths += [("workload", field) for field in LATER_FIELDS]


@settings(max_examples=300)
@given(st.sampled_from(paths), json_values)
def test_any_wrong_value_is_refused_or_builds_a_scenario(path: tuple[str, ...], value: object) -> None:
    data: dict[str, Any] = get_scenario("tiny-v1").as_dict()
    table = data if len(path) == 1 else data[path[0]]
    table[path[-1]] = value
    check_refused_or_built(data)


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        (("sematics",), {}, ["'sematics'", "did you mean 'semantics'"]),
        (("workload", "job"), 3, ["workload", "did you mean 'jobs'"]),
        (("workload", "jobs"), "3", ["workload.jobs", "whole number"]),
        (("workload", "jobs"), True, ["workload.jobs", "whole number"]),
        (("workload", "jobs"), 0, ["jobs", "at least 1"]),
        (("workload", "source"), "synthetic:phily", ["did you mean 'philly'"]),
        (("workload", "profiles"), "mixed", ["did you mean 'mix'"]),
        (("workload", "parameters"), {"rate": 1}, ["did you mean 'rate_per_s'"]),
        (("workload", "load"), -1, ["load"]),
        (("workload", "where"), "user=ann", ["workload.where", "list"]),
        (("workload", "where"), ["user"], ["'user'", "ATTRIBUTE=VALUE"]),
        (("workload", "where"), ["user=ann"], ["where applies to logs only"]),
        (("workload", "sample"), 1, ["sample is 1.0", "at least 2"]),
        (("workload", "sample"), 0.5, ["sample applies to logs only"]),
        (("workload", "sample_seed"), 0.5, ["workload.sample_seed", "whole number"]),
        (("workload", "clip"), True, ["give max_gpus"]),
        (("network", "model"), "ring", ["did you mean 'tiered-ring'"]),
        (("network", "bandwidth_GBps"), [1, 2], ["bandwidth_GBps", "list of 3"]),
        (("semantics", "queue"), "fifo", ["queue discipline"]),
        (("seeds", "train"), [0, 100_001], ["train", "validation", "disjoint"]),
        (("groups",), [], ["groups"]),
        (("groups",), [{"count": 0, "gpus": 8}], ["groups[0]", "count"]),
        (("groups",), [{"gpus": 8}], ["groups[0]", "'count'", "missing"]),
        (("tracked_window",), [5, 13], ["tracked_window"]),
        (("name",), 3, ["name", "text"]),
    ],
)
def test_messages_name_file_field_and_remedy(
    path: tuple[str, ...], value: object, words: list[str], tmp_path: Path
) -> None:
    data: dict[str, Any] = get_scenario("tiny-v1").as_dict()
    table = data if len(path) == 1 else data[path[0]]
    table[path[-1]] = value
    file = tmp_path / "s.json"
    file.write_text(json.dumps(data))
    with pytest.raises(ScenarioError) as caught:
        get_scenario(str(file))
    for word in [str(file), *words]:
        assert word in str(caught.value)


def test_toml_and_damaged_files(tmp_path: Path) -> None:
    file = tmp_path / "s.toml"
    file.write_text(
        'name = "mine"\ndescription = "d"\n[[groups]]\ncount = 2\ngpus = 4\n'
        '[workload]\nsource = "synthetic:batch"\njobs = 3\n[semantics]\nrestore_s = 1\ntime_limit_s = inf\n'
    )
    scenario = get_scenario(str(file))
    assert (scenario.cluster.gpus, len(scenario.instance(0).workload)) == (8, 3)
    assert scenario.semantics == Semantics(restore_s=1.0)
    for name, text in (("a.toml", "= 3"), ("a.json", "{"), ("b.json", "[]"), ("c.json", '{"name": 1}')):
        (tmp_path / name).write_text(text)
        with pytest.raises(ScenarioError, match=name):
            get_scenario(str(tmp_path / name))
    with pytest.raises(ScenarioError, match=r"absent\.json"):
        get_scenario(str(tmp_path / "absent.json"))


def test_unknown_name() -> None:
    with pytest.raises(ScenarioError, match="did you mean 'philly-64-v1'"):
        get_scenario("philly-64")


def test_seeds_are_disjoint() -> None:
    for wrong in ({"train": (0, 100_001)}, {"report": (5, 5)}, {"report": (-1, 5)}, {"report": (1.0, 5)}):
        with pytest.raises(ScenarioError, match="seeds"):
            Seeds(**wrong)  # type: ignore[arg-type]


def _fingerprint(seed: int) -> str:
    return get_scenario("philly-64-v1").instance(seed).fingerprint()


def test_draws_do_not_depend_on_process_or_order() -> None:
    here = [_fingerprint(seed) for seed in (3, 1, 2)]
    spawn = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(2, mp_context=spawn) as pool:
        there = list(pool.map(_fingerprint, (1, 2, 3)))
    assert there == [here[1], here[2], here[0]]


@pytest.mark.parametrize("seed", [-1, 1.5, "x", None, True])
def test_wrong_seeds(seed: object) -> None:
    with pytest.raises(ScenarioError, match="seed"):
        get_scenario("tiny-v1").instance(seed)  # type: ignore[arg-type]


def test_numpy_seeds_are_the_same_seeds() -> None:
    tiny = get_scenario("tiny-v1")
    assert tiny.instance(np.int64(4)).fingerprint() == tiny.instance(4).fingerprint()


def test_log_is_cut_counted_and_read_once(log: str, monkeypatch: pytest.MonkeyPatch) -> None:
    scenario = get_scenario("philly-64-v1").with_workload(log, max_gpus=8, jobs=3, start_s=60.0, stop_s=300.0)
    first = scenario.instance(1).workload
    assert first.jobs["gpus"].tolist() == [2, 4, 8]
    assert first.jobs["arrival_s"].tolist() == [0.0, 60.0, 120.0]
    report = scenario.trace_report
    assert report is not None
    assert report.rows == 6
    assert report.kept == 3
    assert sum(report.dropped.values()) == 3
    assert report.origin == "2017-10-09T00:01:00"  # of the first job that is played
    monkeypatch.setattr("gpusched_env.scenarios.workload_spec.read_trace", lambda source: pytest.fail("read again"))
    columns = ["id", "arrival_s", "gpus", "duration_s"]
    others = [scenario.instance(seed).workload for seed in range(10)]
    assert all(np.array_equal(other.jobs[columns], first.jobs[columns]) for other in others)
    assert len({other.fingerprint() for other in others}) > 1  # the models differ
    assert scenario.instance(1).workload.fingerprint() == first.fingerprint()


def test_jobs_dropped_by_conditions_and_samples_are_counted(log: str, tmp_path: Path) -> None:
    path = tmp_path / "two.csv"
    path.write_text(LOG + LOG.replace(",0,a", ",0,b").partition("\n")[2])
    spec = WorkloadSpec(f"philly:{path}", where=("virtual_cluster!=a",), max_gpus=4, sample=2, sample_seed=4, jobs=1)
    workload, report = spec.read()
    assert workload.attributes["virtual_cluster"].tolist() == ["b"]
    assert report.dropped == {
        "not virtual_cluster!=a (where)": 6,
        "more than 4 GPUs (max_gpus)": 2,
        "not in sample 4 of 2": 2,
        "after the first 1 jobs": 1,
    }
    assert report.kept == len(workload) == 1
    with pytest.raises(WorkloadError, match="did you mean 'virtual_cluster'"):
        WorkloadSpec(f"philly:{path}", where=("virtual=a",)).read()


def test_clipped_demands_keep_their_gpu_time(log: str) -> None:
    whole, _ = WorkloadSpec(log).read()
    spec = WorkloadSpec(log, max_gpus=4, clip=True)
    played, report = get_scenario("tiny-v1").with_workload(log, max_gpus=4, clip=True)._log or (None, None)
    assert played is not None
    assert report is not None
    assert report.notes == {"demand cut to 4 GPUs, run time lengthened to the same GPU time": 2}
    clipped = spec.draw(0, played, 64, ("V100",))
    assert clipped.jobs["gpus"].tolist() == [1, 2, 4, 4, 4, 1]
    work, clipped_work = ((w.jobs["gpus"] * w.jobs["duration_s"]).tolist() for w in (whole, clipped))
    assert work == clipped_work
    drawn = WorkloadSpec("synthetic:helios-venus", max_gpus=8, clip=True, jobs=2_000).draw(0, None, 64, ("V100",))
    assert (drawn.jobs["gpus"] == 8).mean() > 0.3  # 25 % in the log, and the 10 % that demand more


def test_poisson_and_batch_at_a_target_load() -> None:
    """Under ``load`` the rate cancels; jobs that all arrive at once have no load."""
    parameters = {"mean_duration_s": 100.0, "demand": {"1": 0.5, "4": 0.5}}
    slow, fast = (
        WorkloadSpec("synthetic:poisson", parameters | {"rate_per_s": rate}, jobs=500, load=0.7)
        .draw(1, None, 64, ("V100",))
        .jobs["arrival_s"]
        for rate in (0.01, 5.0)
    )
    assert slow == pytest.approx(fast, rel=1e-9)
    drawn = WorkloadSpec("synthetic:poisson", parameters, jobs=500, load=0.7).draw(1, None, 64, ("V100",))
    assert offered_load(drawn, 64) == pytest.approx(0.7, rel=1e-12)
    with pytest.raises(WorkloadError, match="all jobs arrive at once, so no load can be set; leave it out"):
        WorkloadSpec("synthetic:batch", parameters, load=0.7).draw(1, None, 64, ("V100",))


def test_with_workload_plays_a_log_whole_at_its_own_times(log: str) -> None:
    scenario = get_scenario("poisson-64-v1").with_workload(log)
    assert scenario.instance(0).workload.jobs["arrival_s"].tolist() == [0, 60, 120, 180, 240, 300]
    assert scenario.tracked_window is None
    assert scenario.workload.profiles == "unit"


def test_the_fingerprint_changes_with_fields_that_affect_results(log: str, tmp_path: Path) -> None:
    tiny = get_scenario("tiny-v1")
    assert tiny.replace(name="x", description="y").fingerprint() == tiny.fingerprint()
    changed = [
        tiny.replace(network=Network()),
        tiny.replace(semantics=Semantics()),
        tiny.replace(seeds=Seeds(report=(7 * 10**5, 8 * 10**5))),
        tiny.replace(tracked_window=(2, 9)),
        tiny.replace(workload=dataclasses.replace(tiny.workload, jobs=11)),
        tiny.with_cluster(Cluster.parse("2x8")),
        tiny.with_workload(log),
        tiny.with_workload(log, where=("virtual_cluster=a",)),
        tiny.with_workload(log, sample=0.5),
        tiny.with_workload(log, sample=0.5, sample_seed=1),
        tiny.with_workload(log, max_gpus=4),
        tiny.with_workload(log, max_gpus=4, clip=True),
    ]
    assert len({scenario.fingerprint() for scenario in [tiny, *changed]}) == len(changed) + 1
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "other.csv").write_text(LOG)
    same = tiny.with_workload(f"philly:{elsewhere / 'other.csv'}")
    assert same.fingerprint() == tiny.with_workload(log).fingerprint()
    (elsewhere / "other.csv").write_text(LOG.replace(",60,", ",61,"))
    assert same.fingerprint() != tiny.with_workload(log).fingerprint()


def test_registered_scenarios_keep_their_fingerprints() -> None:
    """Published results refer to fingerprints."""
    published = {
        "philly-64-v1": "413a97a26e68a7a27f33476442c57d62befb99f41fbcd20321f893c3f2ce1734",
        "philly-256-v1": "2334742c17bc152ab885ec17ff54b8699f6eaf5f23cd7e3e3932df3d1d062f59",
        "philly-full-v1": "d3b2231bb9fea39360ddef66af23a9d8814cb534a72f98119f6f6c3e8959761a",
        "helios-venus-v1": "999d83e1e533a9beb13e1540f5f8b2d33a9db192317ea3fa2b45e4638bc1e13f",
        "poisson-64-v1": "f91d255a1311333f05baaa3d0e6ba0fe15b97c6cc6b39cc7833f32fa023df3e9",
        "tiny-v1": "89a4b87b09bf46e1d24c0df5f9d02b2753561e3636b6993dc09f02b1abaa7ca8",
        "steady-64-v0": "0c6fb36dd7aebc28705a93654554b0126d101c0c4346591d74e385b5d8ab6cab",
        "steady-128-v0": "cee3c0288aa9e9577a752300df014a80a13d1f59f844ab91a85da2eae7bcf4d9",
        "rar-160-v0": "c84ad790dd497e3718e994799c97c9978098561425175b6f3e0973dc1f008f46",
        "leaf-spine-256-v1": "7ff060b6ee49262260665c915e56d9108fc7e5e5483129ddfb260b6cb5035b7c",
        "leaf-spine-2048-v1": "e664a0f28e7677c7610f53990136829979d68be6f5dc6f9c2f489159597c6712",
        "dally-batch-v1": "cff9948f4aaf46ded13beb3ecb1cc11674d0d71058489b20e251229d91191398",
        "dally-poisson-v1": "31677bafe20284e5fc77c250ada294fa6800ad9cf1a699a45fcdfef6ef4e7900",
        "dally-trace-v1": "6d102ffbedd6a152acc1dcae3a50b89a78406e0e1dd90ae44b70631be34958ad",
        "dally-drift-v1": "82a48960485e852eddcdfd9673af9efd7686e31283891e2fcab97eb42da0cc04",
    }
    assert {name: get_scenario(name).fingerprint() for name in published} == published


def test_impossible_combinations(log: str) -> None:
    tiny = get_scenario("tiny-v1")
    with pytest.raises(WorkloadError, match="enlarge the cluster"):
        tiny.with_workload(log).instance(0)
    with pytest.raises(TraceError, match="unknown parameter 'rate_scale'"):
        WorkloadSpec(log, {"rate_scale": 2.0})
    with pytest.raises(ScenarioError, match="logs only"):
        WorkloadSpec("synthetic:philly", start_s=5.0)
    with pytest.raises(ScenarioError, match="no field 'cluster_size'"):
        tiny.replace(cluster_size=3)
    with pytest.raises(ScenarioError, match="tracked_window"):
        tiny.with_workload(log, max_gpus=8).replace(tracked_window=(2, 6)).instance(0)


@here
def test_whole_philly_log_on_its_cluster() -> None:
    source = f"philly:{TRACES / 'philly/philly_jobs.csv.gz'}"
    instance = get_scenario("philly-full-v1").with_workload(source).instance(0)
    assert len(instance.workload) == 62_861
    assert instance.cluster.gpus == 2_480


def test_jobs_that_bring_profiles_keep_them(tmp_path: Path) -> None:
    own = Profiles.from_rows(
        [dict(name="mine", batch=1, gradient_bytes=0.0, memory_bytes=0.0, skew=0.0, overlap=1.0, compute_s=2.0)]
    )
    workload = Workload.from_columns([0.0], [1], iterations=[10.0], profiles=own)
    workload.save(tmp_path / "jobs.npz")
    source = f"file:{tmp_path / 'jobs.npz'}"
    for rule, expected in (("mix", "mine"), ("own", "mine"), ("unit", "unit")):
        drawn = get_scenario("tiny-v1").with_workload(source, profiles=rule).instance(0).workload
        assert drawn.profiles.rows["name"].tolist() == [expected]


@pytest.mark.parametrize("name", RETIRED)
def test_retired_names_name_their_replacement(name: str) -> None:
    assert RETIRED[name] in list_scenarios()
    assert name not in list_scenarios()
    with pytest.raises(ScenarioError, match=f"retired.*play '{RETIRED[name]}:load=0.5'"):
        get_scenario(f"{name}:load=0.5")


def test_files_with_a_byte_order_mark_or_a_field_given_twice_are_refused(tmp_path: Path) -> None:
    text = json.dumps(get_scenario("tiny-v1").as_dict())
    toml = 'name = "mine"\n[[groups]]\ncount = 2\ngpus = 4\n[workload]\nsource = "synthetic:batch"\njobs = 3\n'
    twice = text.replace('"jobs": 12', '"jobs": 12, "jobs": 13')
    for name, content, told in (
        ("mine.json", "\ufeff" + text, "it begins with a byte order mark; save it as UTF-8 without one"),
        ("mine.toml", "\ufeff" + toml, "it begins with a byte order mark; save it as UTF-8 without one"),
        ("mine.json", twice, "the field 'jobs' occurs twice in one table; keep one"),
    ):
        path = tmp_path / name
        path.write_text(content, encoding="utf-8")
        with pytest.raises(ScenarioError, match=f"{name}: not valid .*{told}"):
            load_scenario(path)
    path.write_text(text)
    assert load_scenario(path) == get_scenario("tiny-v1")


def test_a_description_may_be_left_out(tmp_path: Path) -> None:
    data = get_scenario("tiny-v1").as_dict()
    del data["description"]
    path = tmp_path / "mine.json"
    path.write_text(json.dumps(data))
    found = load_scenario(path)
    assert found.description == ""
    assert found.fingerprint() == get_scenario("tiny-v1").fingerprint()
