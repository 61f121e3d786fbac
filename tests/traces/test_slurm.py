"""Slurm's accounting table: one small file for each rule of the reader."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from gpusched_env.errors import TraceError
from gpusched_env.problem.workload import Workload
from gpusched_env.traces import ReadReport, read_trace
from gpusched_env.traces.formats import slurm
from gpusched_env.traces.parsing.columns import NODES, UNEVEN
from gpusched_env.traces.parsing.fields import Place
from gpusched_env.traces.parsing.slurm_fields import span_s

HEADER = "JobID|User|Account|Partition|QOS|Submit|Start|End|Elapsed|Timelimit|State|AllocTRES|NodeList\n"
# The synthetic example of the format's description: a step, an array task, a job that never ran, a het part, an array
EXAMPLE = HEADER + (
    "101|ana|vis|gpu|normal|2025-03-03T09:00:00|2025-03-03T09:05:00|2025-03-03T11:05:00|02:00:00|04:00:00|COMPLETED|"
    "billing=32,cpu=32,gres/gpu:h100=4,gres/gpu=4,mem=256G,node=1|g01\n"
    "101.batch|||||2025-03-03T09:05:00|2025-03-03T09:05:00|2025-03-03T11:05:00|02:00:00||COMPLETED|cpu=32,node=1|g01\n"
    "102_3|bo|nlp|gpu|low|2025-03-03T09:10:00|2025-03-03T12:00:00|2025-03-04T12:00:30|1-00:00:30|1-00:00:00|TIMEOUT|"
    "cpu=128,gres/gpu=16,node=2|g[02-03]\n"
    "103|bo|nlp|gpu|low|2025-03-03T10:00:00|None|2025-03-03T10:20:00|00:00:00|Partition_Limit|CANCELLED by 1002||"
    "None assigned\n"
    "104+1|cy|nlp|cpu|high|2025-03-03T11:00:00|2025-03-03T11:00:02|2025-03-03T11:30:02|00:30:00|UNLIMITED|PREEMPTED|"
    "cpu=8,mem=16G,node=1|c07\n"
    "105_[1-8%2]|cy|vis|gpu,long|low|2025-03-03T12:00:00|Unknown|Unknown|00:00:00|12:00:00|PENDING||None assigned\n"
)
SHORT_HEADER = "JobID|JobIDRaw|Submit|Eligible|Start|End|Elapsed|State|AllocTRES|Restarts\n"


def read(folder: Path, text: str, **options: object) -> tuple[Workload, ReadReport]:
    path = folder / "sacct.txt"
    path.write_text(text)
    return read_trace(f"slurm:{path}", **options)


def row(
    job: str,
    submit: str,
    start: str,
    end: str,
    state: str = "COMPLETED",
    *,
    raw: str = "",
    eligible: str = "",
    elapsed: str = "",
    tres: str = "gres/gpu=2",
    restarts: str = "0",
) -> str:
    times = [f"2025-03-03T{time}" if len(time) == 8 else time for time in (submit, eligible or submit, start, end)]
    return "|".join([job, raw or job, *times, elapsed, state, tres, restarts]) + "\n"


def test_the_example(tmp_path: Path) -> None:
    workload, report = read(tmp_path, EXAMPLE)
    jobs = workload.jobs
    assert jobs[["id", "arrival_s", "gpus", "duration_s"]].tolist() == [(0, 0.0, 4, 7_200.0), (2, 600.0, 16, 86_430.0)]
    assert jobs["estimate_s"].tolist() == [14_400.0, 86_400.0]
    assert {name: column.tolist() for name, column in workload.attributes.items()} == {
        "original_id": ["101", "102_3"],
        "user": ["ana", "bo"],
        "account": ["vis", "nlp"],
        "virtual_cluster": ["gpu", "gpu"],
        "qos": ["normal", "low"],
        "status": ["COMPLETED", "TIMEOUT"],
        "gpu_type": ["h100", ""],
        "gpu_types": ["", ""],
        "wait_s": [300.0, 10_200.0],
        "min_nodes": [1, 2],
        "max_nodes": [1, 2],
    }
    assert report.dropped == {slurm.STEP: 1, "never started": 2, "CPU job (no GPUs)": 1}
    assert report.notes == {slurm.SHORT: 1}
    assert (report.rows, report.kept, report.origin) == (6, 2, "2025-03-03T09:00:00")


def test_job_names_are_read_if_there_is_a_column(tmp_path: Path) -> None:
    lines = [line + ("|JobName" if not at else f"|train {at}") for at, line in enumerate(EXAMPLE.splitlines())]
    workload, _ = read(tmp_path, "\n".join(lines) + "\n")
    assert workload.attributes["name"].tolist() == ["train 1", "train 3"]


def test_the_older_form_ends_lines_with_a_bar_and_columns_may_be_in_any_order(tmp_path: Path) -> None:
    lines = [line.split("|") for line in EXAMPLE.splitlines()]
    turned = "".join("|".join(reversed(line)).upper() + "|\n" for line in lines[:2])
    plain = read(tmp_path, "\n".join("|".join(line) for line in lines[:2]) + "\n")[0]
    other = read(tmp_path, turned.replace("GRES/GPU", "gres/gpu").replace("NODE=", "node="))[0]
    assert other.fingerprint() == plain.fingerprint()


def test_a_job_asks_for_the_type_of_its_request_not_for_the_one_that_it_was_given(tmp_path: Path) -> None:
    header = "JobIDRaw|Submit|Start|End|State|ReqTRES|AllocTRES\n"
    given = "gres/gpu=2,gres/gpu:a100=2"
    asked = given, "gres/gpu=2", "gres/gpu:a100=1,gres/gpu:v100=1", ""
    lines = [f"{i}|2025-03-03T09:00:00|2025-03-03T09:00:00|2025-03-03T10:00:00|COMPLETED|{text}|{given}" for i, text
             in enumerate(asked)]  # fmt: skip
    workload, _ = read(tmp_path, header + "\n".join(lines) + "\n")
    assert workload.attributes["gpu_types"].tolist() == ["a100", "", "", ""]
    assert workload.attributes["gpu_type"].tolist() == ["a100"] * 4


def test_the_last_run_of_a_requeued_job_counts_and_its_first_submission(tmp_path: Path) -> None:
    runs = row("7", "09:00:00", "09:01:00", "09:31:00", "PREEMPTED", restarts="0")
    runs += row("8", "09:05:00", "09:05:00", "09:06:00")
    runs += row("7", "09:31:00", "10:00:00", "10:10:00", "NODE_FAIL", restarts="1")
    runs += row("7", "10:10:00", "11:00:00", "12:00:00", "COMPLETED", restarts="2", tres="gres/gpu=4")
    runs += row("9", "09:20:00", "09:20:00", "09:25:00", restarts="1")
    workload, report = read(tmp_path, SHORT_HEADER + runs)
    jobs = np.sort(workload.jobs, order="id")
    assert jobs[["id", "arrival_s", "gpus", "duration_s"]].tolist() == [
        (0, 0.0, 4, 3_600.0),
        (1, 300.0, 2, 60.0),
        (4, 1_200.0, 2, 300.0),
    ]
    assert report.dropped == {slurm.FURTHER: 2}
    assert report.places == {slurm.FURTHER: [4, 5]}
    assert report.notes == {slurm.AFRESH: 1, slurm.LOST: 1}
    assert workload.attributes["wait_s"][workload.jobs["id"] == 0].tolist() == [60.0]


def test_a_preempted_job_without_a_later_run_was_cut_short(tmp_path: Path) -> None:
    workload, report = read(tmp_path, SHORT_HEADER + row("7", "09:00:00", "09:01:00", "09:31:00", "PREEMPTED"))
    assert workload.jobs["duration_s"].tolist() == [1_800.0]
    assert report.notes == {slurm.SHORT: 1}


def test_a_requeued_job_that_waits_again_is_dropped(tmp_path: Path) -> None:
    runs = row("7", "09:00:00", "09:01:00", "09:31:00", "REQUEUED") + row("8", "09:00:00", "09:00:00", "09:01:00")
    report = read(tmp_path, SHORT_HEADER + runs + row("7", "09:31:00", "Unknown", "Unknown", "PENDING"))[1]
    assert report.dropped == {slurm.FURTHER: 1, "never started": 1}


def test_parts_of_a_heterogeneous_job_are_one_gang(tmp_path: Path) -> None:
    rows = row("7+0", "09:00:00", "09:10:00", "09:40:00", raw="7", tres="gres/gpu:a100=4,gres/gpu=4")
    rows += row("7+1", "09:00:00", "09:10:00", "09:45:00", raw="8", tres="gres/gpu:h100=8,gres/gpu=8")
    workload, report = read(tmp_path, SHORT_HEADER + rows)
    assert workload.jobs[["id", "gpus", "duration_s"]].tolist() == [(0, 12, 2_100.0)]
    assert workload.attributes["original_id"].tolist() == ["7"]
    assert report.dropped == {slurm.FURTHER: 1}


@pytest.mark.parametrize(
    ("asked", "given", "gpus", "counts"),
    [
        ("cpu=4,node=1", "node=1", 6, (1, 1)),  # sbatch -N 1 --gres=gpu:6
        ("cpu=4,node=2", "node=2", 8, (2, 2)),
        ("cpu=4,node=1", "node=2", 16, (1, 16)),  # sbatch --gpus=16: Slurm chose the nodes
        ("cpu=4,node=2", "node=3", 6, (2, 6)),
        ("cpu=4,node=3", "node=3", 8, (0, 0)),  # 3 + 3 + 2
        ("cpu=4,node=3", "node=4", 8, (0, 0)),
        ("cpu=4", "node=2", 8, (0, 0)),  # a request that tells no nodes
        ("", "node=2", 8, (2, 2)),  # only the allocation is told
    ],
)
def test_the_node_counts_of_a_job_are_those_that_it_asked_for(
    tmp_path: Path, asked: str, given: str, gpus: int, counts: tuple[int, int]
) -> None:
    header = SHORT_HEADER.replace("|AllocTRES", "|ReqTRES|AllocTRES")
    rows = row("7", "09:00:00", "09:10:00", "09:40:00", tres=f"{asked}|gres/gpu={gpus},{given}")
    rows += row("8", "09:00:00", "09:10:00", "09:40:00", tres="node=1|gres/gpu=1,node=1")
    workload, report = read(tmp_path, header + rows)
    assert [(*map(int, both),) for both in zip(*(workload.attributes[name] for name in NODES), strict=True)] == [
        counts,
        (1, 1),
    ]
    assert report.notes.get(UNEVEN, 0) == (counts == (0, 0) and asked != "cpu=4")


def test_columns_of_node_numbers_serve_where_resources_tell_none(tmp_path: Path) -> None:
    header = SHORT_HEADER.replace("|AllocTRES", "|ReqNodes|NNodes|AllocTRES")
    rows = row("7", "09:00:00", "09:10:00", "09:40:00", tres="1|2|gres/gpu=4")
    rows += row("8", "09:00:00", "09:10:00", "09:40:00", tres="|2|gres/gpu=4")
    workload = read(tmp_path, header + rows)[0]
    assert workload.attributes["min_nodes"].tolist() == [1, 2]
    assert workload.attributes["max_nodes"].tolist() == [4, 2]
    untold = read(tmp_path, SHORT_HEADER + row("7", "09:00:00", "09:10:00", "09:40:00"))[0]
    assert NODES.keys().isdisjoint(untold.attributes)


def test_parts_of_a_heterogeneous_job_with_equal_shares_add_up_their_nodes(tmp_path: Path) -> None:
    def counts(first: str, second: str) -> tuple[int, int, int]:
        rows = row("7+0", "09:00:00", "09:10:00", "09:40:00", raw="7", tres=first)
        rows += row("7+1", "09:00:00", "09:10:00", "09:45:00", raw="8", tres=second)
        rows += row("9", "09:00:00", "09:10:00", "09:45:00", tres="gres/gpu=1,node=1")
        workload, report = read(tmp_path, SHORT_HEADER + rows)
        return (*(int(workload.attributes[name][-1]) for name in NODES), report.notes.get(UNEVEN, 0))

    assert counts("gres/gpu=4,node=1", "gres/gpu=8,node=2") == (3, 3, 0)
    assert counts("gres/gpu=4,node=1", "cpu=8,node=1") == (1, 1, 0)
    assert counts("gres/gpu=4,node=1", "gres/gpu=8,node=1") == (0, 0, 1)


def test_a_job_whose_size_changed_is_dropped(tmp_path: Path) -> None:
    rows = row("7", "09:00:00", "09:10:00", "09:40:00", "RESIZING") + row("7", "09:00:00", "09:40:00", "09:45:00")
    rows += row("8", "09:00:00", "09:40:00", "09:45:00")
    assert read(tmp_path, SHORT_HEADER + rows)[1].dropped == {slurm.FURTHER: 1, "changed its size while it ran": 1}


def test_rows_without_a_usable_job(tmp_path: Path) -> None:
    rows = [
        row("1", "09:00:00", "09:00:00", "09:01:00"),
        row("2", "09:00:00", "09:00:00", "Unknown", "RUNNING"),
        row("3", "09:00:00", "None", "09:01:00", "CANCELLED by 7"),
        row("4", "09:00:00", "09:02:00", "09:01:00"),
        row("5", "09:00:00", "08:59:00", "09:01:00"),
        row("6", "Unknown", "09:00:00", "09:01:00", eligible="Unknown"),
        row("7", "09:00:00", "09:00:00", "09:01:00", tres=""),
        row("8", "09:00:00", "09:00:00", "09:01:00", tres="gres/gpu:1g.10gb=2,gres/gpu=2"),
        row("9", "09:00:00", "09:00:00", "09:01:00", tres="cpu=2,gres/shard=4"),
        row("10", "09:00:00", "09:00:00", "09:01:00", "REVOKED"),
        row("11", "09:00:00", "09:00:00", "09:00:00"),
        row("12", "09:00:00", "09:00:00", "09:01:00", tres="cpu=2"),
    ]
    workload, report = read(tmp_path, SHORT_HEADER + "".join(rows))
    assert len(workload) == 1
    assert report.dropped == {
        "still running at the end of the log": 1,
        "never started": 1,
        "ended before it started": 1,
        "started before it was submitted": 1,
        "no submission time": 1,
        "number of GPUs unknown": 1,
        "slices or shares of a GPU (MIG, gres/shard, gres/mps)": 2,
        "sibling of a job in another cluster of the federation": 1,
        "zero run time": 1,
        "CPU job (no GPUs)": 1,
    }


def test_a_job_arrives_when_it_becomes_eligible(tmp_path: Path) -> None:
    rows = row("1", "09:00:00", "09:00:00", "09:01:00")
    rows += row("2", "09:00:00", "10:30:00", "11:00:00", eligible="10:00:00")
    workload, report = read(tmp_path, SHORT_HEADER + rows)
    assert workload.jobs["arrival_s"].tolist() == [0.0, 3_600.0]
    assert workload.attributes["wait_s"].tolist() == [0.0, 1_800.0]
    assert workload.attributes["ineligible_s"].tolist() == [0.0, 3_600.0]
    assert report.notes == {slurm.LATER: 1}


def test_elapsed_is_right_where_the_clock_was_changed(tmp_path: Path) -> None:
    """In the night of 30 March 2025 the clock went from 2 to 3 h in Europe: the job ran one hour, not two."""
    times = ("2025-03-30T01:00:00", "2025-03-30T01:30:00", "2025-03-30T03:30:00")
    workload, report = read(tmp_path, SHORT_HEADER + row("1", *times, elapsed="01:00:00"))
    assert workload.jobs["duration_s"].tolist() == [3_600.0]
    assert report.notes == {slurm.CLOCK: 1}


def test_a_job_may_end_before_it_started_in_the_hour_that_repeats(tmp_path: Path) -> None:
    """In the night of 26 October 2025 the clock went from 3 to 2 h in Europe: 02:50 to 02:10 is 20 minutes."""
    times = ("2025-10-26T02:40:00", "2025-10-26T02:50:00", "2025-10-26T02:10:00")
    rows = row("1", *times, elapsed="00:20:00") + row("2", *times, elapsed="00:30:00")
    workload, report = read(tmp_path, SHORT_HEADER + rows)
    assert workload.jobs["duration_s"].tolist() == [1_200.0]
    assert report.notes == {slurm.CLOCK: 1}
    assert report.dropped == {"ended before it started": 1}


def test_times_with_a_zone_and_seconds_since_1970_need_no_correction(tmp_path: Path) -> None:
    zoned = ("2025-03-30T01:00:00+0100", "2025-03-30T01:30:00+0100", "2025-03-30T03:30:00+0200")
    workload, report = read(tmp_path, SHORT_HEADER + row("1", *zoned))
    assert workload.jobs["duration_s"].tolist() == [3_600.0]
    assert (report.origin, report.notes) == ("2025-03-30T01:00:00", {})
    workload, report = read(tmp_path, SHORT_HEADER + row("1", "1743292800", "1743294600", "1743298200"))
    assert workload.jobs["duration_s"].tolist() == [3_600.0]
    assert report.origin == "2025-03-30T00:00:00"


def test_lengths_of_time() -> None:
    """Every form of ``sbatch --time`` and of sacct's columns."""
    place = Place("log", 1)
    expected = {
        "30": 1_800.0,
        "1:30": 90.0,
        "02:00:00": 7_200.0,
        "1-12": 129_600.0,
        "1-12:30": 131_400.0,
        "1-00:00:30": 86_430.0,
        "00:01.250": 1.25,
        "UNLIMITED": None,
        "Partition_Limit": None,
        "": None,
    }
    assert {text: span_s(place, "Timelimit", text) for text in expected} == expected
    for wrong in ("1-", "x", "-5", "1:2:3:4", "1_0", "٣"):
        with pytest.raises(TraceError, match="line 1, field 'Timelimit'"):
            span_s(place, "Timelimit", wrong)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (EXAMPLE.replace("Start|", "Begin|"), "line 1: column Start is missing"),
        (EXAMPLE.replace("User|", "Start|"), "line 1: column 'start' occurs twice"),
        (EXAMPLE.replace("101|ana", "101|a|na"), "line 2: 14 fields where the header has 13; the row is cut"),
        (EXAMPLE.replace("TIMEOUT", "T1"), "line 4, field 'State': 'T1': expected a state of Slurm"),
        (EXAMPLE.replace("gres/gpu=16", "gres/gpu=x"), "line 4, field 'AllocTRES': 'gres/gpu=x': expected a whole"),
        (EXAMPLE.replace("2025-03-03T12:00:00|2025", "3 Mar 12:00|2025"), "line 4, field 'Start': '3 Mar 12:00'"),
        (EXAMPLE.replace("102_3|", "job2|"), "line 4, field 'JobID': 'job2': expected the id of a job"),
        (EXAMPLE.replace("102_3|", "101|"), "line 2, field 'JobID': '101': this id occurs twice, .* in line 4"),
        (EXAMPLE.replace("1-00:00:00|T", "long|T"), "line 4, field 'Timelimit': 'long': expected a length of time"),
        (EXAMPLE.replace("T12:00:00|2025", "T12:00:00Z|2025"), "line 4, field 'Start': .*: the times above are"),
        (EXAMPLE.replace("gres/gpu", "gres/fpga"), "(?s)no row has gres/gpu.*AccountingStorageTRES"),
    ],
)
def test_malformed_tables_are_refused_with_line_and_field(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(TraceError, match=message):
        read(tmp_path, text)


def test_states_may_be_short_or_cut(tmp_path: Path) -> None:
    rows = [
        row(str(i), "09:00:00", "09:00:00", "09:01:00", state) for i, state in enumerate(["CD", "OUT_OF_ME+", "TO"])
    ]
    workload, _ = read(tmp_path, SHORT_HEADER + "".join(rows))
    assert workload.attributes["status"].tolist() == ["COMPLETED", "OUT_OF_MEMORY", "TIMEOUT"]


def test_ids_repeat_between_clusters_only(tmp_path: Path) -> None:
    lines = EXAMPLE.splitlines()
    table = "\n".join([f"Cluster|{lines[0]}", f"a|{lines[1]}", f"b|{lines[1]}"]) + "\n"
    workload, _ = read(tmp_path, table)
    assert workload.attributes["cluster"].tolist() == ["a", "b"]
    with pytest.raises(TraceError, match="'a/101': this id occurs twice"):
        read(tmp_path, table.replace("b|101", "a|101").replace("T09:00", "T08:00", 1))


def record(job: int, submit: int, start: int, end: int, state: str, **more: object) -> dict[str, object]:
    """A job of ``sacct --json`` as Slurm 24.05 writes it."""
    number = {"set": True, "infinite": False, "number": 240}
    given = [{"type": "cpu", "name": "", "id": 1, "count": 32}, {"type": "node", "name": "", "id": 4, "count": 2}]
    given += [{"type": "gres", "name": "gpu", "id": 1001, "count": 8}]
    return {
        "account": "vis", "allocation_nodes": 2, "association": {"user": "ana", "cluster": "c"}, "cluster": "c",
        "array": {"job_id": 0, "task_id": {"set": False, "infinite": False, "number": 0}, "task": ""},
        "het": {"job_id": 0, "job_offset": {"set": False, "infinite": False, "number": 0}},
        "job_id": job, "partition": "gpu", "qos": "normal", "reservation": {"id": 0, "name": ""}, "restart_cnt": 0,
        "state": {"current": [state], "reason": "None"}, "steps": [], "user": "ana",
        "time": {"elapsed": max(end - start, 0), "eligible": submit, "end": end, "start": start, "submission": submit,
                 "limit": number},
        "tres": {"allocated": given, "requested": given},
    } | more  # fmt: skip


def as_json(*records: dict[str, object]) -> str:
    return json.dumps({"jobs": records, "meta": {"slurm": {"version": {"major": "24"}}}, "errors": [], "warnings": []})


def test_json_is_read_as_the_table_is(tmp_path: Path) -> None:
    task = {"job_id": 8, "task_id": {"set": True, "infinite": False, "number": 3}, "task": ""}
    waits = {"job_id": 8, "task_id": {"set": False, "infinite": False, "number": 0}, "task": "4-9%2"}
    part = {"job_id": 20, "job_offset": {"set": True, "infinite": False, "number": 1}}
    leader = part | {"job_offset": {"set": True, "infinite": False, "number": 0}}
    text = as_json(
        record(7, 1000, 1060, 4660, "COMPLETED"),
        record(11, 1100, 2000, 2600, "TIMEOUT", array=task),
        record(12, 1100, 0, 0, "PENDING", array=waits),
        record(20, 1200, 3000, 3600, "COMPLETED", het=leader),
        record(21, 1200, 3000, 3600, "COMPLETED", het=part),
    )
    header = "JobID|JobIDRaw|User|Submit|Eligible|Start|End|ElapsedRaw|TimelimitRaw|State|ReqTRES|AllocTRES\n"
    tres = "cpu=32,node=2,gres/gpu=8|cpu=32,node=2,gres/gpu=8\n"
    table = header + (
        f"7|7|ana|1000|1000|1060|4660|3600|240|COMPLETED|{tres}8_3|11|ana|1100|1100|2000|2600|600|240|TIMEOUT|{tres}"
        f"8_[4-9%2]|12|ana|1100|1100|Unknown|Unknown|0|240|PENDING|{tres}"
        f"20+0|20|ana|1200|1200|3000|3600|600|240|COMPLETED|{tres}20+1|21|ana|1200|1200|3000|3600|600|240|COMPLETED|{tres}"
    )
    plain, report = read(tmp_path, table)
    (tmp_path / "jobs.json").write_text(text)
    found, of_json = read_trace(f"auto:{tmp_path / 'jobs.json'}")
    assert found.fingerprint() == plain.fingerprint()
    assert found.jobs["gpus"].tolist() == [8, 8, 16]
    for name in ("original_id", "user", "status", "wait_s", "min_nodes", "max_nodes"):
        assert found.attributes[name].tolist() == plain.attributes[name].tolist(), name
    assert (of_json.dropped, of_json.notes, of_json.unit) == (report.dropped, report.notes, "record")


def test_json_of_older_releases_has_plain_numbers_and_texts(tmp_path: Path) -> None:
    old = record(7, 1000, 1060, 4660, "COMPLETED")
    old |= {"state": {"current": "COMPLETED", "reason": "None"}, "array": {"job_id": 0, "task": None, "task_id": None}}
    old["time"] |= {"limit": 240}  # type: ignore[operator]
    again = json.loads(as_json(old))
    text = json.dumps({"meta": again["meta"], "errors": [], "jobs": again["jobs"]})
    workload, _ = read(tmp_path, text)
    new, _ = read(tmp_path, as_json(record(7, 1000, 1060, 4660, "COMPLETED")))
    assert workload.fingerprint() == new.fingerprint()
    assert workload.jobs["estimate_s"].tolist() == [14_400.0]
    for wrong, words in (
        (text[:-90], "JSON is cut"),
        (text.replace('"count": 8', '"count": "x"'), "record 1, field 'AllocTRES'"),
    ):
        with pytest.raises(TraceError, match=words):
            read(tmp_path, wrong)


def test_a_table_without_a_header_is_read_by_the_columns_that_are_given(tmp_path: Path) -> None:
    whole, _ = read(tmp_path, EXAMPLE)
    columns = HEADER.strip().replace("|", ",").replace("JobID", "JobID%20")
    bare, report = read(tmp_path, EXAMPLE.removeprefix(HEADER), columns=columns)
    assert bare.fingerprint() == whole.fingerprint()
    assert report.rows == 6
    assert read(tmp_path, EXAMPLE, columns=columns)[0].fingerprint() == whole.fingerprint()
    with pytest.raises(TraceError, match="--sacct-columns JobID"):
        read(tmp_path, EXAMPLE.removeprefix(HEADER))
    with pytest.raises(TraceError, match="--sacct-columns JobID"):  # two cells of the first row are equal
        read(tmp_path, EXAMPLE.removeprefix(HEADER).replace("|ana|", "|101|"))
    with pytest.raises(TraceError, match="line 1: 13 fields where the header has 6"):
        read(tmp_path, EXAMPLE.removeprefix(HEADER), columns="JobID,State,Start,End,Submit,AllocTRES")


MARCH = (
    SHORT_HEADER + row("1", "09:00:00", "09:00:00", "09:10:00") + row("2", "09:00:00", "09:05:00", "Unknown", "RUNNING")
)
MARCH += row("3", "09:10:00", "Unknown", "Unknown", "PENDING") + row("4", "09:20:00", "09:30:00", "Unknown", "RUNNING")
APRIL = SHORT_HEADER + row("1", "09:00:00", "09:00:00", "09:10:00") + row("2", "09:00:00", "09:05:00", "10:05:00")
APRIL += row("3", "09:10:00", "10:10:00", "10:20:00", "FAILED") + row(
    "4", "10:00:00", "10:30:00", "10:40:00", restarts="1"
)


def test_exports_that_overlap_are_one_log_in_which_the_newer_record_counts(tmp_path: Path) -> None:
    wanted = [(4, 0.0, 600.0), (5, 0.0, 3_600.0), (6, 600.0, 600.0), (3, 1_200.0, 600.0)]  # 4 was requeued

    def found(source: str, **options: object) -> tuple[list[tuple[float, ...]], dict[str, int]]:
        workload, report = read_trace(source, **options)
        jobs = workload.jobs[np.argsort(workload.attributes["original_id"])]
        return jobs[["id", "arrival_s", "duration_s"]].tolist(), report.dropped

    for name, text in (("a-03", MARCH), ("a-04", APRIL), ("joined", MARCH + APRIL), ("turned", APRIL + MARCH)):
        (tmp_path / f"{name}.txt").write_text(text)
    counts = {slurm.REPLACED: 3, slurm.FURTHER: 1}
    for source in ("joined.txt", "a-*.txt", f"a-03.txt,{tmp_path}/a-04.txt"):
        jobs, dropped = found(f"slurm:{tmp_path}/{source}")
        assert [one[1:] for one in jobs] == [one[1:] for one in wanted]
        assert dropped == counts
        assert found(f"auto:{tmp_path}/{source}", skip_bad_rows=True) == (jobs, counts)
    _, report = read_trace(f"slurm:{tmp_path}/a-*.txt")
    assert ": further run or part of a job, which is one job together with its first row (line 5 of a-04.txt)" in (
        report.describe()
    )
    assert [one[2] for one in found(f"slurm:{tmp_path}/turned.txt")[0]][:3] == [600.0, 3_600.0, 600.0]
    with pytest.raises(TraceError, match=r"b-\*.txt: no file has such a name"):
        found(f"slurm:{tmp_path}/b-*.txt")


def test_each_file_of_a_log_may_have_its_columns_in_another_order(tmp_path: Path) -> None:
    def turned(text: str, more: str = "") -> str:
        return "".join("|".join(reversed(line.split("|"))) + f"{more}\n" for line in text.splitlines())

    (tmp_path / "march.txt").write_text(MARCH)
    wanted = None
    for text in (APRIL, turned(APRIL), turned(APRIL, "|")):
        (tmp_path / "april.txt").write_text(text)
        (tmp_path / "both.txt").write_text(MARCH + text)
        for source in ("march.txt,{}/april.txt", "both.txt"):
            workload, report = read_trace(f"slurm:{tmp_path}/{source.format(tmp_path)}")
            found = workload.jobs.tolist(), workload.attributes["original_id"].tolist(), report.dropped
            wanted = wanted or repr(found)
            assert repr(found) == wanted
    (tmp_path / "april.txt").write_text(APRIL.replace("Restarts", "Other"))
    with pytest.raises(TraceError, match=r"april.txt, line 1, field 'header': .*no column restarts, as the first has"):
        read_trace(f"slurm:{tmp_path}/march.txt,{tmp_path}/april.txt")


def test_of_two_jobs_of_one_id_the_newer_is_kept_if_bad_rows_are_skipped(tmp_path: Path) -> None:
    rows = row("7", "08:00:00", "08:00:00", "08:10:00") + row("7", "09:00:00", "09:00:00", "09:20:00")
    workload, report = read(tmp_path, SHORT_HEADER + rows, skip_bad_rows=True)
    assert workload.jobs["duration_s"].tolist() == [1_200.0]
    assert sum(report.dropped.values()) == 1
    assert report.rows == 2


def test_rows_in_unknown_states_are_counted(tmp_path: Path) -> None:
    states = ["COMPLETED", "EXPEDITING", "RESV_DEL_HOLD", "EXPEDITING"]
    rows = "".join(row(str(i), "09:00:00", "09:00:00", "09:01:00", state) for i, state in enumerate(states))
    _, report = read(tmp_path, SHORT_HEADER + rows)
    assert report.dropped == {slurm.UNKNOWN.format("EXPEDITING"): 2, "still running at the end of the log": 1}
