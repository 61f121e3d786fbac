"""The original tables of Alibaba PAI 2020, written by hand, since none are beside the repository."""

from __future__ import annotations

import gzip
from collections.abc import Mapping
from pathlib import Path

import pytest

from gpusched_env.errors import TraceError, WorkloadError
from gpusched_env.problem.workload import Workload
from gpusched_env.scenarios import get_scenario
from gpusched_env.traces import ReadReport, read_trace

# job_name, inst_id, user, status, start_time, end_time
JOBS = """\
a,i0,u0,Terminated,1000.0,1700.0
b,i1,u1,Failed,1200.0,1500.0
cpu,i2,u0,Terminated,1250.0,1260.0
c,i3,u0,Running,1300.0,
d,i4,u0,Waiting,1400.0,
e,i5,u0,Terminated,,1500.0
f,i6,u0,Terminated,1500.0,1600.0
g,i7,u0,Terminated,1500.0,1600.0
h,i8,u0,Terminated,1500.0,1600.0
a,i9,u9,Terminated,1600.0,1700.0
"""
# job_name, task_name, inst_num, status, start_time, end_time, plan_cpu, plan_mem, plan_gpu, gpu_type
TASKS = """\
a,ps,1.0,Terminated,1001.0,1690.0,400.0,8.0,,
a,worker,4.0,Terminated,1010.0,1650.0,600.0,29.3,50.0,T4
a,evaluator,1.0,Terminated,1500.0,1680.0,600.0,29.3,200.0,V100
b,tensorflow,1.0,Failed,1210.0,1490.0,600.0,29.3,100.0,MISC
cpu,tensorflow,1.0,Terminated,1250.0,1260.0,600.0,29.3,0.0,
c,tensorflow,1.0,Running,1310.0,,600.0,29.3,100.0,P100
d,tensorflow,1.0,Waiting,,,600.0,29.3,100.0,
e,tensorflow,1.0,Terminated,1410.0,1500.0,600.0,29.3,100.0,T4
f,tensorflow,,Terminated,1510.0,1600.0,600.0,29.3,100.0,T4
g,tensorflow,1.0,Terminated,0.0,1600.0,600.0,29.3,100.0,T4
h,tensorflow,1.0,Terminated,1600.0,1510.0,600.0,29.3,100.0,T4
lost,tensorflow,1.0,Terminated,1.0,2.0,600.0,29.3,100.0,T4
"""
# job_name, task_name, inst_name, worker_name, inst_id, status, start_time, end_time, machine
INSTANCES = """\
a,ps,n0,w0,i0,Terminated,1002.0,1695.0,m0
a,worker,n1,w1,i0,Failed,1030.0,0,m0
a,worker,n2,w2,i0,Terminated,1020.0,1640.0,m1
a,evaluator,n3,w3,i0,Terminated,1510.0,1675.0,m2
b,tensorflow,n4,w4,i1,Failed,1220.0,1485.0,m2
"""
DROPPED = {
    "no task with a GPU": 1,
    "still running at the end of the log": 1,
    "never started": 1,
    "no submission time": 1,
    "a task without its number of instances": 1,
    "no start or no end of its GPU tasks": 1,
    "ended before it started": 1,
    "job name given before": 1,
}
LOST = "jobs of the task table that the job table lacks"
SHARE = "jobs with a share of a GPU, rounded up to whole GPUs for each instance"


def tables(folder: Path, **contents: str) -> Path:
    for name, text in ({"job": JOBS, "task": TASKS} | contents).items():
        (folder / f"pai_{name}_table.csv").write_text(text)
    return folder


def read(path: Path) -> tuple[Workload, ReadReport]:
    return read_trace(f"pai-tables:{path}")


def attributes(workload: Workload) -> Mapping[str, list[object]]:
    return {name: column.tolist() for name, column in workload.attributes.items()}


def test_a_job_is_the_gang_of_its_gpu_tasks(tmp_path: Path) -> None:
    workload, report = read(tables(tmp_path))
    assert (report.rows, report.kept, report.dropped) == (10, 2, DROPPED)
    assert workload.jobs["id"].tolist() == [0, 1]
    assert workload.jobs["arrival_s"].tolist() == [0, 200]
    assert workload.jobs["gpus"].tolist() == [4 * 1 + 1 * 2, 1]
    assert workload.jobs["duration_s"].tolist() == [1680 - 1010, 1490 - 1210]
    assert attributes(workload) == {
        "original_id": ["a", "b"],
        "user": ["u0", "u1"],
        "status": ["Terminated", "Failed"],
        "gpu_type": ["T4|V100", "MISC"],
        "gpu_percent": [400, 100],
    }
    waits = "run times that include the time tasks waited for instances, because pai_instance_table is missing"
    assert report.notes == {SHARE: 1, LOST: 1, waits: 2}


