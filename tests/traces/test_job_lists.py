"""Readers of the job lists that papers published with their schedulers."""

from __future__ import annotations

import csv
import gzip
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from published import TRACES, here
from trace_samples import SAMPLES

from gpusched_env.errors import TraceError
from gpusched_env.traces import read_trace
from gpusched_env.traces.formats.job_lists import JOB_LISTS, SAME, layouts_of

CPU, NO_TIME = "CPU job (no GPUs)", "zero run time"
MURI = (
    "job_id,num_gpu,submit_time,iterations,model_name,batch_size,duration,interval,iteration_time,"
    "resource_time_0,resource_time_1,resource_time_2,priority\n"
    "33,8,6568,294,a2c,64,162000,16000,555,502.0,14,0.4,0\r\n"
    "3,8,2020,2836,vgg19,16,165835000,15000,226,82.0,88,60.0,1\r\n"  # iterations were cut, the duration was not
    "4,0,2020,10,vgg19,16,1,0,226,0,0,0,1\n5,1,2020,0,vgg19,16,1,0,226,0,0,0,1\n6,1,2020,10,vgg19,16,1,0,0,0,0,0,1\n\n"
)
MURI_JOBS = [(0, 4.548, 8, 163.17), (1, 0.0, 8, 640.936)], {
    "original_id": ["33", "3"], "model": ["a2c", "vgg19"], "batch_size": ["64", "16"], "priority": ["0", "1"],
}  # fmt: skip
# Format, file, jobs (id, arrival [s], GPUs, run time [s]), some attributes, reason -> places of dropped rows
FILES: list[tuple[str, str, list[tuple[int, float, int, float]], dict[str, list[Any]], dict[str, list[int]]]] = [
    (
        "tiresias",
        (
            "job_id,num_gpu,submit_time,iterations,model_name,duration,interval\n0,1,5,606,vgg19,164,30\r\n"
            "1,0,6,1,vgg11,9,1\r\n2,8,7,1,vgg11,0,1\r\n3,8,35,133,vgg11,147,23\r\n\r\n"
        ),
        [(0, 0.0, 1, 164.0), (3, 30.0, 8, 147.0)],
        {"original_id": ["0", "3"], "model": ["vgg19", "vgg11"]},
        {CPU: [3], NO_TIME: [4]},
    ),
    ("muri", MURI, *MURI_JOBS, {CPU: [4], NO_TIME: [5, 6]}),
    ("bsbf", MURI, *MURI_JOBS, {CPU: [4], NO_TIME: [5, 6]}),
    (
        "pai",
        "job_id,arrival_s,service_sec,gpu_count\nw#1,16670.0,20.0,8\nw#2,16680.5,172800.0,1\n",
        [(0, 0.0, 8, 20.0), (1, 10.5, 1, 172_800.0)],
        {"original_id": ["w#1", "w#2"]},
        {},
    ),
    (
        "openb",  # a share of a GPU, a CPU pod, never scheduled, never deleted, deleted too early, no time
        (
            "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\n"
            "a,4000,512,1,460,V100M16|V100M32,LS,Running,100,110,103\nb,4000,512,8,1000,,LS,Running,105,125,105\n"
            "c,4000,512,0,0,,LS,Running,0,,\nd,4000,512,1,1000,,LS,Running,0,50,\ne,4000,512,1,1000,,LS,Running,0,,5\n"
            "f,4000,512,1,1000,,LS,Running,0,4,5\ng,4000,512,1,10,,LS,Running,0,5,5\n"
        ),
        [(0, 0.0, 1, 7.0), (1, 5.0, 8, 20.0)],
        {
            "gpu_types": ["V100M16|V100M32", ""],
            "gpu_milli": [460, 1000],
            "min_nodes": [1, 1],
            "max_nodes": [1, 1],
            "cpu_milli": [4000, 4000],
            "memory_mib": [512, 512],
            "status": ["Running", "Running"],
        },
        {
            CPU: [4],
            "never scheduled": [5],
            "still running at the end of the log": [6],
            "deleted before it was scheduled": [7],
            NO_TIME: [8],
        },
    ),
    (
        "elasticflow",
        (
            "job_id,submit_time,real_iteration,model_name,ddl,batch_size,num_gpu,real_duration,duration,iteration\n"
            "0,10,5,vgg16,110,256,1,90,90,5\n1,30,5,bert,20,64,4,7,7,5\n"
        ),
        [(0, 0.0, 1, 90.0), (1, 20.0, 4, 7.0)],
        {"model": ["vgg16", "bert"], "deadline_s": [100, -10]},
        {},
    ),
    (
        "chronus",  # in minutes
        (
            "job_id,user,num_gpu,submit_time,iterations,model_name,duration,interval,expect_time_list,expect_value_list,"
            "best_effort,job_type\n0,v,1,10,5,alexnet,96,5,159-189,10-8,0,soft\n1,v,0,3,5,alexnet,9,5,20,10,0,strict\n"
            "2,v,4,4,5,vgg16,1.5,5,0,0,1,best\n"
        ),
        [(0, 360.0, 1, 5760.0), (2, 0.0, 4, 90.0)],
        {"job_type": ["soft", "best"], "deadline_s": [9540, np.inf], "value": [10, 1]},
        {CPU: [3]},
    ),
    (
        "dally",  # the work is the time on one GPU over the gang
        (
            "job_id,arrival_time,max_parallelism,model,dataset,batchsize,amp,duration,total_iterations,time_per_iteration,"
            "submit_time,job_group_id\n9,30,4,VGG,CIFAR-10,64,1,8000,4000,2.0,2020-03-26 13:42:30,8\n"
            "7,10,1,BERT,SQuAD,32,0,600,3793464244,1.5e-7,x,3\n8,5,0,BERT,SQuAD,32,0,600,300,2,x,3\n"
        ),
        [(9, 20.0, 4, 2000.0), (7, 0.0, 1, 600.0)],
        {
            "original_id": ["9", "7"],
            "model": ["VGG", "BERT"],
            "group": ["8", "3"],
            "batch_size": [64, 32],
            "total_iterations": [4000, 3_793_464_244],
            "time_per_iteration_s": [2.0, 1.5e-7],
        },
        {CPU: [4]},
    ),
    (
        "hyperdrive",
        (
            "experiment-id,job-id,start-time,run-time,num-gpus\n3, application_2, 2018-06-16 04:51:49, 7953.0, 8\n"
            "4, application_1, 2018-06-16 04:51:00, 0, 1\n"
        ),
        [(0, 0.0, 8, 7953.0)],
        {"original_id": ["application_2"], "experiment": ["3"]},
        {NO_TIME: [3]},
    ),
    (
        "hyperdrive",
        ",experiment_id,start_time,running_time,num_gpus\n207,16,30,143,1\n208,16,10,5,1\n",
        [(0, 20.0, 1, 143.0), (1, 0.0, 1, 5.0)],
        {"original_id": ["207", "208"]},
        {},
    ),
    (
        "helios",
        (
            "job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue\n"
            "7,u,v,8,64,1,COMPLETED,2020-04-01 00:01:00,x,y,30,5\n8,u,v,0,4,1,FAILED,2020-04-01 00:00:00,x,y,9,0\n"
        ),
        [(0, 0.0, 8, 30.0)],
        {"status": ["COMPLETED"], "virtual_cluster": ["v"]},
        {CPU: [3]},
    ),
    (
        "helios",
        "job_id,arrival_s,service_sec,gpu_count\n7#0,5.5,30.0,8\n7#1,6,1,1\n",
        [(0, 0.0, 8, 30.0), (1, 0.5, 1, 1.0)],
        {"original_id": ["7#0", "7#1"]},
        {},
    ),
    (
        "philly-csv",  # in any order; time counts from the first submission that is kept
        (
            "timestamp,duration,num_gpus,gpu_time,cluster\n2017-10-09 00:00:10,5.0,2,10.0,b\n"
            "2017-10-09 00:00:00,7.5,1,7.5,a\n2017-10-08 00:00:00,5,0,0,a\n2017-10-08 00:00:05,0,1,0,a\n"
        ),
        [(0, 10.0, 2, 5.0), (1, 0.0, 1, 7.5)],
        {"virtual_cluster": ["b", "a"]},
        {CPU: [4], NO_TIME: [5]},
    ),
]


