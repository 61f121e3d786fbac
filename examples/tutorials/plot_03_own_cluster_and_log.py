"""
Your own cluster and log
========================

This tutorial starts from a list of jobs and a cluster. It answers two questions. How would the waiting times change
with another scheduler? How would they change with two more machines?
"""

# %%
# A log
# -----
# A log is a CSV file with the submission time, the run time and the number of GPUs of each job. Here we
# write such a file with random jobs. Its columns have names that the reader does not know.

import tempfile
from pathlib import Path

import numpy as np

folder = Path(tempfile.mkdtemp())
rng = np.random.default_rng(7)
submitted = np.sort(rng.uniform(0, 80 * 3600, 400)).round()
minutes = rng.lognormal(4.0, 1.4, 400).round(1).clip(1)
gangs = rng.choice([1, 2, 4, 8, 16], 400, p=[0.5, 0.15, 0.2, 0.1, 0.05])
rows = [f"{s:.0f},{m},{g}" for s, m, g in zip(submitted, minutes, gangs, strict=True)]
(folder / "jobs.csv").write_text("\n".join(["when,minutes,cards", *rows]))

# %%
# Read it
# -------
# ``map`` tells the reader which column has which role, and the unit of the run time. The report says how
# many jobs were kept, and which rows were dropped.

from gpusched_env.traces import describe_workload, offered_load, read_trace

source = f"csv:{folder / 'jobs.csv'}"
columns = {"arrival": "when", "duration_min": "minutes", "gpus": "cards"}
workload, report = read_trace(source, map=columns)
print(report.describe())
print({name: round(value, 1) for name, value in describe_workload(workload).items()})

# %%
# A cluster
# ---------
# The cluster has eight machines of four GPUs, with four machines per rack. A scenario combines the cluster
# and the log. The offered load is the GPU time of all jobs, divided by the GPU time of the cluster from the
# first arrival to the last.

from gpusched_env import NodeGroup, Scenario
from gpusched_env.scenarios import WorkloadSpec

today = Scenario(
    name="lab",
    description="our lab",
    groups=(NodeGroup(8, 4, nodes_per_rack=4),),
    workload=WorkloadSpec(source, parameters={"map": columns}),
)
print(f"offered load: {offered_load(workload, today.cluster.gpus):.2f}")

# %%
# What if?
# --------
# Each of four schedulers plays the log on the present cluster and on one with two more machines.

from gpusched_env.evaluation import evaluate

larger = today.replace(name="lab with 2 more machines", groups=(NodeGroup(10, 4, nodes_per_rack=4),))
for scenario in (today, larger):
    for run in evaluate(scenario, ["fifo", "fifo-skip", "tiresias", "dally"], [0], progress=False):
        metrics = run.metrics
        wait_h, p99_h = metrics["mean_queueing_s"] / 3600, metrics["p99_queueing_s"] / 3600
        print(f"{scenario.name:24} {run.scheduler.name:10} mean wait {wait_h:6.2f} h   p99 {p99_h:6.2f} h")

# %%
# Where the time goes
# -------------------
# The picture compares the schedules of two schedulers on the present cluster.

from gpusched_env import make_scheduler, simulate
from gpusched_env.evaluation import plot_runs

instance = today.instance(0)
figure = plot_runs(instance, {name: simulate(instance, make_scheduler(name)) for name in ("fifo", "tiresias")})

# %%
# This command compares two of the schedulers on the present cluster and writes a report: ``gpusched compare
# --workload csv:jobs.csv --map arrival=when,duration_min=minutes,gpus=cards --cluster 8x4/4 --schedulers
# fifo,tiresias --report lab.html``.
