"""Readers of the job lists that papers published with their schedulers."""

from __future__ import annotations

import csv
import gzip
from pathlib import Path

import numpy as np
import pytest
from published import TRACES, here

from gpusched_env.errors import TraceError
from gpusched_env.traces import read_trace

TIRESIAS = "job_id,num_gpu,submit_time,iterations,model_name,duration,interval\n"
MURI = (
    "job_id,num_gpu,submit_time,iterations,model_name,batch_size,duration,interval,iteration_time,"
    "resource_time_0,resource_time_1,resource_time_2,priority\n"
)


def shockwave(
    gpus: object = 1, mode: str = "gns", duration: object = 10, arrival: object = 0, model: str = "LM (batch size 10)"
) -> str:
    head = [model, 'python3 main.py --data "%s/wikitext2, all"', "language_modeling", "--steps", "1", "134583"]
    return "\t".join([*head, str(gpus), mode, "1", "-1.000000", str(duration), str(arrival)]) + "\n"


def write(path: Path, text: str | bytes) -> str:
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return str(path)


def manifest_rows() -> dict[str, int]:
    with (TRACES / "MANIFEST.csv").open(encoding="utf-8", newline="") as file:
        return {row["file"]: int(row["rows"] or 0) for row in csv.DictReader(file)}


@here
@pytest.mark.parametrize(
    ("name", "file", "blank"),
    [
        ("tiresias", "tiresias/60_job.csv", 0),
        ("muri", "muri/cluster_trace.csv", 0),
        ("muri", "muri/trace2.csv.gz", 0),
        ("muri", "muri/trace3.csv.gz", 0),
        ("shockwave", "shockwave/120_jobs_dynamic.trace", 0),
        ("bsbf", "bsbf/cluster_trace_12.csv", 0),
        ("bsbf", "bsbf/cluster_trace_20.csv", 1),  # the manifest counts the blank last line
        ("bsbf", "bsbf/trace_data_new.csv", 0),
        ("bsbf", "bsbf/trace_data_new_32.csv", 0),
        ("bsbf", "bsbf/trace_data_new_origin.csv", 0),
    ],
)
def test_every_row_of_the_manifest_is_a_job(name: str, file: str, blank: int) -> None:
    workload, report = read_trace(f"{name}:{TRACES / file}")
    assert report.rows + blank == manifest_rows()[file]
    assert (report.kept, len(workload), report.dropped) == (report.rows, report.rows, {})
    assert workload.jobs["arrival_s"].min() == 0


def test_tiresias_duration_is_the_work(tmp_path: Path) -> None:
    rows = "0,1,5,606,vgg19,164,30\r\n1,0,6,1,vgg11,9,1\r\n2,8,7,1,vgg11,0,1\r\n3,8,35,133,vgg11,147,23\r\n\r\n"
    workload, report = read_trace("tiresias:" + write(tmp_path / "60_job.csv", TIRESIAS + rows))
    columns = ["id", "arrival_s", "gpus", "duration_s"]
    assert workload.jobs[columns].tolist() == [(0, 0.0, 1, 164.0), (3, 30.0, 8, 147.0)]
    assert workload.attributes["model"].tolist() == ["vgg19", "vgg11"]
    assert workload.attributes["original_id"].tolist() == ["0", "3"]
    assert report.dropped == {"CPU job (no GPUs)": 1, "zero run time": 1}
    assert report.places == {"CPU job (no GPUs)": [3], "zero run time": [4]}
    assert (report.rows, report.kept, report.format, report.origin) == (4, 2, "tiresias", "")


