"""CPU seconds and memory to read a long trace of each layout, each in a fresh process.

    python benchmarks/traces.py [--rows 1000000] [--layouts helios swf] [--output FILE.json]

The files are first written into a temporary folder. Memory is given per row: the peak of the resident set while
reading, minus the size of the resident set before reading, minus the arrays of the workload. The sizes are read from
/proc, so Linux only.
"""

from __future__ import annotations

import gc
import json
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from machine import peak_bytes, resident_bytes
from rich.console import Console
from rich.table import Table

import gpusched_env
from gpusched_env.errors import unknown_name
from gpusched_env.support.commands import run_script

SECONDS: Final = 20.0  # [s] at most, per million rows
BYTES: Final = 300.0  # [byte] at most, per row


@dataclass
class Settings:
    """Measure the readers."""

    rows: int = 1_000_000
    """Rows of each file."""
    layouts: tuple[str, ...] = ()
    """Layouts to measure; none = all."""
    repeats: int = 3
    """Reads of each file, each in a process of its own; medians are reported."""
    output: Path | None = None
    """JSON file for the results."""
    one: str | None = None
    """Read this FORMAT:PATH in this process and print JSON (used by the command itself)."""


@dataclass
class Draw:
    """Values of one row: number, seconds since the start, GPUs, run time [s], and names from small sets."""

    i: int
    at: int
    gpus: int
    run: int
    user: str
    vc: str
    state: str

    def clock(self, add: int = 0) -> str:
        """Format the time ``add`` seconds after submission."""
        return str(np.datetime64("2020-04-01", "s") + self.at + add).replace("T", " ")


def draws(rows: int) -> Iterator[Draw]:
    """Draw the rows; the same for every layout."""
    rng = np.random.default_rng(0)
    at = np.cumsum(rng.integers(0, 60, rows)).tolist()
    gpus, run = rng.choice([1, 2, 4, 8, 16], rows).tolist(), rng.integers(1, 172_800, rows).tolist()
    user, vc, state = (rng.integers(0, count, rows).tolist() for count in (500, 15, 4))
    states = ("COMPLETED", "CANCELLED", "FAILED", "TIMEOUT")
    for i in range(rows):
        yield Draw(i, at[i], gpus[i], run[i], f"u{user[i]:05d}", f"vc{vc[i]:03d}", states[state[i]])


def philly_record(d: Draw) -> str:
    """Format a job as in the original Philly log."""
    detail = [{"ip": f"m{d.i % 500}", "gpus": [f"gpu{k}" for k in range(d.gpus)]}]
    attempt = {"start_time": d.clock(9), "end_time": d.clock(9 + d.run), "detail": detail}
    job = {"status": "Pass", "vc": d.vc, "jobid": f"application_1506638472019_{d.i}", "attempts": [attempt]}
    return json.dumps({**job, "submitted_time": d.clock(), "user": d.user})


def kueue_workload(d: Draw) -> str:
    """Format a job as a Workload of Kueue, in a line of JSON."""
    day = [d.clock(add).replace(" ", "T") + "Z" for add in (0, 9, 9 + d.run)]
    done = [
        {"type": kind, "status": "True", "reason": "Succeeded", "lastTransitionTime": time}
        for kind, time in (("QuotaReserved", day[1]), ("Admitted", day[1]), ("Finished", day[2]))
    ]
    usage = {"flavors": {"nvidia.com/gpu": "h100"}, "resourceUsage": {"nvidia.com/gpu": str(d.gpus), "cpu": "8"}}
    container = {"resources": {"requests": {"nvidia.com/gpu": str(d.gpus), "cpu": "8"}}}
    pods = {"name": "main", "count": 1, "template": {"spec": {"containers": [container]}}}
    made = {
        "kind": "Workload",
        "metadata": {"name": f"job-{d.i}", "namespace": d.vc, "creationTimestamp": day[0]},
        "spec": {"queueName": d.user, "priority": 0, "podSets": [pods]},
        "status": {"admission": {"clusterQueue": d.vc, "podSetAssignments": [usage]}, "conditions": done},
    }
    return json.dumps(made)