@pytest.mark.parametrize(("name", "text", "jobs", "told", "dropped"), FILES)
def test_columns_become_jobs(
    tmp_path: Path, name: str, text: str, jobs: list[Any], told: dict[str, Any], dropped: dict[str, Any]
) -> None:
    workload, report = read_trace(f"{name}:" + write(tmp_path / "log", text))
    assert workload.jobs[["id", "arrival_s", "gpus", "duration_s"]].tolist() == jobs
    assert np.isnan(workload.jobs["iterations"]).all()
    assert {name: workload.attributes[name].tolist() for name in told} == told
    assert (report.places, report.format, report.kept) == (dropped, name, len(jobs))
    assert report.rows == report.kept + sum(map(len, dropped.values()))


def test_reports_have_origins_and_remarks(tmp_path: Path) -> None:
    for name, number, origin, remark in (
        ("hyperdrive", 8, "2018-06-16T04:51:49", ""),
        ("philly-csv", 12, "2017-10-09T00:00:00", ""),
        ("pai", 3, "", ""),
        ("muri", 1, "", "duration differs by more than a factor of 2 from iterations x iteration_time, which is used"),
    ):
        report = read_trace(f"{name}:" + write(tmp_path / "log", FILES[number][1]))[1]
        assert (FILES[number][0], report.origin) == (name, origin)
        assert report.notes == ({remark: 1} if remark else {})
        assert remark in report.describe()
    report = read_trace("openb:" + write(tmp_path / "log", FILES[4][1]))[1]
    assert report.origin == ""
    shared, ignored = (
        "pods with a share of a GPU, rounded up to one GPU",
        "pods ask for CPUs or memory, which are ignored",
    )
    assert report.notes == {shared: 1, ignored: 2}