def test_shockwave_fields_go_by_position(tmp_path: Path) -> None:
    rows = [
        shockwave(2, "accordion", 1418, 60.5, "ResNet-18 (batch size 32)"),
        shockwave(0),
        "\n",
        shockwave(duration=0),
        shockwave(8, "static", 720.25, 60),
    ]
    workload, report = read_trace("shockwave:" + write(tmp_path / "dynamic.trace", "".join(rows)))
    columns = ["id", "arrival_s", "gpus", "duration_s"]
    assert workload.jobs[columns].tolist() == [(0, 0.5, 2, 1418.0), (3, 0.0, 8, 720.25)]
    labels = {key: column.tolist() for key, column in workload.attributes.items()}
    assert labels == {
        "model": ["ResNet-18 (batch size 32)", "LM (batch size 10)"],
        "mode": ["accordion", "static"],
        "priority_weight": ["1", "1"],
    }
    assert report.dropped == {"CPU job (no GPUs)": 1, "zero run time": 1}
    assert report.places == {"CPU job (no GPUs)": [2], "zero run time": [4]}
    assert (report.rows, report.kept, report.format) == (4, 2, "shockwave")


@here
def test_shockwave_duration_is_the_steps_at_one_rate_for_each_job_type_and_gang() -> None:
    """In every mode: durations ignore changes of the batch size."""
    rates: dict[tuple[str, str], list[float]] = {}
    for line in (TRACES / "shockwave/120_jobs_dynamic.trace").read_text(encoding="utf-8").splitlines():
        field = line.split("\t")
        rates.setdefault((field[0], field[6]), []).append(float(field[5]) / float(field[10]))
    for key, values in rates.items():
        assert max(values) / min(values) < 1.001, key  # both are whole numbers


@here
@pytest.mark.parametrize("file", ["max_min_fairness.trace", "msr_seed0_103959.trace.gz"])
def test_gavel_traces_have_no_run_time(file: str) -> None:
    with pytest.raises(TraceError, match=r"line 1: \d+ fields.* steps and no run time"):
        read_trace(f"shockwave:{TRACES / 'gavel' / file}")


@pytest.mark.parametrize("name", ["muri", "bsbf"])
def test_muri_times_are_milliseconds_and_iterations_are_the_work(tmp_path: Path, name: str) -> None:
    rows = [
        "33,8,6568,294,a2c,64,162000,16000,555,502.0,14,0.4,0",
        "3,8,2020,2836,vgg19,16,165835000,15000,226,82.0,88,60.0,1",  # iterations were truncated, the duration was not
        "4,0,2020,10,vgg19,16,1,0,226,0,0,0,1",
        "5,1,2020,0,vgg19,16,1,0,226,0,0,0,1",
        "6,1,2020,10,vgg19,16,1,0,0,0,0,0,1",
    ]
    workload, report = read_trace(f"{name}:" + write(tmp_path / "trace.csv", MURI + "\r\n".join(rows) + "\r\n\r\n"))
    columns = ["id", "arrival_s", "gpus", "duration_s"]
    assert workload.jobs[columns].tolist() == [(0, 4.548, 8, 163.17), (1, 0.0, 8, 640.936)]
    assert np.isnan(workload.jobs["iterations"]).all()
    labels = {key: column.tolist() for key, column in workload.attributes.items()}
    assert labels == {
        "original_id": ["33", "3"],
        "model": ["a2c", "vgg19"],
        "batch_size": ["64", "16"],
        "priority": ["0", "1"],
    }
    assert report.dropped == {"CPU job (no GPUs)": 1, "zero run time": 2}
    assert report.places == {"CPU job (no GPUs)": [4], "zero run time": [5, 6]}
    assert (report.rows, report.kept, report.format) == (5, 2, name)
    assert list(report.notes.values()) == [1]
    assert "note 1: duration differs" in report.describe()


