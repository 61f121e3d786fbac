"""Whole runs of elastic schedulers on drawn workloads of Pollux: CPU seconds, without compilation.

    python benchmarks/elastic.py [--repeats 3] [--output FILE.json]

A run plays the scenario ``pollux-64-v0`` from the first arrival to the last completion, decisions every minute. Times
are CPU seconds, so that other processes do not count; the smallest of the repeats, after a run that compiles.
"""

from __future__ import annotations

import json
import platform
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.table import Table

import gpusched_env
from gpusched_env.baselines import make_scheduler
from gpusched_env.scenarios import get_scenario
from gpusched_env.simulator import simulate
from gpusched_env.support.commands import run_script

# scheduler, jobs, batch, target [s] of a run; None = no target
CASES: Final = (
    ("optimus", 100, "fixed", 0.1),
    ("afs", 100, "fixed", 0.1),
    ("afs-p", 100, "fixed", None),
    ("max-min", 100, "fixed", None),
    ("tiresias-elastic", 100, "fixed", None),
    ("optimus", 160, "fixed", None),
    ("pollux", 160, "adaptive", 10.0),
)


@dataclass
class Settings:
    """Measure whole runs."""

    repeats: int = 3
    """Runs of each case; the smallest time counts."""
    output: Path | None = None
    """JSON file for the results."""


def measure(scheduler: str, jobs: int, batch: str, repeats: int) -> float:
    """Return the CPU seconds of a run of seed 0."""
    instance = get_scenario(f"pollux-64-v0:jobs={jobs},batch={batch}").instance(0)
    simulate(get_scenario(f"pollux-64-v0:jobs=8,batch={batch}").instance(0), make_scheduler(scheduler))  # compiles
    seconds = []
    for _ in range(repeats):
        begin = time.process_time()
        simulate(instance, make_scheduler(scheduler))
        seconds.append(time.process_time() - begin)
    return min(seconds)


def main(settings: Settings) -> None:
    """Measure, print a table, write the file."""
    rows = []
    table = Table(title="whole runs of elastic schedulers")
    for heading in ("scheduler", "jobs", "batch", "CPU [s]", "target"):
        table.add_column(heading.replace("[", "\\["), justify="left" if heading == "scheduler" else "right")
    for scheduler, jobs, batch, target in CASES:
        seconds = measure(scheduler, jobs, batch, settings.repeats)
        rows.append({"scheduler": scheduler, "jobs": jobs, "batch": batch, "seconds": seconds, "target_s": target})
        verdict = "" if target is None else f"{target:g} s, {'met' if seconds <= target else 'MISSED'}"
        table.add_row(scheduler, f"{jobs}", batch, f"{seconds:.3f}", verdict)
    Console().print(table)
    if settings.output is not None:
        host = {"python": platform.python_version(), "version": gpusched_env.__version__, "machine": platform.machine()}
        settings.output.write_text(json.dumps({"host": host, "rows": rows}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    run_script(main)
