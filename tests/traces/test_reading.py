"""Readers keep usable rows, count the others, and refuse malformed ones with place, field and remedy."""

from __future__ import annotations

import gzip
import json
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from trace_samples import LAYOUTS as LOGS
from trace_samples import SAMPLES, WRITERS

from gpusched_env.errors import TraceError
from gpusched_env.problem.workload import Workload
from gpusched_env.traces import (
    CLUSTER_READERS,
    READERS,
    read_cluster,
    read_trace,
    read_workload,
)  # fmt: skip
from studies.published_tables import LAYOUTS, read_table
from tests.traces import test_tables

PROCESSED = "timestamp,duration,num_gpus,gpu_time,cluster\n"


def write(path: Path, text: str | bytes) -> str:
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return str(path)


def attempt(start: str, end: str, *hosts: int) -> dict[str, Any]:
    detail = [{"ip": f"m{i}", "gpus": [f"gpu{k}" for k in range(n)]} for i, n in enumerate(hosts)]
    return {"start_time": start, "end_time": end, "detail": detail}


def record(jobid: str, submitted: str, *attempts: dict[str, Any]) -> dict[str, Any]:
    job = {"status": "Pass", "vc": "v", "jobid": jobid, "user": "u", "submitted_time": submitted}
    return {**job, "attempts": list(attempts)}


A = attempt("2017-10-07 01:00:00", "2017-10-07 01:01:00", 8)
B = attempt("2017-10-07 02:00:00", "2017-10-07 02:00:30", 8, 8)


def test_philly_json_sums_attempts_and_takes_the_largest_gang(tmp_path: Path) -> None:
    log = [
        record("a", "2017-10-07 00:59:00", A, B, A),
        record("b", "None"),
        record("c", "2017-10-07 00:00:00"),
        record("d", "2017-10-07 01:00:00", attempt("None", "None", 64), A),
        record("e", "2017-10-07 01:00:00", attempt("2017-10-07 01:00:00", "2017-10-07 00:00:00", 1)),
        record("f", "2017-10-07 01:00:00", attempt("2017-10-07 01:00:00", "2017-10-07 01:00:01")),
    ]
    workload, report = read_trace("philly:" + write(tmp_path / "log.json", json.dumps(log)))
    assert workload.jobs["duration_s"].tolist() == [150.0, 60.0]
    assert workload.jobs["gpus"].tolist() == [16, 8]
    assert workload.jobs["arrival_s"].tolist() == [0.0, 60.0]
    assert workload.attributes["original_id"].tolist() == ["a", "d"]
    assert report.dropped == {
        "no submission time": 1,
        "no attempt with a start and an end": 2,
        "CPU job (no GPUs)": 1,
    }
    assert report.rows == 6
    assert report.rows == report.kept + sum(report.dropped.values())


def test_saved_workload_is_a_format(tmp_path: Path) -> None:
    workload = Workload.from_columns([0, 1], [1, 2], [3, 4])
    workload.save(tmp_path / "w.npz")
    assert read_workload(f"file:{tmp_path / 'w.npz'}").fingerprint() == workload.fingerprint()


GOOD = "2017-10-09 00:00:10,5.0,2,10.0,b\n"


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("philly", "", ["empty"]),
        ("philly", PROCESSED, ["no usable job"]),
        ("philly", PROCESSED + GOOD + "2017-10-09 00:00:10,5.0,2,10.0\n", ["line 3", "4 fields", "5"]),
        ("philly", (PROCESSED + GOOD).encode() + b"\xff\xfe\n", ["line 3", "UTF-8"]),
        ("philly", PROCESSED + '"2017-10-09 00:00:10,1,1,1,b\n', ["CSV"]),
        ("philly", "timestamp,duration,cluster\nx,y,z\n", ["line 1", "'num_gpus'", "missing"]),
        ("philly", "a,b\n1,2\n", ["line 1", "not a Philly CSV", "jobid"]),
        ("philly", "[", ["after record 0", "cut"]),
        ("philly", "[]", ["no records"]),
        ("philly", "{}", ["no records"]),
        ("philly", "[3]", ["record 1", "jobid"]),
        ("philly", '[{"jobid": "a"}]', ["record 1", "'vc'"]),
        ("philly", json.dumps([record("a", "2017-10-07 00:59:00", A)] * 2), ["record 2", "'jobid'", "twice"]),
        ("philly", json.dumps([record("a", "2017-10-07 00:59:00", A)])[:-40], ["record 0", "cut"]),
        ("philly", json.dumps([record("a", "2017-10-07", A)]), ["record 1", "'submitted_time'"]),
        ("philly", json.dumps([{**record("a", "None"), "attempts": "x"}]), ["record 1", "'attempts'", "list"]),
        ("helios", gzip.compress(b"x" * 1000, mtime=0)[:-9], ["gzip", "cut"]),
        ("file", "nonsense", ["not a workload file"]),
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


