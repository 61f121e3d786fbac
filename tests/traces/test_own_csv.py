"""A user's CSV: columns by name or by a mapping, reported guesses, and errors that name the remedy."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from gpusched_env.errors import ScenarioError, TraceError
from gpusched_env.problem.workload import Workload
from gpusched_env.scenarios import WorkloadSpec, get_scenario, scenario_from_dict
from gpusched_env.traces import ReadReport, read_trace
from gpusched_env.traces.formats.own_csv import AGAIN
from gpusched_env.traces.parsing.columns import REPLACED, UNEVEN


def read(folder: Path, text: str, **options: object) -> tuple[Workload, ReadReport]:
    path = folder / "own.csv"
    path.write_text(text)
    return read_trace(f"csv:{path}", **options)


def test_common_column_names_are_guessed_and_reported(tmp_path: Path) -> None:
    text = (
        "JobID,submit_time,n_gpus,run_time_min,User,partition,estimate_h,note\n"
        "a,2024-01-01T00:00:00Z,2,10,u1,q,1,x\n"
        "b,2024-01-01 01:05:00.500+01:00,1,5.5,u2,q,,x\n"
    )
    workload, report = read(tmp_path, text)
    jobs = workload.jobs
    assert jobs["arrival_s"].tolist() == [0, 300.5]
    assert jobs["gpus"].tolist() == [2, 1]
    assert jobs["duration_s"].tolist() == [600, 330]
    assert jobs["estimate_s"][0] == 3600
    assert math.isnan(jobs["estimate_s"][1])
    assert {name: column.tolist() for name, column in workload.attributes.items()} == {
        "original_id": ["a", "b"],
        "user": ["u1", "u2"],
        "partition": ["q", "q"],
    }
    assert report.origin == "2024-01-01T00:00:00"
    assert report.columns == [
        (
            "columns guessed: arrival = submit_time [timestamps with a zone]; gpus = n_gpus; "
            "duration = run_time_min [minutes]; estimate = estimate_h [hours]; "
            "id = JobID; user = User; partition = partition"
        ),
        "columns not read: note",
        "first job (line 2): arrival 2024-01-01T00:00:00Z, 2 GPUs, run time 600 s, claimed run time 3600 s",
    ]
    assert all(line in report.describe() for line in report.columns)


def test_rows_of_exports_that_overlap_count_once_without_ids(tmp_path: Path) -> None:
    (tmp_path / "m1.csv").write_text("submit,duration,gpus,note\n0,10,1,a\n5,10,2,a\n5,10,2,a\n5,10,2,b\n")
    (tmp_path / "m2.csv").write_text("submit,duration,gpus,note\n5,10,2,a\n5,10,2,a\n5,10,2,a\n5,10,2,c\n9,10,4,a\n")
    workload, report = read_trace(f"csv:{tmp_path}/m1.csv,{tmp_path}/m2.csv")
    assert report.dropped == {AGAIN: 2}
    assert "rows that an earlier file has, too (line 2 of m2.csv, 3 of m2.csv)" in report.describe()
    assert workload.jobs["gpus"].tolist() == [1, 2, 2, 2, 2, 2, 4]
    (tmp_path / "m2.csv").write_text("submit,duration,gpus\n5,10,2\n9,10,4\n")  # what both have counts
    workload, report = read_trace(f"csv:{tmp_path}/m?.csv")
    assert (report.dropped, len(workload)) == ({AGAIN: 1}, 5)


def test_a_mapping_names_columns_and_units(tmp_path: Path) -> None:
    text = "t,n,wall,who\n1000,4,2.5,x\n61000,1,1,y\n"
    wanted = {"arrival_ms": "t", "gpus": "n", "duration_h": "wall", "user": "who"}
    workload, report = read(tmp_path, text, map=wanted)
    assert workload.jobs["arrival_s"].tolist() == [0, 60]
    assert workload.jobs["duration_s"].tolist() == [9000, 3600]
    assert workload.attributes["user"].tolist() == ["x", "y"]
    assert report.columns == [
        "columns as mapped: arrival = t [milliseconds]; gpus = n; duration = wall [hours]; user = who",
        "first job (line 2): arrival 1000 milliseconds, 4 GPUs, run time 9000 s",
    ]
    as_text = ",".join(f"{role}={column}" for role, column in wanted.items())
    assert read(tmp_path, text, map=as_text)[0].fingerprint() == workload.fingerprint()


def test_start_and_end_give_the_run_time(tmp_path: Path) -> None:
    text = (
        "submitted_at,started_at,ended_at,gpus\n"
        "2024-01-01 00:00:00,2024-01-01 00:01:00,2024-01-01 00:03:30,1\n"
        "2024-01-01 00:00:10,,,1\n"
        "2024-01-01 00:00:20,2024-01-01 00:01:00,NaT,1\n"
        "2024-01-01 00:00:30,2024-01-01 00:01:00,2024-01-01 00:00:59,1\n"
        ",2024-01-01 00:01:00,2024-01-01 00:01:59,1\n"
        "2024-01-01 00:00:50,2024-01-01 00:01:00,2024-01-01 00:01:59,\n"
        "2024-01-01 00:00:50,,,0\n"
    )
    workload, report = read(tmp_path, text)
    assert workload.jobs["duration_s"].tolist() == [150]
    assert report.places == {
        "never started": [3],
        "still running at the end of the log": [4],
        "ended before it started": [5],
        "no submission time": [6],
        "number of GPUs unknown": [7],
        "CPU job (no GPUs)": [8],
    }


@pytest.mark.parametrize(
    ("header", "mapping", "words"),
    [
        (
            "submit_time,arrival,gpus,duration",
            {},
            (
                "the columns 'submit_time' and 'arrival' could all be the arrival (when the job was submitted: "
                "seconds or timestamps): write --map arrival=submit_time or --map arrival=arrival"
            ),
        ),
        (
            "submit,gpus,duration,start_time,end_time",
            {},
            (
                "the run time could be 'duration', or the time from 'start_time' to 'end_time': write --map "
                "duration=duration, or --map start=start_time,end=end_time"
            ),
        ),
        ("submit,gpus,duration,user,username", {}, "--map user=username, or --map user= to read neither"),
        ("when,gpus,duration", {}, "no column looks like the arrival"),
        ("when,gpus,duration", {}, "found when, gpus, duration; write --map arrival=COLUMN"),
        ("submit,gpus", {}, "write --map duration=COLUMN, or --map start=COLUMN,end=COLUMN"),
        ("submit,gpus,start", {}, "no column looks like the end"),
        ("submit;gpus;duration", {}, "columns must be separated by commas"),
        ("submit,gpus,duration", {"gpus": "gpu"}, "map gpus=gpu: unknown column 'gpu': did you mean 'gpus'?"),
        ("submit,gpus,duration", {"arival": "submit"}, "unknown role 'arival': did you mean 'arrival'"),
        (
            "submit,gpus,wall_min",
            {"duration": "wall_min"},
            "is 'wall_min' in minutes? write --map duration_min=wall_min",
        ),
        ("submit,gpus,a,b", {"duration_s": "a", "duration_h": "b"}, "duration is given twice"),
    ],
)
def test_ambiguous_columns_are_refused_with_the_remedy(
    tmp_path: Path, header: str, mapping: dict[str, str], words: str
) -> None:
    with pytest.raises(TraceError) as caught:
        read(tmp_path, f"{header}\n" + ",".join("1" for _ in header.split(",")) + "\n", map=mapping)
    assert words in str(caught.value)


def test_a_mapping_resolves_ambiguous_columns(tmp_path: Path) -> None:
    row = "submit,gpus,duration,start_time,end_time,user,username\n1,1,50,100,110,a,b\n"
    chosen = {"start": "start_time", "end": "end_time", "user": ""}
    workload, report = read(tmp_path, row, map=chosen)
    assert workload.jobs["duration_s"].tolist() == [10]
    assert "user" not in workload.attributes
    assert report.columns[-2] == "columns not read: duration, user, username"
    assert read(tmp_path, row, map={"duration": "duration", "user": "user"})[0].jobs["duration_s"].tolist() == [50]
    starts = "start_time,gpus,duration\n5,1,50\n"  # a start may stand for the arrival
    assert read(tmp_path, starts, map={"arrival": "start_time"})[0].jobs["duration_s"].tolist() == [50]


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ("x,1,1", "line 2, field 'submit': 'x': expected seconds, or a time as YYYY-MM-DD HH:MM:SS"),
        (
            "0,1,1\n2024-01-01 00:00:00,1,1",
            "line 3, field 'submit': '2024-01-01 00:00:00': the rows above have numbers",
        ),
        ("2024-01-01 00:00:00,1,1\n2024-01-01 00:00:00Z,1,1", "the rows above have timestamps without a zone"),
        ("2024-02-30 00:00:00,1,1", "no such date or time"),
        ("1700000000000,1,1", "1.7e+12 s is no date: is it in milliseconds? write --map arrival_ms=submit"),
        ("0,0.5,1", "line 2, field 'gpus': '0.5': expected a whole number of GPUs"),
        ("0,1,00:10:00", "line 2, field 'duration': '00:10:00': expected a finite number of seconds"),
    ],
)
def test_bad_values_name_line_column_and_remedy(tmp_path: Path, rows: str, words: str) -> None:
    with pytest.raises(TraceError) as caught:
        read(tmp_path, f"submit,gpus,duration\n{rows}\n")
    assert words in str(caught.value)


def test_start_and_end_of_two_kinds_are_refused(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="'start' has numbers and 'end' timestamps without a zone"):
        read(tmp_path, "submit,gpus,start,end\n0,1,5,2024-01-01 00:00:00\n")


def test_a_scenario_holds_the_mapping(tmp_path: Path) -> None:
    path = tmp_path / "own.csv"
    path.write_text("t,gpus,duration\n0,1,60\n5,2,60\n")
    tiny = get_scenario("tiny-v1")
    scenario = tiny.with_workload(f"csv:{path}", parameters={"map": {"arrival": "t"}}, profiles="unit")
    again = scenario_from_dict(scenario.as_dict())
    assert again.fingerprint() == scenario.fingerprint()
    assert len(again.instance(0).workload) == 2
    text = tiny.with_workload(f"csv:{path}", parameters={"map": "arrival=t"}, profiles="unit")
    assert text.fingerprint() == scenario.fingerprint()
    other = tiny.with_workload(f"csv:{path}", parameters={"map": {"arrival": "duration"}}, profiles="unit")
    assert other.fingerprint() != scenario.fingerprint()


@pytest.mark.parametrize(
    ("source", "parameters", "words"),
    [
        ("csv:own.csv", {"map": {"arival": "t"}}, "did you mean 'arrival'"),
        ("csv:own.csv", {"map": "arrival"}, "'arrival' is not of the form ROLE=COLUMN"),
        ("csv:own.csv", {"map": "user=a,user=b"}, "user is given twice"),
        ("csv:own.csv", {"map": ["t"]}, "give a table of texts"),
        ("csv:own.csv", {"maps": {}}, "unknown parameter 'maps': did you mean 'map'"),
        ("csv:own.csv", {"skip_bad_rows": 1}, "give true or false"),
        ("csv:own.csv", {"estimate": 1}, "give the path of a CSV"),
        ("auto:own.csv", {"map": {"arrival": "t"}}, "a CSV of your own: write csv:own.csv"),
        ("swf:own.csv", {"map": {"arrival": "t"}}, "a CSV of your own: write csv:own.csv"),
    ],
)
def test_options_of_a_log_are_checked_before_it_is_read(source: str, parameters: dict[str, object], words: str) -> None:
    with pytest.raises(TraceError) as caught:
        WorkloadSpec(source, parameters)
    assert words in str(caught.value)


def test_a_generator_takes_no_options_of_logs() -> None:
    with pytest.raises(ScenarioError, match="skip_bad_rows applies to logs only"):
        WorkloadSpec("synthetic:philly", {"skip_bad_rows": True})


def test_waits_between_times_of_two_kinds_are_not_known(tmp_path: Path) -> None:
    path = tmp_path / "jobs.csv"
    path.write_text("submit_time,start,end,gpus\n2025-01-01T00:00:00,60,7200,4\n")
    workload, report = read_trace(f"csv:{path}")
    assert "wait_s" not in workload.attributes
    assert not report.notes
    assert report.columns[-1] == (
        "waits are not known: 'submit_time' has timestamps without a zone, and 'start' has numbers; write both alike"
    )


def test_a_column_of_starts_without_a_time_is_named(tmp_path: Path) -> None:
    path = tmp_path / "jobs.csv"
    path.write_text("submit_time,start,duration,gpus\n0,,60,4\n")
    workload, report = read_trace(f"csv:{path}")
    assert "wait_s" not in workload.attributes
    assert report.columns[-1] == "waits are not known: 'start' is empty"


def test_nodes_are_a_number_or_a_range(tmp_path: Path) -> None:
    rows = "0,8,60,2\n0,4,60,1-4\n0,8,60,\n0,8,60,3\n"
    workload, report = read(tmp_path, "submit,gpus,duration,nodes\n" + rows)
    assert workload.attributes["min_nodes"].tolist() == [2, 1, 0, 0]
    assert workload.attributes["max_nodes"].tolist() == [2, 4, 0, 0]
    assert report.notes == {UNEVEN: 1}
    for text in ("4-1", "0-2", "g01", "1.5"):
        with pytest.raises(TraceError, match=r"line 2, field 'nodes'.*nodes"):
            read(tmp_path, f"submit,gpus,duration,nodes\n0,8,60,{text}\n")


def test_several_files_are_one_log_in_which_the_newest_row_of_an_id_counts(tmp_path: Path) -> None:
    header = "id,submit,gpus,duration,dependency\n"
    (tmp_path / "log-1.csv").write_text(header + "a,0,1,60,\nb,10,2,60,\nc,20,4,60,afterok:b\n")
    (tmp_path / "log-2.csv").write_text(header + "b,10,2,90,afterok:a\nd,30,8,60,afterok:c\n")
    for paths in ("log-*.csv", f"log-1.csv,{tmp_path}/log-2.csv"):
        for options in ({}, {"skip_bad_rows": True}):
            workload, report = read_trace(f"csv:{tmp_path}/{paths}", **options)
            assert workload.attributes["original_id"].tolist() == ["a", "c", "b", "d"]
            assert workload.jobs["duration_s"].tolist() == [60.0, 60.0, 90.0, 60.0]
            assert workload.attributes["dependency"].tolist() == ["", "afterok:3", "afterok:0", "afterok:2"]
            assert (report.rows, report.kept, report.dropped) == (5, 4, {REPLACED: 1})
            assert " of log-1.csv)" in report.describe()
    several, first = (WorkloadSpec(source=f"csv:{tmp_path}/{name}").identity() for name in ("log-*.csv", "log-1.csv"))
    assert several.startswith(f"{first}+")
    (tmp_path / "log-3.csv").write_text("id,submit,gpus\n")
    with pytest.raises(TraceError, match=r"log-3.csv, line 1: column 'duration' is missing"):
        read_trace(f"csv:{tmp_path}/log-*.csv")


@pytest.mark.parametrize(
    ("cells", "words"),
    [
        ("10,10", "zero run time"), ("10,5", "ended before it started"),
        ("10,inf", "field 'end': 'inf': expected a finite number"),
        ("-1,5", "field 'start': '-1': expected a finite number of seconds >= 0"), ("nan,5", "never started"),
        ("10,NaN", "still running at the end of the log"),
    ],
)  # fmt: skip
def test_run_times_that_no_job_can_have_are_named(tmp_path: Path, cells: str, words: str) -> None:
    text = f"id,submit,gpus,start,end\na,0,1,60,70\nb,1,1,{cells}\n"
    if "field" in words:
        with pytest.raises(TraceError, match=f"line 3, {words}"):
            read(tmp_path, text)
    else:
        assert read(tmp_path, text)[1].dropped == {words: 1}