@here
def test_measured_runs_of_muri_follow_the_iterations() -> None:
    """If duration and iterations differ by more than a factor of 2,
    Muri's measured run takes the time of the iterations.
    """
    workload, report = read_trace(f"muri:{TRACES / 'muri/cluster_trace.csv'}")
    ours = dict(zip(workload.attributes["original_id"].tolist(), workload.jobs["duration_s"].tolist(), strict=True))
    with gzip.open(TRACES / "muri/published/tiresias_job.csv.gz", "rt", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    far = [row for row in rows if ours[row["job_id"]] > 2 * float(row["duration"])]
    assert len(far) == sum(report.notes.values()) == 5
    for row in far:
        # plus overheads of a real cluster: up to half a minute and 3 %
        assert 0 <= float(row["real_executed_time"]) - ours[row["job_id"]] <= 30 + 0.03 * ours[row["job_id"]]


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("tiresias", TIRESIAS, ["no usable job"]),
        ("tiresias", "job_id,num_gpu\n0,1\n", ["line 1", "'submit_time'", "missing"]),
        ("tiresias", TIRESIAS + "0,1,0,606,vgg19,164\n", ["line 2", "6 fields", "7"]),
        ("tiresias", TIRESIAS + "0,1,0,606,vgg19,-1,30\n", ["line 2", "'duration'", "-1", "seconds >= 0"]),
        ("tiresias", TIRESIAS + "0,1,soon,606,vgg19,1,30\n", ["line 2", "'submit_time'", "'soon'"]),
        ("tiresias", TIRESIAS + "0,0.5,0,606,vgg19,1,30\n", ["line 2", "'num_gpu'", "whole"]),
        ("tiresias", TIRESIAS + "0,1,0,606,vgg19,1,30\n" * 2, ["line 3", "'job_id'", "twice"]),
        ("muri", MURI.replace("iteration_time", "time"), ["line 1", "'iteration_time'", "missing"]),
        ("muri", MURI + "0,8,0,10,a2c,64,5,0,x,0,0,0,0\n", ["line 2", "'iteration_time'", "milliseconds"]),
        ("muri", MURI + "0,8,0,-1,a2c,64,5,0,5,0,0,0,0\n", ["line 2", "'iterations'", "'-1'", "iterations >= 0"]),
        ("muri", MURI + "0,8,0,1e200,a2c,64,5,0,1e200,0,0,0,0\n", ["line 2", "'iterations'", "1e+15"]),
        ("muri", MURI + "0,8,0,1,a2c,64,nan,0,5,0,0,0,0\n", ["line 2", "'duration'", "'nan'"]),
        ("shockwave", "\n", ["no usable job"]),
        ("shockwave", shockwave() + "a\tb\n", ["line 2", "2 fields", "12", "stray tab"]),
        ("shockwave", "\t".join("abcdefg"), ["line 1", "7 fields", "no run time", "gavel:PATH"]),
        ("shockwave", shockwave() + shockwave(gpus="two"), ["line 2", "'scale factor (7)'", "'two'", "whole"]),
        ("shockwave", shockwave() + shockwave(duration=-3), ["line 2", "'duration (11)'", "'-3'", "seconds >= 0"]),
        ("shockwave", shockwave(arrival="inf"), ["line 1", "'arrival (12)'", "'inf'"]),
        ("shockwave", shockwave(mode="gsn"), ["line 1", "'mode (8)'", "'gsn'", "accordion"]),
        ("bsbf", MURI + "0,8,-1,1,a2c,64,5,0,5,0,0,0,0\n", ["line 2", "'submit_time'", "milliseconds >= 0"]),
        ("bsbf", MURI + "0,8,0,1,a2c,64,5,0,5,0,0,0,0\n" * 2, ["line 3", "'job_id'", "twice"]),
        ("bsbf", MURI + "0,8,0,1,a2c,64,5,0,5\n", ["line 2", "9 fields", "13"]),
    ],
)
def test_malformed_files_name_place_field_and_remedy(tmp_path: Path, name: str, text: str, words: list[str]) -> None:
    path = write(tmp_path / "trace", text)
    with pytest.raises(TraceError) as caught:
        read_trace(f"{name}:{path}")
    for word in [path, *words]:
        assert word in str(caught.value)