def test_a_file_without_line_ends_is_not_read_into_memory(tmp_path: Path) -> None:
    path = write(tmp_path / "trace", PROCESSED + "x" * (1 << 20))
    with pytest.raises(TraceError, match="line 2: 1,048,576 bytes or more; is this the right file"):
        read_trace(f"philly:{path}")


SOURCES: list[tuple[Callable[[str], object], Any, str, str]] = [  # reader, its formats, a wrong name, what it means
    (read_trace, READERS, "phily", "philly"),
    (read_cluster, CLUSTER_READERS, "openbb", "openb"),
    (read_table, LAYOUTS, "lucid-pair", "lucid-pairs"),
]


@pytest.mark.parametrize(("reader", "formats", "wrong", "meant"), SOURCES)
def test_wrong_sources(reader: Callable[[str], object], formats: list[str], wrong: str, meant: str) -> None:
    with pytest.raises(TraceError, match=f"did you mean '{meant}'"):
        reader(f"{wrong}:x")
    with pytest.raises(TraceError, match=f"write FORMAT:PATH.*; formats: {sorted(formats)[0]}, "):
        reader("x.csv")
    for name in formats:
        with pytest.raises(TraceError, match=r"(?i)no such file"):
            reader(f"{name}:no/such/file")


@pytest.mark.parametrize(
    ("reader", "source", "content"),
    [
        (read_trace, "tiresias:@tiresias/60_job.csv", SAMPLES["tiresias"][0]),
        (read_cluster, "tiresias:@tiresias/n1g4.csv", b"num_switch,num_node_p_switch,num_gpu_p_node\n3,2,4\n"),
        (read_table, "openb-pods:@alibaba/openb_pod_list_multigpu20.csv", test_tables.SAMPLES["openb-pods"]),
    ],
)
def test_fetched_files_have_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reader: Callable[[str], object], source: str, content: bytes
) -> None:
    monkeypatch.setenv("GPUSCHED_DATA", str(tmp_path))
    name = source.partition("@")[2]
    with pytest.raises(TraceError, match=f"not fetched yet; do that with: gpusched traces fetch {name}"):
        reader(source)
    (tmp_path / name).parent.mkdir()
    (tmp_path / name).write_bytes(content)
    assert reader(source)


@pytest.mark.parametrize(("name", "number"), LOGS)
def test_reading_takes_at_most_300_bytes_a_job_beside_the_workload(tmp_path: Path, name: str, number: int) -> None:
    """benchmarks/traces.py measures the same bound on a million jobs."""
    rows = 3_000
    source = f"{name}:{write(tmp_path / 'log', WRITERS[name][number](rows))}"
    read_trace(source)  # imports and tables that are loaded once
    tracemalloc.start()
    try:
        workload, report = read_trace(source)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert report.kept == rows
    arrays = workload.jobs.nbytes + sum(column.nbytes for column in workload.attributes.values())
    arrays += workload.profiles.rows.nbytes + workload.profiles.compute_s.nbytes  # Hydra's jobs have one each
    held = {"kubernetes": 2_000, "volcano": 3_000}  # their pods are held until all of a gang are read
    assert peak - arrays < held.get(name, 300) * rows, (peak - arrays) / rows
