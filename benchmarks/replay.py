"""Replay a log: seconds and peak memory of each scheduler, each in a fresh process.

python benchmarks/replay.py --workload philly:PATH [--scenario philly-full-v1] [--schedulers fifo srtf tiresias]
python benchmarks/replay.py                      synthetic jobs instead of a log
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import tyro
from machine import peak_bytes
from rich.console import Console
from rich.table import Table


@dataclass
class Settings:
    """Measure the replay of a log."""

    scenario: str = "philly-full-v1"
    """Scenario whose cluster and rules are used."""
    workload: str | None = None
    """FORMAT:PATH of a log, for example philly:PATH; by default the scenario's own jobs."""
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

    simulate(get_scenario("tiny-v1").instance(0), make_scheduler(spec))  # compile
    scenario = get_scenario(settings.scenario)
    if settings.workload is not None:
        scenario = scenario.with_workload(settings.workload)
    instance = scenario.instance(scenario.seeds.report[0])
    begin = time.perf_counter()
    log = simulate(instance, make_scheduler(spec))
    seconds = time.perf_counter() - begin
    summary = summarise(instance, log)
    return {
        "scheduler": spec,
        "jobs": len(instance.workload),
        "gpus": instance.cluster.gpus,
        "seconds": seconds,
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
        if settings.workload is not None:
            command += ["--workload", settings.workload]
        figures.append(json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout))
    table = Table(title=f"replay of {figures[0]['jobs']:,} jobs on {figures[0]['gpus']:,} GPUs", title_justify="left")
    for heading in ("scheduler", "seconds", "peak memory [MB]", "mean JCT [s]"):
        table.add_column(heading, justify="left" if heading == "scheduler" else "right")
    for row in figures:
        cells = (f"{row['seconds']:.2f}", f"{row['peak_memory_MB']:,.0f}", f"{row['mean_jct_s']:,.0f}")
        table.add_row(row["scheduler"], *cells)
    Console(width=100).print(table)
    if settings.output is not None:
        settings.output.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(tyro.cli(Settings))
