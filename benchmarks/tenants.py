"""Time of the schedulers of tenants: seconds to simulate 100,000 jobs of 50 tenants on 2,000 GPUs.

    python benchmarks/tenants.py [--jobs 100000] [--schedulers kueue drf] [--output FILE.json]

Arrivals are Poisson, run times lognormal, gangs of 1 to 8 GPUs, three priority classes; each tenant has 40 GPUs of
quota. One process with one thread; times are CPU seconds, without compilation.
"""

from __future__ import annotations

import dataclasses
import json
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gpusched_env.baselines import make_scheduler
from gpusched_env.event_log import PREEMPT
from gpusched_env.network import Network
from gpusched_env.problem.cluster import Cluster
from gpusched_env.problem.instance import Instance, Semantics
from gpusched_env.problem.tenants import PRIORITY, Tenant, Tenants
from gpusched_env.problem.workload import TENANT, Workload
from gpusched_env.simulator import Simulation
from gpusched_env.support.commands import run_script


@dataclass
class Options:
    """Measure the time of a run of each scheduler."""

    jobs: int = 100_000
    tenants: int = 50
    load: float = 0.95
    """Offered work / capacity."""
    schedulers: tuple[str, ...] = (
        "fifo-skip", "kueue", "kueue:queueing=strict", "kueue:reclaim=any", "kueue-reclaim", "kueue-fair", "drf",
        "fair", "capacity", "volcano", "kai",
    )  # fmt: skip
    output: Path | None = None
    """JSON file for the results."""


def problem(jobs: int, tenants: int, load: float) -> Instance:
    """Draw the jobs and their tenants."""
    rng = np.random.default_rng(0)
    cluster = Cluster.parse("250x8")
    gangs = rng.choice([1, 2, 4, 8], jobs, p=[0.5, 0.2, 0.2, 0.1])
    seconds = rng.lognormal(8.0, 1.2, jobs).round()
    arrival_s = np.cumsum(rng.exponential((gangs * seconds).mean() / cluster.gpus / load, jobs))
    names = np.array([f"t{i:02d}" for i in range(tenants)])
    attributes = {TENANT: rng.choice(names, jobs), PRIORITY: rng.integers(0, 3, jobs).astype(float)}
    workload = Workload.from_columns(arrival_s, gangs, seconds).unchecked_replace(attributes=attributes)
    tree = tuple(Tenant(name, quota=cluster.gpus // tenants) for name in names.tolist())
    rules = Semantics(checkpoint_s=0.0, restore_s=0.0)
    return Instance(cluster, workload, Network("none"), rules, tenants=Tenants(tree))


def main(options: Options) -> None:
    """Print a line for each scheduler."""
    instance, short = problem(options.jobs, options.tenants, options.load), problem(500, options.tenants, options.load)
    rows = []
    for name in options.schedulers:
        Simulation(short).run(make_scheduler(name))  # compiles
        simulation = Simulation(instance)
        begin = time.process_time()
        simulation.run(make_scheduler(name))
        seconds = time.process_time() - begin
        preemptions = int((simulation.log().events["kind"] == PREEMPT).sum())
        rows.append({"scheduler": name, "cpu_s": seconds, "preemptions": preemptions})
        print(f"{name:30} {seconds:8.2f} s {preemptions:8} preemptions", flush=True)
    if options.output is not None:
        options.output.write_text(json.dumps({"options": dataclasses.asdict(options) | {"output": None}, "rows": rows}))


if __name__ == "__main__":
    run_script(main)
