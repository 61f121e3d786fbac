"""Measured throughput tables: the shipped tables, their profiles, and the rule that assigns profiles to jobs."""

from __future__ import annotations

import dataclasses
import gzip
import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from published import TRACES, here

from gpusched_env.errors import TraceError, WorkloadError
from gpusched_env.problem.cluster import Cluster, NodeGroup
from gpusched_env.problem.instance import Instance
from gpusched_env.problem.workload import Workload
from gpusched_env.scenarios import WorkloadSpec
from gpusched_env.traces import assign_profiles, generate_workload, profile_tables, read_workload
from gpusched_env.traces.generators.synthetic import random_stream
from gpusched_env.traces.profile_tables import EfficiencyTable, FittedTable, MeasuredTable, StepTable, load_measured
from gpusched_env.traces.profile_tables.gavel import gavel_table
from gpusched_env.traces.profile_tables.profile_table import ProfileTable
from studies.profile_tables.__main__ import Settings, main
from studies.profile_tables.files import read_table, write_table
from studies.profile_tables.fitting import FITTERS, fit_table

SOURCES = {"gavel": "gavel/simulation_throughputs.json.gz", "elasticflow": "elasticflow", "dally": "dally"}
TABLES = [(kind, name) for kind in (EfficiencyTable, FittedTable, MeasuredTable, StepTable) for name in kind.SHIPPED]

RESNET, LM = "ResNet-50 (batch size 64)", "LM (batch size 10)"
LARGE = "ResNet-50 (batch size 128)"  # does not fit into a K80 on two or more GPUs


def shipped(name: str) -> Path:
    return Path(profile_tables.__file__).with_name(f"{name}.json")


def measured(model: str, gpus: int, gpu_type: str = "V100", table: str = "gavel") -> np.ndarray:
    """Seconds of an iteration on the three tiers in the simulator."""
    profiles, profile = load_measured(table).for_jobs([model], [gpus])
    workload = Workload.from_columns([0.0], [gpus], iterations=[1.0], profiles=profiles, profile=profile)
    return Instance(Cluster([NodeGroup(1, 64, gpu_type)]), workload).iteration_s[0, :, 0]


@pytest.mark.parametrize(("kind", "name"), TABLES)
def test_tables_are_small_and_written_as_they_are_read(tmp_path: Path, kind: type[ProfileTable], name: str) -> None:
    written = tmp_path / "a.json", tmp_path / "b.json"
    write_table(read_table(kind, shipped(name)), written[0])
    write_table(read_table(kind, written[0]), written[1])
    assert written[0].read_bytes() == written[1].read_bytes()
    if name != "bsbf":  # its numbers have fewer digits
        assert written[0].read_bytes() == shipped(name).read_bytes()
    assert shipped(name).stat().st_size < (150_000 if name == "dally" else 80_000)
    assert {name for _, name in TABLES} - {"bsbf"} == set(FITTERS)  # its parameters are given (docs/sharing.md)