def pod(d: Draw) -> str:
    """Format a job as the only pod of a Job of Kubernetes, in a line of JSON."""
    return json.dumps(_pod(d, {"ownerReferences": [{"kind": "Job", "name": f"job-{d.i}", "controller": True}]}))


def pod_group(d: Draw) -> str:
    """Format a job as a PodGroup of Volcano and its only pod, in two lines of JSON."""
    made = _pod(d, {"annotations": {"scheduling.k8s.io/group-name": f"job-{d.i}"}})
    metadata = {"name": f"job-{d.i}", "namespace": d.vc, "creationTimestamp": made["metadata"]["creationTimestamp"]}
    group = {"kind": "PodGroup", "metadata": metadata, "spec": {"minMember": 1, "queue": d.user}}
    return json.dumps(group) + "\n" + json.dumps(made)


def _pod(d: Draw, metadata: dict[str, Any]) -> dict[str, Any]:
    day = [d.clock(add).replace(" ", "T") + "Z" for add in (0, 9, 9 + d.run)]
    container = {"name": "main", "resources": {"requests": {"nvidia.com/gpu": str(d.gpus), "cpu": "8"}}}
    ended = {"name": "main", "state": {"terminated": {"exitCode": 0, "startedAt": day[1], "finishedAt": day[2]}}}
    return {
        "kind": "Pod",
        "metadata": {"name": f"job-{d.i}-0", "namespace": d.vc, "creationTimestamp": day[0], **metadata},
        "spec": {"containers": [container], "nodeName": f"m{d.i % 500}", "priority": 0},
        "status": {"phase": "Succeeded", "startTime": day[1], "containerStatuses": [ended]},
    }


