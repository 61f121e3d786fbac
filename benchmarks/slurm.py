"""A replay under Slurm's rules: CPU seconds for 100,000 jobs of 50 tenants on 2,000 GPUs.

    python benchmarks/slurm.py [--jobs 100000] [--gpus 2000] [--tenants 50] [--repeats 3] [--nodes]
        [--schedulers slurm ...]

Jobs are those of growth.py. Their time limits are 1 to 5 times their run times, and each belongs to one of the tenants,
uniformly. Kernels are compiled before the clock starts. Times are CPU seconds, so that other processes do not count;
median and maximum over repeats.
"""

from __future__ import annotations

import dataclasses
import statistics
import time
from dataclasses import dataclass
from typing import Final

import numpy as np
from poisson_jobs import FREE, GANGS, LOAD, MACHINE, SHARES, columns
from rich.console import Console
from rich.table import Table

from gpusched_env import make_scheduler
from gpusched_env.metrics import job_times
from gpusched_env.problem.instance import Instance
from gpusched_env.problem.partitions import PARTITION, Partition, Partitions
from gpusched_env.problem.tenants import TENANT
from gpusched_env.problem.workload import MAX_NODES, MIN_NODES, Workload
from gpusched_env.simulator import simulate
from gpusched_env.support.commands import run_script

TARGET_S: Final = 3.0  # [s] of the first scheduler
SCHEDULERS: Final = (
    "slurm", "slurm-multifactor", "slurm:backfill=easy", "slurm:backfill=none", "slurm:bf_interval_s=0",
    "slurm-multifactor:fair_share=classic", "slurm-multifactor:bf_max_job_test=500", "fifo",
)  # fmt: skip


@dataclass
class Settings:
    """Measure replays under Slurm's rules."""

    jobs: int = 100_000
    """Jobs of the workload."""
    gpus: int = 2_000
    """GPUs, eight a machine."""
    tenants: int = 50
    """Leaves of the tree of tenants."""
    load: float = LOAD
    """Demand / capacity."""
    partitions: int = 0
    """Partitions, each of an equal number of nodes, to which jobs belong uniformly; 0 = none."""
    nodes: bool = False
    """Each job demands as few nodes as can hold it, so that plans are made by node."""
    repeats: int = 3
    """Runs of each scheduler."""
    schedulers: tuple[str, ...] = SCHEDULERS
    """Schedulers to measure."""


def instance_of(
    jobs: int, gpus: int, tenants: int, load: float, partitions: int = 0, by_node: bool = False, seed: int = 0
) -> Instance:
    """Draw the jobs, their limits, their tenants and their partitions."""
    rng, workload, cluster = columns(jobs, gpus, seed, load, dict(zip(GANGS, SHARES, strict=True)))
    rows = workload.jobs
    limits = np.ceil(rows["duration_s"] * rng.uniform(1.0, 5.0, jobs))
    names = np.array([f"tenant-{number:02d}" for number in range(tenants)])[rng.integers(0, tenants, jobs)]
    attributes = {TENANT: names}
    if by_node:
        attributes |= dict.fromkeys((MIN_NODES, MAX_NODES), -(-rows["gpus"] // MACHINE))
    with_limits = Workload.from_columns(
        rows["arrival_s"], rows["gpus"], rows["duration_s"], estimate_s=limits, attributes=attributes
    )
    if not partitions:
        return Instance(cluster, with_limits, None, FREE)
    nodes = len(cluster.nodes) // partitions
    parts = [Partition(f"p{i}", f"{i * nodes}-{(i + 1) * nodes - 1}") for i in range(partitions)]
    which = rng.integers(0, partitions, jobs)
    which[rows["gpus"] > 8 * nodes] = 0
    named = with_limits.attributes | {PARTITION: np.array([part.name for part in parts])[which]}
    divided = dataclasses.replace(with_limits, attributes=named)
    return Instance(cluster, divided, None, FREE, partitions=Partitions(tuple(parts)))


def main(settings: Settings) -> None:
    """Measure, and print a table."""
    small = instance_of(1_000, 64, settings.tenants, settings.load, min(settings.partitions, 2), settings.nodes)
    instance = instance_of(
        settings.jobs, settings.gpus, settings.tenants, settings.load, settings.partitions, settings.nodes
    )
    table = Table(title=f"{settings.jobs:,} jobs, {settings.gpus:,} GPUs, {settings.tenants} tenants")
    for heading in ("scheduler", "median [s]", "worst [s]", "mean JCT [s]", "target"):
        table.add_column(heading, justify="left" if heading == "scheduler" else "right")
    for spec in settings.schedulers:
        simulate(small, make_scheduler(spec))
        seconds = []
        for _ in range(settings.repeats):
            begin = time.process_time()
            log = simulate(instance, make_scheduler(spec))
            seconds.append(time.process_time() - begin)
        median = statistics.median(seconds)
        verdict = f"{TARGET_S:g} s, {'met' if median <= TARGET_S else 'MISSED'}" if spec.startswith("slurm") else ""
        jct_s = float(job_times(instance, log)["jct_s"].mean())
        table.add_row(spec, f"{median:.2f}", f"{max(seconds):.2f}", f"{jct_s:,.0f}", verdict)
    Console().print(table)


if __name__ == "__main__":
    run_script(main)
