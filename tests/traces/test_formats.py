"""Acme and the Standard Workload Format: one small file for each rule of a reader."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from gpusched_env.errors import TraceError
from gpusched_env.traces import read_trace

CPU = "CPU job (no GPUs)"
SEREN = "job_id,user,node_num,gpu_num,cpu_num,type,state,submit_time,start_time,end_time,duration,queue,gpu_time\n"
KALOS = (
    "job_id,user,node_num,gpu_num,cpu_num,mem_per_pod_GB,shared_mem_per_pod,type,state,submit_time,start_time,end_time,"
    "fail_time,stop_time,duration,queue,gpu_time\n"
)
SHORT = "job_id,gpu_num,submit_time,duration,queue\n"


def write(path: Path, text: str | bytes) -> str:
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return str(path)


def at(minute: int, second: int = 0, zone: str = "+00:00", hour: int = 11) -> str:
    return f"2023-05-17 {hour:02d}:{minute:02d}:{second:02d}{zone}"


def seren(job: str, gpus: int, state: str, submit: str, start: str, end: str, duration: object, queue: object) -> str:
    return f"{job},u,1,{gpus},8,Other,{state},{submit},{start},{end},{duration},{queue},0\n"


def kalos(job: str, gpus: int, state: str, submit: str, start: str, end: str, duration: object, queue: object) -> str:
    return f"{job},u,1,{gpus},8,9,100.0,Other,{state},{submit},{start},{end},,,{duration},{queue},0\n"


def swf(
    job: int, submit: object, run: object, allocated: object, requested: object = -1, time: object = -1, status: int = 1
) -> str:
    return f"{job} {submit} 0 {run} {allocated} -1 -1 {requested} {time} -1 {status} 7 -1 5 2 -1 -1 -1\n"


def test_duration_has_the_queue_in_kalos_and_not_in_seren(tmp_path: Path) -> None:
    row = ("a", 8, "COMPLETED", at(0), at(0, 10), at(1))
    for name, header, line, duration in (("seren", SEREN, seren, 50), ("kalos", KALOS, kalos, 60)):
        workload, report = read_trace("acme:" + write(tmp_path / name, header + line(*row, duration, 10)))
        assert workload.jobs["duration_s"].tolist() == [50.0]
        assert (workload.name, report.format, report.notes) == (f"acme-{name}", "acme", {})
        assert workload.attributes["status"].tolist() == ["COMPLETED"]
    workload, _ = read_trace("acme:" + write(tmp_path / "short", SHORT + f"a,8,{at(0)},60.0,10.0\n"))
    assert (workload.name, workload.jobs["duration_s"].tolist()) == ("acme-kalos", [50.0])


def test_acme_times_carry_their_zone(tmp_path: Path) -> None:
    rows = seren("a", 1, "FAILED", at(0, 0, "+08:00"), at(0, 0, "+08:00"), at(1, 0, "+08:00"), 60, 0)
    rows += seren("b", 1, "PREEMPTED", at(0, 5, hour=3), at(0, 5, hour=3), at(0, 6, hour=3), 1, 0)
    workload, report = read_trace("acme:" + write(tmp_path / "t", SEREN + rows))
    assert workload.jobs["arrival_s"].tolist() == [0.0, 5.0]
    assert report.origin == "2023-05-17T11:00:00"
    assert workload.attributes["status"].tolist() == ["FAILED", "PREEMPTED"]


def test_acme_rows_without_a_run_time(tmp_path: Path) -> None:
    rows = [
        kalos("a", 8, "COMPLETED", at(0), at(0, 10), at(1), 60, 10),
        kalos("b", 8, "RUNNING", at(0), at(0, 10), "", 60, 10),
        kalos("c", 8, "CANCELLED", at(0), "", at(1), 60, ""),
        kalos("d", 0, "RUNNING", at(0), at(0, 10), "", 60, 10),
        kalos("e", 8, "FAILED", at(0), at(0, 10), at(0, 10), 10, 10),
        kalos("f", 8, "FAILED", at(0), at(0, 10), at(0, 10), 5, 10),
        kalos("g", 8, "FAILED", at(0), at(0, 10), at(0, 10), "", 10),
        kalos("h", 8, "COMPLETED", at(0), at(0, 10), at(1), 50, 10),
    ]
    workload, report = read_trace("acme:" + write(tmp_path / "t", KALOS + "".join(rows)))
    assert workload.attributes["original_id"].tolist() == ["a", "h"]
    assert workload.jobs["duration_s"].tolist() == [50.0, 40.0]
    assert report.dropped == {
        "still running at the end of the log": 1,
        "never started": 2,
        CPU: 1,
        "zero run time": 1,
        "duration shorter than the queue": 1,
    }
    assert report.notes == {"jobs whose start and end do not give the run time; the duration column is used": 1}


def test_swf_fields(tmp_path: Path) -> None:
    rows = [
        swf(1, 100, 50.5, 4, 8, 60),
        swf(2, 110, 30, -1, 2),
        swf(3, 120, 70, 1, 1, 60, status=0).rstrip("\n") + " 99 extra\n",
        swf(4, -1, 1, 1),
        swf(5, 130, -1, 1, status=5),
        swf(6, 130, 1, -1, -1),
        swf(6, 130, 0, 1, status=5).replace("6 ", "7 ", 1),
        swf(1, 100, 20, 4, 8, 60, status=2),
        swf(1, 100, 30.5, 4, 8, 60, status=3),
    ]
    workload, report = read_trace("swf:" + write(tmp_path / "t", b"; \xc5ke\n\n" + "".join(rows).encode() + b"  ; end"))
    assert workload.jobs["arrival_s"].tolist() == [0.0, 10.0, 20.0]
    assert workload.jobs["gpus"].tolist() == [4, 2, 1]
    assert workload.jobs["duration_s"].tolist() == [50.5, 30.0, 70.0]
    assert workload.jobs["estimate_s"].tolist() == pytest.approx([60.0, np.nan, 60.0], nan_ok=True)
    assert workload.attributes["status"].tolist() == ["completed", "completed", "failed"]
    assert workload.attributes["queue"].tolist() == ["2", "2", "2"]
    assert workload.attributes["name"].tolist() == ["5", "5", "5"]
    assert report.dropped == {
        "no submission time": 1,
        "run time unknown": 1,
        "number of processors unknown": 1,
        "zero run time": 1,
        "one of several runs of a job (status 2 to 4); the job's summary line is used": 2,
    }
    assert report.places["no submission time"] == [6]
    assert sorted(report.notes.values()) == [1, 1]
    assert report.rows == 9


def test_swf_needs_no_header(tmp_path: Path) -> None:
    workload, _ = read_trace("swf:" + write(tmp_path / "t", gzip.compress(swf(1, 5, 6, 7).encode())))
    assert workload.jobs[["arrival_s", "gpus", "duration_s"]].tolist() == [(0.0, 7, 6.0)]


ACME_GOOD = kalos("a", 8, "COMPLETED", at(0), at(0, 10), at(1), 60, 10)


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("acme", "a,b\n1,2\n", ["line 1", "not an Acme file", "submit_time"]),
        ("acme", SHORT.replace("queue", "queue,gpu_time") + f"a,8,{at(0)},6,1,1\n", ["line 1", "not an Acme file"]),
        ("acme", KALOS + ACME_GOOD + ACME_GOOD, ["line 3", "'job_id'", "twice"]),
        ("acme", SHORT + "a,8,2023-05-17 11:00:00,60,10\n", ["line 2", "'submit_time'", "+HH:MM"]),
        ("acme", SHORT + f"a,8,{at(0)},-60,10\n", ["line 2", "'duration'", "-60"]),
        ("acme", SHORT + f"a,8,{at(0)},60,x\n", ["line 2", "'queue'", "'x'"]),
        ("acme", SHORT + f"a,0.5,{at(0)},60,10\n", ["line 2", "'gpu_num'", "whole"]),
        ("acme", KALOS + ACME_GOOD.replace(at(1), "soon"), ["line 2", "'end_time'", "'soon'"]),
        ("swf", "", ["empty"]),
        ("swf", "; only a header\n", ["no usable job"]),
        ("swf", swf(1, 0, 1, 1) + "1 2 3\n", ["line 2", "3 fields", "18"]),
        ("swf", swf(1, 0, 1, 1) * 2, ["line 2", "'job number'", "twice"]),
        ("swf", swf(1, -7, 1, 1), ["line 1", "'submit time'", "-7"]),
        ("swf", swf(1, 0, "nan", 1), ["line 1", "'run time'", "finite"]),
        ("swf", swf(1, 0, 1, 1.5), ["line 1", "'allocated processors'", "whole"]),
        ("swf", swf(1, 0, 1, 1, -2), ["line 1", "'requested processors'"]),
        ("swf", swf(1, 0, 1, 1, 1, "x"), ["line 1", "'requested time'"]),
        ("swf", swf(1, 0, 1, 1, status=9), ["line 1", "'status'", "'9'"]),
        ("swf", swf(1, 0, 1, 1).encode() + b"\xff\n", ["line 2", "UTF-8"]),
    ],
)
def test_malformed_files_name_place_field_and_remedy(
    tmp_path: Path, name: str, text: str | bytes, words: list[str]
) -> None:
    path = write(tmp_path / "trace", text)
    with pytest.raises(TraceError) as caught:
        read_trace(f"{name}:{path}")
    for word in [path, *words]:
        assert word in str(caught.value)