MURI: Final = (
    "job_id,num_gpu,submit_time,iterations,model_name,batch_size,duration,interval,iteration_time,resource_time_0,"
    "resource_time_1,resource_time_2,priority"
)
CHRONUS: Final = (
    "job_id,user,num_gpu,submit_time,iterations,model_name,duration,interval,expect_time_list,expect_value_list,"
    "best_effort,job_type"
)
# layout -> format, header, function that formats one row
LAYOUTS: Final[dict[str, tuple[str, str, Callable[[Draw], str]]]] = {
    "philly-csv": (
        "philly",
        "timestamp,duration,num_gpus,gpu_time,cluster",
        lambda d: f"{d.clock()},{d.run}.0,{d.gpus},{d.run * d.gpus}.0,{d.vc}",
    ),
    "philly-json": ("philly", "", philly_record),
    "kueue": ("kueue", "", kueue_workload),
    "kubernetes": ("kubernetes", "", pod),
    "volcano": ("volcano", "", pod_group),
    "helios": (
        "helios",
        "job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue",
        lambda d: (
            f"{d.i},{d.user},{d.vc},{d.gpus},8,1,{d.state},{d.clock()},{d.clock(9)},{d.clock(9 + d.run)},{d.run},9"
        ),
    ),
    "acme-seren": (
        "acme",
        "job_id,user,node_num,gpu_num,cpu_num,type,state,submit_time,start_time,end_time,duration,queue,gpu_time",
        lambda d: (
            f"{d.i:08x},{d.user},1,{d.gpus},8,Other,{d.state},{d.clock()}+08:00,{d.clock(9)}+08:00,"
            f"{d.clock(9 + d.run)}+08:00,{d.run},9,0"
        ),
    ),
    "pai": (
        "pai",
        "job_id,arrival_s,service_sec,gpu_count",
        lambda d: f"worker{d.i % 900}#{d.i},{d.at}.0,{d.run}.0,{d.gpus}",
    ),
    "hydra": (
        "hydra",
        ",job_name,norm_job_submit_time,ddl,A100,V100,GTX2080Ti",
        lambda d: f"{d.i},job{d.i},0,inf,{d.run}.0,{d.run + d.at % 997}.5,{d.run + d.at % 9973}.5",
    ),
    "openb": (
        "openb",
        "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time",
        lambda d: (
            f"openb-pod-{d.i:07d},6000,12288,1,460,V100M16|V100M32,LS,Running,{d.at},{d.at + 9 + d.run},{d.at + 9}"
        ),
    ),
    "elasticflow": (
        "elasticflow",
        "job_id,submit_time,real_iteration,model_name,ddl,batch_size,num_gpu,real_duration,duration,iteration",
        lambda d: f"{d.i},{d.at},5,inception3,{d.at + 2 * d.run},256,{d.gpus},{d.run},{d.run},5",
    ),
    "chronus": (
        "chronus",
        CHRONUS,
        lambda d: f"{d.i},{d.vc},{d.gpus},{d.at},5,alexnet,{d.run},5,159-189,10-8,0,soft",
    ),
    "slurm": (
        "slurm",
        "JobID|JobIDRaw|User|Account|Partition|QOS|Submit|Eligible|Start|End|ElapsedRaw|State|TimelimitRaw|AllocTRES",
        lambda d: (
            f"{d.i}|{d.i}|{d.user}|{d.vc}|{d.vc}|normal|{d.clock()}|{d.clock()}|{d.clock(9)}|{d.clock(9 + d.run)}|"
            f"{d.run}|{d.state}|{d.run // 60 + 60}|billing=8,cpu=8,gres/gpu:h100={d.gpus},gres/gpu={d.gpus},node=1"
        ),
    ),
    "csv": (
        "csv",
        "job,user,group,submit_time,start_time,end_time,gpus,state",
        lambda d: f"{d.i},{d.user},{d.vc},{d.clock()},{d.clock(9)},{d.clock(9 + d.run)},{d.gpus},{d.state}",
    ),
    "swf": (
        "swf",
        "; UnixStartTime: 0",
        lambda d: f"{d.i} {d.at} 9 {d.run} {d.gpus} -1 -1 {d.gpus} {2 * d.run} -1 1 {d.i % 500} -1 -1 2 -1 -1 -1",
    ),
    "tiresias": (
        "tiresias",
        "job_id,num_gpu,submit_time,iterations,model_name,duration,interval",
        lambda d: f"{d.i},{d.gpus},{d.at},606,inception3,{d.run},30",
    ),
    "dally": (
        "dally",
        "job_id,arrival_time,max_parallelism,model,batchsize,duration,total_iterations,time_per_iteration,job_group_id",
        lambda d: f"{d.i},{d.at},{d.gpus},ResNet50,128,{d.run},{d.run * 4},0.25,{d.i % 9}",
    ),
    "hyperdrive": (
        "hyperdrive",
        "experiment-id,job-id,start-time,run-time,num-gpus",
        lambda d: f"{d.i % 900}, application_1526483117648_{d.i}, {d.clock()}, {d.run}.0, {d.gpus}",
    ),
    "muri": (
        "muri",
        MURI,
        lambda d: f"{d.i},{d.gpus},{d.at},{d.run},vgg19,64,{555 * d.run},16000,555,502.0,14,0.4,0",
    ),
    "gavel": (
        "gavel",
        "",
        lambda d: (
            f"ResNet-18 (batch size 32)\tpython3 main.py --data_dir=%s/cifar10\timage_classification/cifar10\t"
            f"--num_steps\t1\t{d.run}\t{min(d.gpus, 8)}\t1\t-1.000000\t{d.at}"
        ),
    ),
    "pollux": (
        "pollux",
        "name,time,application,num_replicas,batch_size",
        lambda d: f"bert-{d.i},{d.at},bert,{min(d.gpus, 8)},96",
    ),
    "shockwave": (
        "shockwave",
        "",
        lambda d: (
            f"ResNet-18 (batch size 32)\tpython3 main.py --data_dir=%s/cifar10\timage_classification/cifar10\t"
            f"--num_steps\t1\t{d.run}\t{d.gpus}\tstatic\t1\t-1.000000\t{d.run}\t{d.at}"
        ),
    ),
}
# The only layout of several files, with one row per job in each; pai_instance_table would add a few rows per job.
PAI_TABLES: Final[dict[str, Callable[[Draw], str]]] = {
    "pai_job_table.csv": lambda d: f"{d.i:024x},{d.i:024x},{d.user},Terminated,{d.at + 1}.0,{d.at + 9 + d.run}.0",
    "pai_task_table.csv": lambda d: (
        f"{d.i:024x},worker,{d.gpus}.0,Terminated,{d.at + 9}.0,{d.at + 9 + d.run}.0,600.0,29.3,50.0,T4"
    ),
}
NAMES: Final = (*LAYOUTS, "pai-tables")