def test_the_run_time_follows_from_the_instances(tmp_path: Path) -> None:
    workload, report = read(tables(tmp_path, instance=INSTANCES))
    assert workload.jobs["duration_s"].tolist() == [1675 - 1020, 1485 - 1220]
    assert workload.jobs["gpus"].tolist() == [6, 1]
    # h has times in the task table only
    others = DROPPED | {"no start or no end of its GPU tasks": 2}
    assert report.dropped == {reason: count for reason, count in others.items() if reason != "ended before it started"}
    assert report.notes == {SHARE: 1, LOST: 1}


def test_the_path_of_any_table_selects_the_folder(tmp_path: Path) -> None:
    fingerprint = read(tables(tmp_path))[0].fingerprint()
    for name in ("pai_task_table.csv", "pai_job_table.csv"):
        assert read(tmp_path / name)[0].fingerprint() == fingerprint
    packed = gzip.compress(TASKS.encode())
    (tmp_path / "pai_task_table.csv").unlink()
    (tmp_path / "pai_task_table.csv.gz").write_bytes(packed)
    assert read(tmp_path)[0].fingerprint() == fingerprint


def test_a_header_line_that_was_added_is_skipped(tmp_path: Path) -> None:
    fingerprint = read(tables(tmp_path))[0].fingerprint()
    tables(tmp_path, job="job_name,inst_id,user,status,start_time,end_time\n" + JOBS)
    assert read(tmp_path)[0].fingerprint() == fingerprint


def test_missing_and_ambiguous_tables_are_refused(tmp_path: Path) -> None:
    (tmp_path / "pai_task_table.csv").write_text(TASKS)
    with pytest.raises(
        TraceError, match=r"no such file there: pai_job_table\.csv; name the folder .* unpack pai_job_table"
    ):
        read(tmp_path)
    tables(tmp_path)
    (tmp_path / "pai_job_table.csv.gz").write_bytes(gzip.compress(JOBS.encode()))
    with pytest.raises(TraceError, match="are both there; keep one"):
        read(tmp_path)


@pytest.mark.parametrize(
    ("table", "row", "message"),
    [
        ("task", "a,worker,0.5,Terminated,1,2,600,1,100,T4\n", "line 1, field 'inst_num'"),
        ("task", "a,worker,1,Terminated,1,2,600,1,-1,T4\n", "line 1, field 'plan_gpu'"),
        ("task", "a,worker,1,Terminated,x,2,600,1,100,T4\n", "line 1, field 'start_time'"),
        ("task", "a,worker,9,Terminated,1,2,600,1,1e12,T4\n", "line 1, field 'inst_num': '9': the job demands over"),
        ("task", "a,worker,1,Terminated,1,2,600,1,100\n", "line 1: 9 fields"),
        ("job", "a,i0,u0,Done,1,2\n", "line 1, field 'status'"),
        ("job", "a,i0,u0,Terminated,-1,2\n", "line 1, field 'start_time'"),
        ("instance", "a,worker,n1,w1,i0,Failed,1,nan,m0\n", "line 1, field 'end_time'"),
    ],
)
def test_malformed_rows_are_refused(tmp_path: Path, table: str, row: str, message: str) -> None:
    with pytest.raises(TraceError, match=f"pai_{table}_table.csv, {message}"):
        read(tables(tmp_path, **{table: row}))


def test_the_fingerprint_depends_on_every_table(tmp_path: Path) -> None:
    scenario = get_scenario("tiny-v1").with_workload(f"pai-tables:{tables(tmp_path)}")
    before = scenario.fingerprint()
    assert scenario.fingerprint() == before
    tables(tmp_path, task=TASKS + "z,t,1,Terminated,1,2,1,1,100,T4\n")
    changed = scenario.fingerprint()
    tables(tmp_path, instance=INSTANCES)
    assert len({before, changed, scenario.fingerprint()}) == 3
    (tmp_path / "pai_instance_table.csv").unlink()
    (tmp_path / "pai_instance_table.csv").mkdir()
    with pytest.raises(WorkloadError, match="cannot be read"):
        scenario.fingerprint()
