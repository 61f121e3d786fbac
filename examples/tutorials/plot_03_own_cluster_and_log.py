"""
Your own cluster and log
========================

You have a list of jobs and a cluster. What would change with another scheduler, or with two more nodes?
"""

# %%
# A log
# -----
# Any CSV will do: submission, run time and GPUs of each job. Here we write one, with the column names of its
# owner.

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
# ``map`` names the columns that the reader cannot guess, with their units. The report says what was kept and
# what was dropped.

from gpusched_env.traces import describe_workload, offered_load, read_trace

source = f"csv:{folder / 'jobs.csv'}"
columns = {"arrival": "when", "duration_min": "minutes", "gpus": "cards"}
workload, report = read_trace(source, map=columns)
print(report.describe())
print({name: round(value, 1) for name, value in describe_workload(workload).items()})

# %%
# A cluster
# ---------
# Eight machines of four GPUs, four machines a rack. A scenario joins the cluster and the log.

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
# Two questions: another scheduler, and two more machines.

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

from gpusched_env import make_scheduler, simulate
from gpusched_env.evaluation import plot_runs

instance = today.instance(0)
figure = plot_runs(instance, {name: simulate(instance, make_scheduler(name)) for name in ("fifo", "tiresias")})

# %%
# The command line does the same: ``gpusched compare --workload csv:jobs.csv --map
# arrival=when,duration_min=minutes,gpus=cards --cluster 8x4 --schedulers fifo,tiresias --report lab.html``.