def write(layout: str, rows: int, path: Path) -> str:
    """Write a trace of this layout; return its FORMAT:PATH."""
    if layout == "pai-tables":
        path.mkdir()
        for name, row in PAI_TABLES.items():
            _write_rows(path / name, "", row, rows)
        return f"{layout}:{path}"
    kind, header, row = LAYOUTS[layout]
    if layout == "philly-json":
        _write_rows(path, "[", row, rows, between=",\n", last="]\n")
    else:
        _write_rows(path, header + "\n" * bool(header), row, rows)
    return f"{kind}:{path}"


def _write_rows(
    path: Path, first: str, row: Callable[[Draw], str], rows: int, between: str = "\n", last: str = "\n"
) -> None:
    with path.open("w", encoding="utf-8") as file:
        file.write(first)
        for draw in draws(rows):
            file.write((between if draw.i else "") + row(draw))
        file.write(last)


def measure(source: str) -> dict[str, float]:
    """Read one file in this process."""
    from gpusched_env.traces import read_trace

    gc.collect()
    before = resident_bytes()
    Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")  # resets the peak
    begin = time.process_time()
    workload, report = read_trace(source)
    seconds = time.process_time() - begin
    arrays = workload.jobs.nbytes + sum(column.nbytes for column in workload.attributes.values())
    arrays += sum(part.nbytes for part in (workload.profiles.rows, workload.profiles.compute_s))
    beyond = peak_bytes() - before - arrays
    return {"cpu_seconds": seconds, "array_bytes": arrays / report.kept, "beyond_bytes": beyond / report.kept}


def main(settings: Settings) -> None:
    """Measure each layout in processes of its own, print and save."""
    if settings.one is not None:
        print(json.dumps(measure(settings.one)))
        return
    for layout in settings.layouts:
        if layout not in NAMES:
            raise SystemExit(unknown_name("layout", layout, NAMES))
    figures: dict[str, dict[str, float]] = {}
    for layout in settings.layouts or NAMES:
        with tempfile.TemporaryDirectory() as folder:
            source = write(layout, settings.rows, Path(folder) / layout)
            command = [sys.executable, __file__, "--one", source]
            runs = [
                json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
                for _ in range(settings.repeats)
            ]
        figures[layout] = {key: float(np.median([run[key] for run in runs])) for key in runs[0]}
    machine = f"Python {platform.python_version()}, {platform.machine()}, gpusched-env {gpusched_env.__version__}"
    table = Table(title=f"reading {settings.rows:,} rows\n{machine}", title_justify="left")
    for heading in ("layout", "CPU seconds", "workload [B/job]", "beyond it [B/job]"):
        table.add_column(heading, justify="left" if heading == "layout" else "right")
    for layout, row in figures.items():
        table.add_row(layout, f"{row['cpu_seconds']:.1f}", f"{row['array_bytes']:.0f}", f"{row['beyond_bytes']:.0f}")
    table.caption = (
        f"medians of {settings.repeats}; target for a million rows: at most {SECONDS:.0f} s and {BYTES:.0f} B/row"
    )
    table.caption_justify = "left"
    Console(width=100).print(table)
    if settings.output is not None:
        settings.output.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    run_script(main)