WRONG = {
    "seconds": ("-1", "nan", "1e999", "soon", "1_0"),
    "minutes": ("-1", "1e308"),
    "amount": ("-1", "nan", "1e200"),
    "gpus": ("0.5", "4e9", "two", "-1"),
    "whole": ("6.4", ""),
    "date": ("2017-13-09 00:00:10", "yesterday", "2018-06-16"),
    "seconds?": ("x", "-1"),
}


@pytest.mark.parametrize(
    ("name", "number"), [(name, number) for name in (*JOB_LISTS, *SAME) for number in range(len(layouts_of(name)))]
)
def test_a_wrong_value_in_any_column_is_named(tmp_path: Path, name: str, number: int) -> None:
    header, *rows = SAMPLES[name][number].decode().splitlines()

    def refused(message: str, *lines: str) -> None:
        path = write(tmp_path / "log", "\n".join(lines) + "\n")
        with pytest.raises(TraceError, match=re.escape(f"{path}, line {message}")):
            read_trace(f"{name}:{path}")

    width, cut = header.count(",") + 1, rows[1][: rows[1].rindex(",")]
    refused(f"3: {width - 1} fields where the header has {width}", header, rows[0], cut)
    for column, kind, *_ in layouts_of(name)[number].columns:
        at = header.split(",").index(column)
        for wrong in WRONG.get(kind, ()):
            fields = rows[1].split(",")
            fields[at] = wrong
            refused(f"3, field {column!r}: {wrong!r}: expected a", header, rows[0], ",".join(fields))
        if kind == "id":
            twice = rows[0].split(",")[at].strip()
            refused(f"3, field {column!r}: {twice!r}: this id occurs twice, first in", header, rows[0], rows[0])


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("helios", "a\n1\n", "line 1: not a Helios file: expected the columns job_id, user, vc"),
        ("philly-csv", "a,b\n1,2\n", "line 1: not a Philly CSV: expected the columns timestamp"),
        ("hyperdrive", "a,b\n1,2\n", "line 1: not a HyperDrive file"),
        ("tiresias", "job_id,num_gpu\n0,1\n", "line 1: column 'submit_time' is missing"),
        ("muri", MURI.replace("iteration_time", "time"), "line 1: column 'iteration_time' is missing"),
        ("tiresias", "job_id,num_gpu,submit_time,model_name,duration\n", ": no usable job"),
        (
            "openb",
            FILES[4][1].replace(",460,", ",0,"),
            "line 2, field 'gpu_milli': '0': expected 1 to 1000",
        ),
        ("openb", FILES[4][1].replace(",460,", ",1001,"), "line 2, field 'gpu_milli': '1001'"),
        (
            "chronus",
            FILES[6][1].replace("159", "x"),
            "line 2, field 'expect_time_list': 'x': expected a finite",
        ),
        (
            "dally",
            FILES[7][1].replace("\n9,", "\na,"),
            "line 2, field 'job_id': 'a': expected a whole",
        ),
        ("shockwave", "\n", ": no usable job"),
    ],
)
def test_what_a_format_refuses(tmp_path: Path, name: str, text: str, words: str) -> None:
    with pytest.raises(TraceError, match=re.escape(words)):
        read_trace(f"{name}:" + write(tmp_path / "log", text))


