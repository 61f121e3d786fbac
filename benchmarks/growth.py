"""How replaying grows: CPU seconds of schedulers on Poisson jobs at load .95, all gangs in one machine.

python benchmarks/growth.py                                    10,000 jobs on 64 GPUs
python benchmarks/growth.py --jobs 100000 --gpus 2000 --schedulers fifo:placement=consolidate srtf tiresias dally
"""

from __future__ import annotations

import json
import statistics
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import tyro
from rich.console import Console
from rich.table import Table

from gpusched_env import make_scheduler
from gpusched_env.cluster import Cluster
from gpusched_env.instance import Instance, Semantics
from gpusched_env.simulator import simulate
from gpusched_env.workload import Workload

GANGS, SHARES = (1, 2, 4, 8), (0.7, 0.1, 0.15, 0.05)
LOAD = 0.95
MACHINE = 8  # [GPU]


@dataclass
class Settings:
    """Measure how long replays take."""

    jobs: int = 10_000
    """Jobs."""
    gpus: int = 64
    """GPUs, eight to a machine, 25 machines to a rack."""
    schedulers: tuple[str, ...] = ("fifo", "sjf", "srtf", "las", "tiresias")
    """Schedulers to measure."""
    repeats: int = 3
    """Runs of each; the median counts."""
    seed: int = 0
    """Seed of the jobs."""
    output: Path | None = None
    """JSON file of the figures."""


def poisson(jobs: int, gpus: int, seed: int) -> Instance:
    """Draw jobs of log-normal length whose demand is .95 of the cluster; preemption is free."""
    rng = np.random.default_rng(seed)
    gangs = rng.choice(GANGS, jobs, p=SHARES)
    duration_s = np.ceil(rng.lognormal(7.0, 1.5, jobs))
    gap_s = (gangs * duration_s).mean() / (LOAD * gpus)
    workload = Workload.from_columns(np.cumsum(rng.exponential(gap_s, jobs)), gangs, duration_s)
    cluster = Cluster.homogeneous(gpus // MACHINE, MACHINE, 25)
    return Instance(cluster, workload, None, Semantics(checkpoint_s=0.0, restore_s=0.0))


def main(settings: Settings) -> None:
    """Measure, print and save."""
    instance, small = (poisson(jobs, settings.gpus, settings.seed) for jobs in (settings.jobs, 50))
    figures = []
    for spec in settings.schedulers:
        simulate(small, make_scheduler(spec))  # compile
        seconds = []
        for _ in range(settings.repeats):
            begin = time.process_time()
            log = simulate(instance, make_scheduler(spec))
            seconds.append(time.process_time() - begin)
        median_s = statistics.median(seconds)
        figures.append(dict(scheduler=spec, cpu_s=median_s, events=len(log.events), digest=log.digest()))
    title = f"replay of {settings.jobs:,} jobs on {settings.gpus:,} GPUs, load {LOAD}"
    table = Table(title=title, title_justify="left")
    for heading in ("scheduler", "CPU seconds", "events", "microseconds an event"):
        table.add_column(heading, justify="left" if heading == "scheduler" else "right")
    for row in figures:
        per_event = f"{1e6 * row['cpu_s'] / row['events']:.2f}"
        table.add_row(row["scheduler"], f"{row['cpu_s']:.3f}", f"{row['events']:,}", per_event)
    Console(width=100).print(table)
    if settings.output is not None:
        figures_of = dict(jobs=settings.jobs, gpus=settings.gpus, load=LOAD, schedulers=figures)
        settings.output.write_text(json.dumps(figures_of, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(tyro.cli(Settings))
