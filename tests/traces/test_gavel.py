"""Gavel: the reader of its traces, and its generator, whose jobs are those of Gavel's own code."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import finish
from published import TRACES, here

from gpusched_env.errors import TraceError, WorkloadError
from gpusched_env.problem.cluster import Cluster, NodeGroup
from gpusched_env.problem.instance import Instance
from gpusched_env.problem.workload import Workload
from gpusched_env.scenarios import get_scenario
from gpusched_env.traces import assign_profiles, generate_workload, read_trace, read_workload, scale_to_load
from gpusched_env.traces.generators.synthetic import random_stream
from gpusched_env.traces.profile_tables import load_measured

NOT_MEASURED = "no throughput was measured for this job type on this number of GPUs"
COMMAND = 'python3 main.py --data "%s/wikitext2, all"'


def ten(model: str = "LM (batch size 10)", steps: object = 1000, gpus: object = 1, arrival: object = 0) -> str:
    fields = [model, COMMAND, "language_modeling", "--steps", "1", steps, gpus, "5", "-1.000000", arrival]
    return "\t".join(map(str, fields)) + "\n"


def seven(model: str = "LM (batch size 10)", steps: object = 1000, gpus: object = 1, arrival: object = 0) -> str:
    return "\t".join(map(str, [model, COMMAND, "--steps", "1", steps, arrival, gpus])) + "\n"


def write(path: Path, text: str | bytes) -> str:
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return str(path)


def models(workload: Workload) -> list[str]:
    return workload.profiles.rows["name"][workload.jobs["profile"]].tolist()


def rates(workload: Workload, gpu_type: str = "V100") -> np.ndarray:
    """Steps a second of each job on one machine."""
    table = load_measured("gavel").models
    gangs = workload.jobs["gpus"].tolist()
    return np.array([table[m].rates[gpu_type][g][0] for m, g in zip(models(workload), gangs, strict=True)])


@here
def test_the_largest_published_trace_is_that_of_the_paper_set_up() -> None:
    """96 jobs to 46,317 s on gangs of 1, 2 and 4."""
    jobs = read_workload(f"gavel:{TRACES / 'gavel/max_min_fairness.trace'}").jobs
    assert np.bincount(jobs["gpus"]).tolist() == [0, 59, 19, 0, 18]
    assert round(jobs["arrival_s"].max()) == 46_317


@pytest.mark.parametrize("row", [seven, ten])
def test_fields_go_by_position_and_steps_are_the_work(tmp_path: Path, row: Any) -> None:
    text = [
        row("ResNet-50 (batch size 64)", 2931, 4, 60.5),
        row(gpus=0),
        "\n",
        row("A3C", gpus=2),
        row(steps=0),
        row("ResNet-49"),
        row(steps=7, gpus=8, arrival=60),
    ]
    workload, report = read_trace("gavel:" + write(tmp_path / "t.trace", "".join(text)))
    columns = ["id", "arrival_s", "gpus", "iterations"]
    assert workload.jobs[columns].tolist() == [(0, 0.5, 4, 2931.0), (5, 0.0, 8, 7.0)]
    assert np.isnan(workload.jobs["duration_s"]).all()
    assert models(workload) == ["ResNet-50 (batch size 64)", "LM (batch size 10)"]
    labels = {key: column.tolist() for key, column in workload.attributes.items()}
    told = {"priority_weight": ["5", "5"], "slo": ["-1.000000"] * 2} if row is ten else {}
    assert labels == {"model": models(workload)} | told
    assert report.dropped == {"CPU job (no GPUs)": 1, NOT_MEASURED: 2, "zero run time": 1}
    assert report.places == {"CPU job (no GPUs)": [2], NOT_MEASURED: [4, 6], "zero run time": [5]}
    assert (report.rows, report.kept, report.format) == (6, 2, "gavel")


def test_twelve_fields_are_those_of_shockwave(tmp_path: Path) -> None:
    text = "\t".join(["LM (batch size 10)", COMMAND, "d", "--steps", "1", "134583", "1", "gns", "1", "-1", "1418", "0"])
    path = write(tmp_path / "t.trace", text)
    workload, report = read_trace(f"gavel:{path}")
    assert (workload.jobs["duration_s"].tolist(), report.format) == ([1418.0], "shockwave")
    assert workload.fingerprint() == read_workload(f"shockwave:{path}").fingerprint()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("\n", ["no usable job"]),
        (seven(gpus=16), ["no usable job", NOT_MEASURED]),
        ("a\tb\n", ["line 1", "2 fields", "7 or 10 or 12", "stray tab"]),
        (seven() + ten(), ["line 2", "10 fields", "where 7 are expected", "cut"]),
        (ten() + seven(), ["line 2", "7 fields", "where 10 are expected"]),
        (ten(steps="many"), ["line 1", "'steps (6)'", "'many'", "steps >= 0"]),
        (seven(steps=-1), ["line 1", "'steps (5)'", "'-1'"]),
        (ten() + ten(gpus=1.5), ["line 2", "'scale factor (7)'", "'1.5'", "whole"]),
        (seven(gpus="x"), ["line 1", "'scale factor (7)'"]),
        (ten(arrival="nan"), ["line 1", "'arrival (10)'", "'nan'", "seconds"]),
        (seven(arrival=-3), ["line 1", "'arrival (6)'", "'-3'"]),
    ],
)
def test_malformed_files_name_place_field_and_remedy(tmp_path: Path, text: str, words: list[str]) -> None:
    path = write(tmp_path / "t.trace", text)
    with pytest.raises(TraceError) as caught:
        read_trace(f"gavel:{path}")
    for word in [path, *words]:
        assert word in str(caught.value)


def test_a_trace_played_on_v100_takes_steps_over_rate(tmp_path: Path) -> None:
    text = ten("A3C", 500) + ten("LM (batch size 5)", 10_000, 8) + ten("Transformer (batch size 64)", 300, 2)
    workload = read_workload("gavel:" + write(tmp_path / "t.trace", text))
    rate = [7.175767179667988, 698.773292956699, 15.876496488983058]  # read in simulation_throughputs.json
    finished = finish(Instance(Cluster.parse("3x8"), workload), "fifo")
    assert finished == pytest.approx([500 / rate[0], 10_000 / rate[1], 300 / rate[2]], rel=1e-9)


@here
def test_a_published_trace_played_on_each_gpu_type_takes_steps_over_rate() -> None:
    workload = read_workload(f"gavel:{TRACES / 'gavel/artifact_evaluation.trace'}")
    for gpu_type in ("V100", "P100", "K80"):
        cluster = Cluster([NodeGroup(len(workload), 8, gpu_type)])
        ends = finish(Instance(cluster, workload), "fifo")
        assert ends == pytest.approx((workload.jobs["iterations"] / rates(workload, gpu_type)).tolist(), rel=1e-9)


# The first jobs of seed 0 in Gavel's own code: job type, run time on V100 [s], arrival [s] for a mean gap of an hour
FIRST = (
    ("ResNet-18 (batch size 64)", 68_344.35010595087, 0.0),
    ("Transformer (batch size 16)", 31_016.60914593223, 978.344291641206),
    ("Recommendation (batch size 2048)", 2_146.6088374387864, 3_807.099310116383),
    ("Recommendation (batch size 8192)", 7_386.674819745945, 5_470.17078262555),
)


def test_the_generator_draws_the_jobs_of_gavel() -> None:
    workload = generate_workload("gavel", 0, 5_000, mean_gap_s=3_600.0)
    jobs = workload.jobs
    assert models(workload)[:4] == workload.attributes["model"][:4].tolist() == [name for name, _, _ in FIRST]
    assert (jobs["iterations"] / rates(workload))[:4] == pytest.approx([run for _, run, _ in FIRST], rel=1e-15)
    assert jobs["iterations"][0] == 1_646_636.2758419
    assert jobs["arrival_s"][:4].tolist() == [arrival for _, _, arrival in FIRST]
    assert (jobs["gpus"] == 1).all()
    later = generate_workload("gavel", 0, 4_001, mean_gap_s=9_000.0)
    assert later.jobs["arrival_s"][4_000] == 35_762_005.044926986
    # Jobs 4000 to 4999, in hours: on V100, on the type that is best for the job, at the mean rate of the three types
    types = np.array([rates(workload, gpu_type) for gpu_type in ("V100", "P100", "K80")])[:, 4_000:]
    steps = jobs["iterations"][4_000:]
    means = [float((steps / rate).mean() / 3600) for rate in (types[0], types.max(axis=0), types.mean(axis=0))]
    assert means == pytest.approx([17.414646, 15.341519, 23.307368], abs=1e-6)


def test_the_generator_draws_the_gangs_of_gavel() -> None:
    workload = generate_workload("gavel", 0, 5_000, multi_gpu=True)
    assert (workload.jobs["gpus"][0], workload.jobs["iterations"][0]) == (8, 17_484_476.26110642)
    assert np.bincount(workload.jobs["gpus"])[[1, 2, 4, 8]].tolist() == [3_534, 468, 784, 214]
    small = generate_workload("gavel", 0, 5_000, max_gpus=2, multi_gpu=True)
    share = np.bincount(small.jobs["gpus"]) / 5_000
    assert share.tolist() == pytest.approx([0, 7 / 8, 1 / 8], abs=0.02)


def test_weights_come_from_the_stream_of_jobs_and_objectives_from_their_own() -> None:
    plain = generate_workload("gavel", 3, 3_000)
    timed = generate_workload("gavel", 3, 3_000, slos=True)
    assert timed.jobs.tobytes() == plain.jobs.tobytes()
    assert timed.fingerprint() != plain.fingerprint()  # schedulers may read deadlines
    values, counts = np.unique(timed.attributes["slo"], return_counts=True)
    assert values.tolist() == [1.2, 2.0, 10.0]
    assert counts / 3_000 == pytest.approx([0.33, 0.34, 0.33], abs=0.03)
    weighted = generate_workload("gavel", 3, 3_000, priorities=True)
    assert weighted.jobs[0].tobytes() == plain.jobs[0].tobytes()
    assert weighted.jobs.tobytes() != plain.jobs.tobytes()
    assert set(weighted.attributes["priority_weight"].tolist()) == {1.0, 5.0}
    assert (weighted.attributes["priority_weight"] == 5).mean() == pytest.approx(0.2, abs=0.02)


def test_placement_counts_unless_it_is_left_out() -> None:
    gangs = generate_workload("gavel", 0, 200, multi_gpu=True)
    ignored = generate_workload("gavel", 0, 200, multi_gpu=True, ignore_placement=True)
    assert gangs.jobs.tobytes() == ignored.jobs.tobytes()
    cluster = Cluster([NodeGroup(1, 8, "V100"), NodeGroup(1, 8, "P100")])
    with_placement, without = (Instance(cluster, workload).iteration_s for workload in (gangs, ignored))
    assert np.array_equal(with_placement[:, 0], without[:, 0])
    assert np.array_equal(without[:, 1:], without[:, [0, 0]])
    assert not np.array_equal(with_placement[:, 1], without[:, 1])


def test_all_jobs_may_arrive_at_once() -> None:
    assert not generate_workload("gavel", 0, 20, mean_gap_s=0.0).jobs["arrival_s"].any()


def test_a_scenario_plays_measured_jobs_under_its_own_rule() -> None:
    scenario = get_scenario("philly-64-v1").with_workload("synthetic:gavel", jobs=30, parameters={"mean_gap_s": 60})
    instance = scenario.instance(5)
    assert instance.workload.jobs.tobytes() == generate_workload("gavel", 5, 30, mean_gap_s=60).jobs.tobytes()
    assert instance.ideal_s == pytest.approx(instance.iterations / rates(instance.workload), rel=1e-9)
    unit = assign_profiles(instance.workload, "unit", random_stream(5, 1))
    assert unit.profiles.is_unit
    with pytest.raises(WorkloadError, match="leave out the load"):
        scale_to_load(instance.workload, 0.5, 64)