def write(path: Path, text: str) -> str:
    path.write_text(text, encoding="utf-8", newline="")
    return str(path)


PODS = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\n"


def test_pods_that_run_at_the_end_of_openbs_log_are_dropped_and_counted(tmp_path: Path) -> None:
    rows = ("a", "Running", 500), ("b", "Failed", 500), ("c", "Running", 500), ("d", "Running", 400)
    text = PODS + "".join(f"{name},1,1,1,1000,,LS,{phase},0,{end},10\n" for name, phase, end in rows)
    workload, report = read_trace("openb:" + write(tmp_path / "log", text))
    assert workload.attributes["original_id"].tolist() == ["b", "d"]
    assert (report.rows, report.dropped) == (4, {"still running at the end of the log": 2})
    assert report.places == {"still running at the end of the log": [2, 4]}
    one = text.replace("c,1,1,1,1000,,LS,Running,0,500", "c,1,1,1,1000,,LS,Running,0,499")
    assert len(read_trace("openb:" + write(tmp_path / "one", one))[0]) == 4  # the last pod may have ended by itself


@here
def test_openbs_pods_run_as_long_as_those_that_ended() -> None:
    path = TRACES / "alibaba/openb_pod_list_default.csv.gz"
    with gzip.open(path, "rt", encoding="utf-8") as stream:
        rows = [row for row in csv.DictReader(stream) if row["num_gpu"] != "0" and row["scheduled_time"]]
    last = max(int(row["deletion_time"]) for row in rows)
    ran = [int(row["deletion_time"]) - int(row["scheduled_time"]) for row in rows if int(row["deletion_time"]) < last]
    workload, _ = read_trace(f"openb:{path}")
    np.testing.assert_array_equal(workload.jobs["duration_s"], ran)


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


def shockwave(
    gpus: object = 1, mode: str = "gns", duration: object = 10, arrival: object = 0, model: str = "LM (batch size 10)"
) -> str:
    head = [model, 'python3 main.py --data "%s/wikitext2, all"', "language_modeling", "--steps", "1", "134583"]
    return "\t".join([*head, str(gpus), mode, "1", "-1.000000", str(duration), str(arrival)]) + "\n"


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


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (shockwave() + "a\tb\n", "line 2: 2 fields.*12.*stray tab"),
        (shockwave() + shockwave(gpus="two"), r"line 2, field 'scale factor \(7\)': 'two': expected a whole"),
        (shockwave() + shockwave(duration=-3), r"line 2, field 'duration \(11\)': '-3'.*seconds >= 0"),
        (shockwave(arrival="inf"), r"line 1, field 'arrival \(12\)': 'inf'"),
        (shockwave(mode="gsn"), r"line 1, field 'mode \(8\)': 'gsn'.*accordion"),
    ],
)
def test_malformed_rows_of_shockwave(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(TraceError, match=message):
        read_trace("shockwave:" + write(tmp_path / "t.trace", text))
