"""Twins of logs other than tables of Slurm: a CSV of one's own, Workloads of Kueue on nodes of Kubernetes."""

import csv
import json
import os
from datetime import datetime, timedelta

import numpy as np
import pytest
from typer.testing import CliRunner

from gpusched_env.cli.app import app
from gpusched_env.errors import TraceError
from gpusched_env.problem.cluster import Cluster
from gpusched_env.problem.tenants import Tenant, Tenants
from gpusched_env.traces import read_trace
from gpusched_env.twin import Pool, Twin, read_twin
from gpusched_env.twin.example import example_jobs, write_example
from gpusched_env.twin.recorded import Recorded
from gpusched_env.twin.scoring import replayed_starts

BEGIN = datetime(2025, 1, 1)


def run(*words):
    result = CliRunner().invoke(app, ["twin", *map(str, words)])
    return result.exit_code, " ".join(result.output.split())


def as_csv(table, path):
    """Write a table of sacct as a CSV whose columns have other names; times begin at 2025-01-01."""
    rows = list(csv.DictReader(table.read_text().splitlines(), delimiter="|"))
    with path.open("w", newline="") as file:
        out = csv.writer(file)
        out.writerow(["nr", "who", "project", "class", "part", "asked_at", "began", "ended", "n", "limit_min"])
        for row in rows:
            days, _, clock = row["Timelimit"].rpartition("-")
            hours, minutes, _ = map(int, clock.split(":"))
            gpus = row["ReqTRES"].removeprefix("gres/gpu=")
            names = (row[name] for name in ("JobID", "User", "Account", "QOS", "Partition", "Eligible", "Start", "End"))
            out.writerow([*names, gpus, (int(days or 0) * 24 + hours) * 60 + minutes])


MAP = """\
id = "nr"
user = "who"
account = "project"
qos = "class"
virtual_cluster = "part"
arrival = "asked_at"
start = "began"
end = "ended"
gpus = "n"
estimate_min = "limit_min"
"""


def test_a_csv_gives_the_twin_of_the_table_of_slurm(tmp_path):
    """Both files tell the same, so the policies, tenants and scores are equal; compare reads the CSV with its map."""
    table = write_example(tmp_path, 600)
    as_csv(table, tmp_path / "own.csv")
    (tmp_path / "map.toml").write_text(MAP)
    made = []
    for name, words in (("slurm", []), ("csv", ["--map", tmp_path / "map.toml"])):
        log = f"{name}:{table if name == 'slurm' else tmp_path / 'own.csv'}"
        code, told = run("fit", log, "--cluster", "24x8@A100", "--output", tmp_path / f"{name}.json", *words)
        assert code == 0, told
        made.append(read_twin(tmp_path / f"{name}.json"))
    slurm, own = made
    assert own.reading == {"map": dict(line.replace('"', "").split(" = ") for line in MAP.splitlines())}
    assert (own.scheduler, own.tenants, own.classes) == (slurm.scheduler, slurm.tenants, slurm.classes)
    assert repr(own.score) == repr(slurm.score)  # repr: NaN
    (tmp_path / "key").write_text("ab" * 16)
    (tmp_path / "key").chmod(0o644)
    hidden = ("--pseudonymise", tmp_path / "key")
    code, told = run("compare", tmp_path / "csv.json", "--schedulers", "current", "--workers", 1, *hidden)
    assert code == 0, told
    assert "the key repeats 2 bytes" in told
    assert ("others can read the key" in told) == (os.name == "posix")
    (tmp_path / "key").write_text("short")
    code, told = run("compare", tmp_path / "csv.json", *hidden)
    assert (code, "fewer than 16" in told) == (2, True)
    code, told = run("compare", tmp_path / "csv.json", "--map", "user=who")
    assert (code, "are for --workload" in told) == (2, True)


