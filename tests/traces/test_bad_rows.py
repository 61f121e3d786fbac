"""``skip_bad_rows``: every reader counts malformed rows and reports their lines; the other rows give the same jobs."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import numpy as np
import pytest
from published import TRACES, here
from trace_samples import LAYOUTS, WRITERS

from gpusched_env.errors import TraceError
from gpusched_env.problem.workload import Workload
from gpusched_env.scenarios import WorkloadSpec, get_scenario
from gpusched_env.traces import read_trace
from tests.traces.test_pai_tables import JOBS, TASKS, tables

TEXTS = [
    (name, number)
    for name, number in LAYOUTS
    if name not in ("file", "philly-json", "kubernetes", "kueue", "volcano") and (name, number) != ("philly", 2)
]


def write(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def facts(workload: Workload) -> list[list[object]]:
    columns = [workload.jobs[name].tolist() for name in ("gpus", "iterations", "duration_s", "estimate_s")]
    return [list(map(str, column)) for column in [*columns, *workload.attributes.values()]]


@pytest.mark.parametrize(("name", "number"), TEXTS)
@pytest.mark.parametrize("damage", ["cut", "not UTF-8", "wrong values"])
def test_every_reader_skips_a_bad_row_and_counts_it(tmp_path: Path, name: str, number: int, damage: str) -> None:
    lines = WRITERS[name][number](5).splitlines(keepends=True)
    bad = len(lines) - 3  # the third of five rows
    row = {
        "cut": b"7" + lines[bad][-3:],
        "not UTF-8": b"\xff" + lines[bad],
        "wrong values": re.sub(rb"[^,\t \n]+", b"-x", lines[bad]),
    }[damage]
    damaged = write(tmp_path / "log", b"".join([*lines[:bad], row, *lines[bad + 1 :]]))
    with pytest.raises(TraceError, match=f"line {bad + 1}\\b"):
        read_trace(f"{name}:{damaged}")
    workload, report = read_trace(f"{name}:{damaged}", skip_bad_rows=True)
    assert (report.rows, report.kept) == (5, 4)
    (reason,) = report.dropped_at
    assert reason.startswith("malformed: ")
    assert report.dropped_at[reason].tolist() == [bad + 1]
    assert f"dropped 1: {reason} (line {bad + 1})" in report.describe()
    if name != "dally":  # its ids are the log's
        assert workload.jobs["id"].tolist() == [0, 1, 3, 4]  # row numbers, counting the malformed row
    whole = read_trace(f"{name}:{write(tmp_path / 'whole', b''.join(lines))}")[0]
    assert facts(workload) == facts(whole.select(np.array([0, 1, 3, 4])))


def test_records_of_json_are_skipped_and_damaged_json_is_not(tmp_path: Path) -> None:
    data = WRITERS["philly-json"][0](4)
    path = write(tmp_path / "log", data.replace(b'"2017-10-07 00:59:01"', b'"yesterday"'))
    workload, report = read_trace(f"philly:{path}", skip_bad_rows=True)
    assert workload.attributes["original_id"].tolist() == ["j0", "j2", "j3"]
    assert report.places == {"malformed: field 'submitted_time': expected a time as YYYY-MM-DD HH:MM:SS": [2]}
    write(path, data[:-30])
    with pytest.raises(TraceError, match="cut or damaged"):
        read_trace(f"philly:{path}", skip_bad_rows=True)


def test_the_second_of_two_equal_ids_is_skipped(tmp_path: Path) -> None:
    path = write(tmp_path / "log", WRITERS["tiresias"][0](4).replace(b"\n3,", b"\n1,"))
    workload, report = read_trace(f"tiresias:{path}", skip_bad_rows=True)
    assert workload.attributes["original_id"].tolist() == ["0", "1", "2"]
    assert report.places == {"malformed: field 'job_id': an id that occurs twice": [5]}


def test_each_line_that_a_stray_quote_swallows_is_counted(tmp_path: Path) -> None:
    lines = WRITERS["tiresias"][0](6).splitlines(keepends=True)
    lines[3] = b'"' + lines[3]  # to the end of the file
    _, report = read_trace(f"tiresias:{write(tmp_path / 'log', b''.join(lines))}", skip_bad_rows=True)
    assert (report.rows, report.kept) == (6, 2)
    assert [places.tolist() for places in report.dropped_at.values()] == [[4, 5, 6, 7]]


def test_a_file_without_a_usable_row_and_another_layout_are_still_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "log", b"job_id,num_gpu,submit_time,model_name,duration\n1,2\n")
    with pytest.raises(TraceError, match=r"no usable job(.|\n)*dropped 1: malformed: 2 fields"):
        read_trace(f"tiresias:{path}", skip_bad_rows=True)
    with pytest.raises(TraceError, match="not a Philly CSV"):
        read_trace(f"philly:{path}", skip_bad_rows=True)


def test_jobs_with_a_bad_task_are_dropped_because_their_gang_is_not_known(tmp_path: Path) -> None:
    folder = tables(tmp_path, job=JOBS, task=TASKS)
    before = read_trace(f"pai-tables:{folder}")[0].attributes["original_id"].tolist()
    lines = TASKS.splitlines(keepends=True)
    bad = next(i for i, line in enumerate(lines) if line.startswith("a,") and line.split(",")[8])
    fields = lines[bad].split(",")
    (folder / "pai_task_table.csv").write_text(
        "".join([*lines[:bad], ",".join([*fields[:2], "x", *fields[3:]]), *lines[bad + 1 :]])
    )
    with pytest.raises(TraceError, match="inst_num"):
        read_trace(f"pai-tables:{folder}")
    workload, report = read_trace(f"pai-tables:{folder}", skip_bad_rows=True)
    assert workload.attributes["original_id"].tolist() == [name for name in before if name != "a"]
    assert report.dropped["a malformed row among its tasks or instances, which was skipped"] == 1
    assert any("malformed rows of the other tables" in note for note in report.notes)


def test_a_scenario_skips_bad_rows_where_it_says_so(tmp_path: Path) -> None:
    path = write(tmp_path / "log", WRITERS["swf"][0](3) + b"3 1 2\n")
    spec = WorkloadSpec(f"swf:{path}", {"skip_bad_rows": True})
    assert len(spec.read()[0]) == 3
    tiny = get_scenario("tiny-v1")
    one, other = (tiny.with_workload(f"swf:{path}", parameters=spec.parameters) for _ in "12")
    assert one.fingerprint() == other.fingerprint() != tiny.with_workload(f"swf:{path}").fingerprint()


@here
def test_a_published_log_with_a_bad_row_loses_that_row_alone(tmp_path: Path) -> None:
    source = f"swf:{TRACES / 'swf/hpc2n_extract.swf.gz'}"
    lines = gzip.decompress((TRACES / "swf/hpc2n_extract.swf.gz").read_bytes()).splitlines(keepends=True)
    row = next(i for i in range(len(lines) // 2, len(lines)) if not lines[i].startswith(b";"))
    lines[row] = b" ".join(lines[row].split()[:9]) + b"\n"
    damaged = write(tmp_path / "log", b"".join(lines))
    with pytest.raises(TraceError, match="9 fields where 18 are expected"):
        read_trace(f"swf:{damaged}")
    whole, before = read_trace(source)
    workload, after = read_trace(f"swf:{damaged}", skip_bad_rows=True)
    assert after.rows == before.rows
    assert after.places["malformed: 9 fields where 18 are expected"] == [row + 1]
    lost = set(whole.jobs["id"].tolist()) - set(workload.jobs["id"].tolist())
    assert len(lost) <= 1
    assert len(workload) == len(whole) - len(lost)
