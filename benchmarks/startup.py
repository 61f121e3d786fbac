"""Cold compilation and warm start of ``gymnasium.make`` + ``reset``, each in a fresh process.

    python benchmarks/startup.py [--output FILE.json]

The cold run has an empty kernel cache and also steps and runs a preemptive scheduler, so that every kernel is compiled.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import tyro
from rich.console import Console
from rich.table import Table

COLD = """
import gymnasium
env = gymnasium.make("gpusched_env:gpusched/Cluster-v0")
env.reset(seed=0)
from gpusched_env import get_scenario, make_scheduler, simulate
for name in ("fifo", "srtf", "tiresias", "random"):
    simulate(get_scenario("tiny-v1").instance(0), make_scheduler(name))
"""
WARM = """
import gymnasium
gymnasium.make("gpusched_env:gpusched/Cluster-v0").reset(seed=0)
"""


@dataclass
class Settings:
    """Measure start-up."""

    repeats: int = 3
    """Warm starts; the fastest counts."""
    output: Path | None = None
    """JSON file of the figures."""


def seconds(code: str, cache: str) -> float:
    """Run a program with its own kernel cache; return the wall time of the whole process [s]."""
    begin = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True, env=os.environ | {"NUMBA_CACHE_DIR": cache})
    return time.perf_counter() - begin


def main(settings: Settings) -> None:
    """Measure, print and save."""
    with tempfile.TemporaryDirectory() as cache:
        cold = seconds(COLD, cache)
        warm = min(seconds(WARM, cache) for _ in range(settings.repeats))
    table = Table(title="start-up of a fresh process", title_justify="left")
    table.add_column("what")
    table.add_column("seconds", justify="right")
    table.add_row("cold: compile every kernel, make, reset, four schedulers", f"{cold:.1f}")
    table.add_row("warm: import, make, reset", f"{warm:.2f}")
    Console(width=100).print(table)
    if settings.output is not None:
        settings.output.write_text(json.dumps({"cold_s": cold, "warm_s": warm}, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(tyro.cli(Settings))