@pytest.mark.parametrize(
    ("rows", "waits", "told"),
    [
        (["0,10,30,1", "5,5,6,2"], [10.0, 0.0], ""),
        (["20,10,30,1", "5,8,9,2"], [0.0, 3.0], "started before they arrived"),
        (["2025-01-01 00:00:00+01:00,2024-12-31 23:00:40+00:00,2025-01-01T00:00:00Z,1"], [40.0], ""),
        (["5,2025-01-01 00:00:00,2025-01-01 01:00:00,1"], None, ""),  # no wait between a number and a date
    ],
)
def test_waits_of_a_csv(tmp_path, rows, waits, told):
    path = tmp_path / "jobs.csv"
    path.write_text("\n".join(["arrival,start,end,gpus", *rows]) + "\n")
    workload, report = read_trace(f"csv:{path}")
    found = workload.attributes.get("wait_s")
    assert (None if found is None else found.tolist()) == waits
    assert told in report.describe()
    if waits is None:
        with pytest.raises(TraceError, match="does not tell when jobs started: give a log that does"):
            Recorded.of(workload)


def test_a_run_time_without_a_start_is_told(tmp_path):
    path = tmp_path / "jobs.csv"
    path.write_text("arrival,start,run_time,gpus\n0,10,30,1\n5,,6,2\n")
    workload, _ = read_trace(f"csv:{path}")
    assert np.isnan(workload.attributes["wait_s"]).tolist() == [False, True]
    with pytest.raises(TraceError, match="1 jobs have a run time, but no start: correct or remove them"):
        Recorded.of(workload)


def iso(seconds):
    return (BEGIN + timedelta(seconds=round(float(seconds)))).isoformat() + "Z"


def test_workloads_of_kueue_on_nodes_of_kubernetes(tmp_path):
    """One queue is played, its starts are exported as Workloads, and the twin has the same waits."""
    pools = (Pool("all", Cluster.parse("24x8").groups),)
    truth, jobs = Twin("", "kueue", pools, Tenants((Tenant("all", quota=192),))), example_jobs(300)
    start_s = replayed_starts(truth, jobs)
    lines = []
    for row, job in enumerate(jobs.jobs):
        times = (job["arrival_s"], start_s[row], start_s[row] + job["duration_s"])
        usage = {"flavors": {"amd.com/gpu": "mi"}, "resourceUsage": {"amd.com/gpu": str(job["gpus"])}}
        ends = [("Admitted", times[1]), ("Finished", times[2])]
        conditions = [{"type": kind, "status": "True", "lastTransitionTime": iso(at)} for kind, at in ends]
        status = {"admission": {"clusterQueue": "q", "podSetAssignments": [usage]}, "conditions": conditions}
        metadata = {"name": f"w{row}", "namespace": "vis", "creationTimestamp": iso(times[0])}
        lines.append(json.dumps({"kind": "Workload", "metadata": metadata, "status": status}))
    (tmp_path / "log.json").write_text("\n".join(lines))
    nodes = [
        {"kind": "Node", "metadata": {"name": f"n{i}"}, "status": {"allocatable": {"amd.com/gpu": "8"}}}
        for i in range(24)
    ]
    (tmp_path / "nodes.json").write_text(json.dumps({"kind": "List", "items": nodes}))
    groups = [{"flavors": [{"resources": [{"name": "amd.com/gpu", "nominalQuota": "192"}]}]}]
    queue = {"kind": "ClusterQueue", "metadata": {"name": "q"}, "spec": {"resourceGroups": groups}}
    (tmp_path / "quotas.json").write_text(json.dumps(queue))
    code, told = run(
        "fit", f"kueue:{tmp_path / 'log.json'}", "--gpu-resource", "amd.com/gpu",
        "--cluster", f"kubernetes:{tmp_path / 'nodes.json'}", "--quotas", tmp_path / "quotas.json",
        "--output", tmp_path / "twin.json",
    )  # fmt: skip
    assert code == 0, told
    twin = read_twin(tmp_path / "twin.json")
    assert (twin.gpus, twin.reading) == (192, {"gpu_resource": "amd.com/gpu"})
    assert twin.score.overall.jobs > 100
    assert twin.score.overall.error_90_s <= 1  # Kubernetes writes whole seconds
    code, told = run("compare", tmp_path / "twin.json", "--schedulers", "current", "--workers", 1)
    assert code == 0, told
