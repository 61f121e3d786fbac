"""Readers of the job lists that papers published with their schedulers."""

from __future__ import annotations

import csv
import gzip
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpusched_env.errors import TraceError
from gpusched_env.traces import read_trace, read_workload

TRACES = Path(__file__).parents[2] / "shared" / "traces"
published = pytest.mark.skipif(not TRACES.is_dir(), reason="published traces are not here: ../shared/traces is absent")

TIRESIAS = "job_id,num_gpu,submit_time,iterations,model_name,duration,interval\n"


def write(path: Path, text: str | bytes) -> str:
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return str(path)


def manifest_rows() -> dict[str, int]:
    with (TRACES / "MANIFEST.csv").open(encoding="utf-8", newline="") as file:
        return {row["file"]: int(row["rows"] or 0) for row in csv.DictReader(file)}


@published
@pytest.mark.parametrize(
    ("name", "file", "blank"),
    [
        ("tiresias", "tiresias/60_job.csv", 0),
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
    ],
)
def test_malformed_files_name_place_field_and_remedy(tmp_path: Path, name: str, text: str, words: list[str]) -> None:
    path = write(tmp_path / "trace", text)
    with pytest.raises(TraceError) as caught:
        read_trace(f"{name}:{path}")
    for word in [path, *words]:
        assert word in str(caught.value)


LOGS = {
    "tiresias": TIRESIAS + "".join(f"{i},2,{i}5,606,vgg19,164,30\n" for i in range(4)),
}


@pytest.mark.parametrize("name", sorted(LOGS))
def test_gzip_is_recognised_by_its_bytes(tmp_path: Path, name: str) -> None:
    plain = read_workload(f"{name}:{write(tmp_path / 'plain', LOGS[name])}")
    packed = read_workload(f"{name}:{write(tmp_path / 'packed', gzip.compress(LOGS[name].encode()))}")
    assert packed.fingerprint() == plain.fingerprint()


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    name=st.sampled_from(sorted(LOGS)),
    cut=st.integers(0, 600),
    place=st.integers(0, 600),
    garbage=st.one_of(st.binary(max_size=8), st.sampled_from([b"-1", b"1e308", b"\t", b",", b"\n", b'"'])),
)
def test_damage_gives_a_workload_or_a_trace_error(
    tmp_path: Path, name: str, cut: int, place: int, garbage: bytes
) -> None:
    damaged = bytearray(LOGS[name].encode()[: cut or None])
    damaged[place : place + len(garbage)] = garbage
    path = write(tmp_path / "damaged", bytes(damaged))
    complaint = ""
    try:
        workload, report = read_trace(f"{name}:{path}")
    except TraceError as error:
        complaint = str(error)
    if complaint:
        assert path in complaint
    else:
        assert report.kept == len(workload) == report.rows - sum(report.dropped.values())