@here
@pytest.mark.parametrize("name", SOURCES)
def test_the_study_makes_the_shipped_table(tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    output = tmp_path / "table.json"
    main(Settings(name, TRACES / SOURCES[name], output))
    assert output.read_bytes() == shipped(name).read_bytes()
    assert name in capsys.readouterr().out


@pytest.mark.parametrize(("kind", "name"), TABLES)
@pytest.mark.parametrize(
    "damage", ["", "[]", "{}", "[", '{"name": 1}', '{"models": {}, "efficiency": {"n": [[[1, 2], [1]]]}}']
)
def test_what_is_no_table_is_refused(tmp_path: Path, kind: type[ProfileTable], name: str, damage: str) -> None:
    path = tmp_path / "table.json"
    path.write_text(damage, encoding="utf-8")
    with pytest.raises(WorkloadError, match=r"table\.json.*: not a table that write_table wrote"):
        read_table(kind, path)
    path.write_bytes(b"\xff")
    with pytest.raises(WorkloadError, match=r"table\.json: cannot be read"):
        read_table(kind, path)


# Rates [steps/s], read by hand in simulation_throughputs.json: in one machine, spread.
@pytest.mark.parametrize(
    ("model", "gpus", "gpu_type", "together", "apart"),
    [
        (RESNET, 1, "V100", 4.394774823323071, 4.394774823323071),
        (RESNET, 1, "K80", 0.6190282202246573, 0.6190282202246573),
        (RESNET, 4, "V100", 9.451949566394442, 11.136430014818272),  # faster on several machines
        (LM, 2, "V100", 163.12902048608936, 35.14049049611691),
        (LM, 8, "V100", 615.0934647748222, 65.52054641658911),
        (LM, 8, "K80", 75.56769495697503, 62.64704428897793),
        ("Recommendation (batch size 1024)", 1, "P100", 30.74443726150114, 30.74443726150114),
        (LARGE, 8, "P100", 9.934969604819724, 10.729904712124876),
        (RESNET, 2, "K80", 1.2636370655757299, 1.2636370655757299),  # not measured on several machines
    ],
)
def test_an_iteration_takes_one_over_the_measured_rate(
    model: str, gpus: int, gpu_type: str, together: float, apart: float
) -> None:
    assert measured(model, gpus, gpu_type) == pytest.approx([1 / together, 1 / apart, 1 / apart], rel=1e-12)


def test_communication_is_the_extra_time_of_a_spread_gang() -> None:
    table = load_measured("gavel")
    (_, inside, none), (tier, compute, communication) = table.models[LM].times("V100", 8)
    assert (tier, none, compute) == (1, 0.0, inside)
    assert communication == pytest.approx(1 / 65.52054641658911 - 1 / 615.0934647748222, rel=1e-12)
    (_, slower, _), (_, alone, nothing) = table.models[RESNET].times("V100", 4)
    assert nothing == 0.0
    assert alone < slower
    for model in table.models.values():
        for gpu_type, gangs in model.rates.items():
            for gpus, rates in gangs.items():
                for (_, seconds, longer), rate in zip(model.times(gpu_type, gpus), rates, strict=False):
                    assert (seconds + longer) * rate == pytest.approx(1, rel=1e-12)


def test_elasticflow_rates_hold_wherever_the_gang_is() -> None:
    assert measured("bert (batch size 64)", 16, "A100", "elasticflow") == pytest.approx([1 / 10.98694501596299] * 3)
    table = load_measured("elasticflow")
    assert table.gpu_types_of("bert (batch size 64)", 64) == ("A100",)
    # An empty field, not-a-number, and zeros of the published files
    for model, largest in (("deepspeech2 (batch size 32)", 32), ("yolov3 (batch size 64)", 16)):
        assert max(table.models[model].gangs) == largest
    assert table.gpu_types_of("resnet50_cifar10 (batch size 64)", 16) == ()


def test_packed_rates_are_those_of_one_job_over_its_rate_alone() -> None:
    table = load_measured("gavel")
    other = "LM (batch size 20)"
    assert table.packed_rate("V100", RESNET, other) == pytest.approx(3.0214759821669617 / 4.394774823323071, abs=5e-4)
    assert table.packed_rate("V100", other, RESNET) == pytest.approx(24.79801703692631 / 64.74245099960703, abs=5e-4)
    assert table.packed_rate("K80", RESNET, other) == pytest.approx(0.41545880277310526 / 0.6190282202246573, abs=5e-4)
    assert table.packed_rate("K80", "ResNet-18 (batch size 16)", LARGE) == 0.0
    fits = {gpu_type: sum(rate > 0 for rate in pairs.values()) for gpu_type, pairs in table.packed.items()}
    assert fits == {"V100": 636, "P100": 656, "K80": 589}  # of 26 x 26
    with pytest.raises(WorkloadError, match="on one A100: not measured"):
        table.packed_rate("A100", RESNET, LM)


def test_a_gang_without_a_rate_runs_elsewhere_or_is_refused() -> None:
    table = load_measured("gavel")
    assert table.gpu_types_of(LARGE, 2) == ("V100", "P100")
    profiles, profile = table.for_jobs([LARGE, LM], [2, 2])
    workload = Workload.from_columns([0.0, 0.0], [2, 2], iterations=[9.0, 9.0], profiles=profiles, profile=profile)
    Instance(Cluster([NodeGroup(1, 4, "V100"), NodeGroup(1, 4, "P100")]), workload)
    mixed = Instance(Cluster([NodeGroup(1, 4, "V100"), NodeGroup(1, 4, "K80")]), workload)
    assert np.isinf(mixed.iteration_s).any(axis=1).tolist() == [[False, True], [False, False]]
    with pytest.raises(WorkloadError, match=r"'ResNet-50 \(batch size 128\)' on 2 GPUs cannot run on the"):
        Instance(Cluster([NodeGroup(1, 4, "K80")]), workload)
    for arguments, complaint in (
        ((["ResNet-50"], [1]), r"unknown model 'ResNet-50': did you mean 'ResNet-50 \(batch"),
        (([LM], [3]), "on 3 GPUs of V100 or P100 or K80 was not measured.* gangs: 1, 2, 4, 8"),
        ((["A3C"], [2]), "'A3C' on 2 GPUs"),
        (([LARGE], [2], ["K80"]), "on 2 GPUs of K80 was not measured"),
        (([LM], [1], ["A100"]), "unknown GPU type 'A100'"),
    ):
        with pytest.raises(WorkloadError, match=complaint):
            table.for_jobs(*arguments)


def test_placement_may_be_left_out() -> None:
    profiles, _ = load_measured("gavel").for_jobs([LM], [2], ["V100"], ignore_placement=True)
    assert profiles.measured["tier"].tolist() == [0]


def test_the_rule_gives_named_models_and_draws_the_others() -> None:
    jobs = 4_000
    named = np.where(np.arange(jobs) % 2, LM, "somebody's")
    workload = Workload.from_columns(
        np.zeros(jobs), np.repeat([1, 2], jobs // 2), np.full(jobs, 60.0), attributes={"model": named}
    )
    given = assign_profiles(workload, "gavel", random_stream(1, 1), ("K80", "V100"))
    names = given.profiles.rows["name"][given.jobs["profile"]]
    assert set(names[1::2]) == {LM}
    one, two = (Counter(half.tolist()) for half in (names[: jobs // 2 : 2], names[jobs // 2 :: 2]))
    assert len(one) == 26
    assert len(two) == 18  # 19 are distributed, one of which does not fit on two K80
    assert LARGE not in two
    for counts in (one, two):
        expected = 1_000 / len(counts)
        assert sum((count - expected) ** 2 / expected for count in counts.values()) < 60  # chi square, p < 1e-4
    again = assign_profiles(workload, "gavel", random_stream(1, 1), ("K80", "V100"))
    assert given.fingerprint() == again.fingerprint()
    other = assign_profiles(workload, "gavel", random_stream(2, 1), ("K80", "V100"))
    assert given.fingerprint() != other.fingerprint()
    played = Instance(Cluster([NodeGroup(1, 4, "K80"), NodeGroup(1, 4, "V100")]), given)
    assert np.array_equal(played.ideal_s, played.workload.jobs["duration_s"])  # run times are kept


def test_the_rule_refuses_unmeasured_models() -> None:
    large = generate_workload("poisson", 0, 5, demand={16: 1.0})
    with pytest.raises(WorkloadError, match=r"for any model on 16 GPUs of each of V100;.*gangs of 1, 2, 4, 8; limit"):
        assign_profiles(large, "gavel", random_stream(0, 1))
    assert len(assign_profiles(large, "elasticflow", random_stream(0, 1), ("A100",))) == 5
    small = generate_workload("poisson", 0, 5)
    for types in (("A100",), ("V100", "A100")):
        with pytest.raises(WorkloadError, match="A100"):
            assign_profiles(small, "gavel", random_stream(0, 1), types)
    named = Workload.from_columns([0.0], [2], [60.0], attributes={"model": np.array([LARGE])})
    with pytest.raises(WorkloadError, match=r"job 0: .* for 'ResNet-50 \(batch size 128\)' on 2 GPUs of each of K80"):
        assign_profiles(named, "gavel", random_stream(0, 1), ("K80",))


@here
def test_published_jobs_get_the_models_they_name() -> None:
    traces = {"elasticflow": ("philly/elasticflow_103959.csv.gz", "elasticflow", "A100")}
    traces["shockwave"] = ("shockwave/120_jobs_dynamic.trace", "gavel", "V100")
    for reader, (file, rule, gpu_type) in traces.items():
        workload = read_workload(f"{reader}:{TRACES / file}")
        given = assign_profiles(workload, rule, random_stream(0, 1), (gpu_type,))
        names = given.profiles.rows["name"][given.jobs["profile"]].tolist()
        told = workload.attributes["model"].tolist()
        if "batch_size" in workload.attributes:
            told = [f"{m} (batch size {b})" for m, b in zip(told, workload.attributes["batch_size"], strict=True)]
        assert names == told


def damaged(change: Any) -> str:
    data = json.loads(shipped("gavel").read_text())
    return json.dumps(change(data) or data)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", ["JSONDecodeError", "make it again"]),
        ("[]", ["TypeError"]),
        (damaged(lambda data: data.pop("licence") and None), ["KeyError: 'licence'"]),
        (damaged(lambda data: data["models"]["A3C"].pop("rates") and None), ["KeyError: 'rates'"]),
        (damaged(lambda data: data["models"]["A3C"]["rates"].update(T4={"1": [1.0]})), ["'A3C'", "'T4' is not listed"]),
        (damaged(lambda data: data["models"]["A3C"]["rates"].update(K80={"1": [-1]})), ["'A3C', K80, 1 GPUs", ">= 0"]),
        (damaged(lambda data: data["models"]["A3C"]["rates"].update(K80={"0": [1]})), ["'A3C', K80, 0 GPUs"]),
        (damaged(lambda data: data["models"]["A3C"]["rates"].update(K80={"1": []})), ["'A3C', K80, 1 GPUs"]),
        (damaged(lambda data: data["models"]["A3C"].update(rates={})), ["'A3C'", "no rate above 0"]),
        (damaged(lambda data: data["packed"]["K80"].pop() and None), ["ValueError"]),
        (damaged(lambda data: data["packed"]["K80"][0].__setitem__(0, -1)), ["packed on 'K80'", "rate -1"]),
        (damaged(lambda data: data.update(models={}, packed={})), ["no model"]),
    ],
)
def test_a_damaged_table_is_refused_with_the_remedy(tmp_path: Path, text: str, words: list[str]) -> None:
    path = tmp_path / "table.json"
    path.write_text(text)
    with pytest.raises(WorkloadError) as caught:
        read_table(MeasuredTable, path)
    for word in [str(path), *words]:
        assert word in str(caught.value)


def test_unknown_tables_and_absent_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(WorkloadError, match="did you mean 'gavel'"):
        load_measured("gavle")
    with pytest.raises(TraceError, match="unknown profile table"):
        fit_table("gavle", tmp_path)
    with pytest.raises(WorkloadError, match="cannot be read"):
        read_table(MeasuredTable, tmp_path / "none.json")


@pytest.mark.parametrize(
    "text",
    [
        b"\xff\xfe",
        b"[]",
        b"{}",
        b'{"v100": []}',
        b'{"v100": {"A3C": {"null": 1}}, "p100": {}, "k80": {}}',
        b'{"v100": {"(\'A3C\', 1)": {"null": NaN}}, "p100": {}, "k80": {}}',
        b'{"v100": {"(\'A3C\', 1)": {"null": 0}}, "p100": {}, "k80": {}}',
        b'{"v100": {"(\'A4C\', 1)": {"null": 1}}, "p100": {}, "k80": {}}',
        gzip.compress(b"{}" * 1_000, mtime=0)[:20],
    ],
)
def test_damaged_throughputs_of_gavel_are_refused(tmp_path: Path, text: bytes) -> None:
    (tmp_path / "t.json").write_bytes(text)
    with pytest.raises(TraceError) as caught:
        fit_table("gavel", tmp_path / "t.json")
    assert str(tmp_path / "t.json") in str(caught.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("global_batch_size,1,two\n8,1,1\n", ["line 2", "gang size in the header", "'two'"]),
        ("global_batch_size,1\n8,fast\n", ["line 2", "'1'", "'fast'", "iterations a second"]),
        ("global_batch_size,1\n8,1\n8,1\n", ["line 3", "occurs twice"]),
        ("batch,1\n8,1\n", ["line 1", "'global_batch_size' is missing"]),
        ("global_batch_size,1\n8,\n", ["'bert (batch size 8)'", "no rate above 0"]),
    ],
)
def test_damaged_throughputs_of_elasticflow_are_refused(tmp_path: Path, text: str, words: list[str]) -> None:
    for folder in ("throughputs_A100", "throughputs_T4"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "bert.csv").write_text(text if folder.endswith("T4") else "global_batch_size,1\n9,1\n")
    with pytest.raises(TraceError) as caught:
        fit_table("elasticflow", tmp_path)
    for word in [str(tmp_path), *words]:
        assert word in str(caught.value)
    with pytest.raises(TraceError, match="no CSV file there; give the folder"):
        fit_table("elasticflow", tmp_path / "throughputs_T4")


def test_a_rule_may_name_another_throughput_file(tmp_path: Path) -> None:
    """A pair of hand-made rates, 2 and 4 steps/s; the model that only one type can run is played there."""
    rates = {
        "v100": {"('A3C', 1)": {"null": 2.0}},
        "p100": {"('A3C', 1)": {"null": 4.0}},
        "k80": {"('A3C', 1)": {"null": 0.0}},
    }
    path = tmp_path / "own.json"
    path.write_text(json.dumps(rates))
    spec = WorkloadSpec("synthetic:gavel", profiles=f"gavel:{path}", jobs=2, max_gpus=1)
    jobs = Workload.from_columns([0.0], [1], iterations=[8], attributes={"model": np.array(["A3C"])})
    drawn = assign_profiles(jobs, f"gavel:{path}", np.random.default_rng(0), ("V100", "P100", "K80"))
    assert drawn.profiles.measured["compute_s"].tolist() == [0.5, 0.25, np.inf]
    with pytest.MonkeyPatch.context() as patch:  # another draw does not parse the file again
        patch.setattr("gpusched_env.traces.profiles.gavel_table", pytest.fail)
        assign_profiles(jobs, f"gavel:{path}", np.random.default_rng(1), ("V100",))
    other = tmp_path / "other.json"
    other.write_text(json.dumps(rates))
    assert dataclasses.replace(spec, profiles=f"gavel:{other}").identities() == spec.identities()
    del rates["p100"]
    path.write_text(json.dumps(rates))
    assert gavel_table(path).gpu_types == ("V100", "K80")
    assert dataclasses.replace(spec, profiles=f"gavel:{other}").identities() != spec.identities()
    with pytest.raises(WorkloadError, match="the table has GPU types V100, K80"):
        assign_profiles(jobs, f"gavel:{path}", np.random.default_rng(0), ("P100",))
    alone = assign_profiles(jobs, f"gavel:{path}", np.random.default_rng(0), ("V100",))
    assert alone.profiles.measured["compute_s"].tolist() == [0.5]
    damaged = {
        "own.json: .* unknown model 'Z'": {"('Z', 1)": {"null": 1.0}},
        "own.json: .* too large": {"('A3C', 1)": {"null": 10**400}},
        "own.json: .* 'float'": {"('A3C', 1.5)": {"null": 1.0}},
        "own.json: .* 'float' object": {"('A3C', 1e999)": {"null": 1.0}},
        "own.json: .* index out of range": {"('A3C', 1)": {"null": 1.0, "('A3C', 1)": []}},
        "own.json: .* has rate -1.0": {"('A3C', 1)": {"null": 1.0, "('A3C', 1)": [-1.0, 1.0]}},
        "own.json: .* no rate above 0": {"('A3C', 1)": {"null": 0.0}},
        "own.json: .* rate True": {"('A3C', 1)": {"null": True}},
        "own.json: .* rate '5'": {"('A3C', 1)": {"null": "5"}},
    }
    for complaint, table in damaged.items():
        path.write_text(json.dumps(dict.fromkeys(rates | {"p100": {}}, table)))
        with pytest.raises(TraceError, match=complaint):
            gavel_table(path)
    with pytest.raises(TraceError, match=r"profiles 'dally:x': unknown format 'dally'"):
        WorkloadSpec("synthetic:gavel", profiles="dally:x")
