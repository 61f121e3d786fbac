"""Replay a log: CPU seconds and peak memory of each scheduler, each in a fresh process.

python benchmarks/replay.py --workload philly:PATH [--scenario philly-full-v1] [--schedulers fifo srtf tiresias]
python benchmarks/replay.py --workload helios:PATH --cluster 96x8 --load 0.9 --schedulers dally gandiva-lite themis-lite
python benchmarks/replay.py                      synthetic jobs instead of a log
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from machine import peak_bytes
from rich.console import Console
from rich.table import Table

from gpusched_env.support.commands import run_script


@dataclass
class Settings:
    """Measure the replay of a log."""

    scenario: str = "philly-full-v1"
    """Scenario whose cluster and rules are used."""
    workload: str | None = None
    """FORMAT:PATH of a log, for example philly:PATH; by default the scenario's own jobs."""
    jobs: int | None = None
    """First jobs of the log; by default all."""
    load: float | None = None
    """Demand / capacity, to which the arrival times of the log are scaled; by default they stay as they are."""
    cluster: str | None = None
    """Machines instead of those of the scenario, such as 96x8."""
    schedulers: tuple[str, ...] = ("fifo", "srtf", "tiresias")
    """Schedulers to measure."""
    output: Path | None = None
    """JSON file for the results."""
    one: str | None = None
    """Measure this scheduler in this process and print JSON (used by the command itself)."""


def measure(settings: Settings, spec: str) -> dict[str, float | str]:
    """Replay with one scheduler in this process."""
    from gpusched_env import get_scenario, make_scheduler, simulate
    from gpusched_env.metrics import summarise
    from gpusched_env.problem.cluster import Cluster

    simulate(get_scenario("tiny-v1").instance(0), make_scheduler(spec))  # compile
    scenario = get_scenario(settings.scenario)
    if settings.workload is not None:
        scenario = scenario.with_workload(settings.workload, jobs=settings.jobs, load=settings.load)
    if settings.cluster is not None:
        scenario = scenario.with_cluster(Cluster.parse(settings.cluster))
    instance = scenario.instance(scenario.seeds.report[0])
    begin = time.process_time()
    log = simulate(instance, make_scheduler(spec))
    seconds = time.process_time() - begin
    summary = summarise(instance, log)
    return {
        "scheduler": spec,
        "jobs": len(instance.workload),
        "gpus": instance.cluster.gpus,
        "cpu_s": seconds,
        "events": len(log.events),
        "peak_memory_MB": peak_bytes() / 1e6,
        "mean_jct_s": summary["mean_jct_s"],
        "digest": log.digest(),
    }


def main(settings: Settings) -> None:
    """Measure each scheduler in a process of its own, print and save."""
    if settings.one is not None:
        print(json.dumps(measure(settings, settings.one)))
        return
    figures = []
    for spec in settings.schedulers:
        command = [sys.executable, __file__, "--scenario", settings.scenario, "--one", spec]
        for name in ("workload", "jobs", "load", "cluster"):
            if getattr(settings, name) is not None:
                command += [f"--{name}", str(getattr(settings, name))]
        figures.append(json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout))
    table = Table(title=f"replay of {figures[0]['jobs']:,} jobs on {figures[0]['gpus']:,} GPUs", title_justify="left")
    for heading in ("scheduler", "CPU seconds", "events", "peak memory [MB]", "mean JCT [s]"):
        table.add_column(heading, justify="left" if heading == "scheduler" else "right")
    for row in figures:
        numbers = (row["events"], row["peak_memory_MB"], row["mean_jct_s"])
        cells = (f"{row['cpu_s']:.2f}", *(f"{number:,.0f}" for number in numbers))
        table.add_row(row["scheduler"], *cells)
    Console(width=100).print(table)
    if settings.output is not None:
        settings.output.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    run_script(main)
