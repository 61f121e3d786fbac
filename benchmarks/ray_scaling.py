"""Runs of schedulers on a Ray cluster of one and of two workers, and in one process without Ray.

    python benchmarks/ray_scaling.py [--runs 40] [--jobs 30000] [--output FILE.json]

All three play the same runs, and their results must be equal. Wall-clock seconds, without the start of Ray.
"""

from __future__ import annotations

import dataclasses
import os
import time
from dataclasses import dataclass
from pathlib import Path

from machine import save_figures

from gpusched_env.evaluation import evaluate
from gpusched_env.evaluation.processes import backend
from gpusched_env.scenarios import get_scenario
from gpusched_env.support.commands import run_script


@dataclass
class Settings:
    """Measure the Ray backend."""

    runs: int = 40
    """Runs of each measurement."""
    jobs: int = 30_000
    """Jobs of a run: with 30,000, forty runs take about half a minute on one core."""
    output: Path | None = None
    """JSON file for the results."""


def main(settings: Settings) -> None:
    """Measure, print and save."""
    import ray

    scenario = get_scenario("philly-256-v1")
    scenario = scenario.replace(workload=dataclasses.replace(scenario.workload, jobs=settings.jobs))
    seeds = range(settings.runs)
    taken, found = {}, {}
    for name, workers in (("one process", 0), ("ray, 1 worker", 1), ("ray, 2 workers", 2)):
        if workers:
            os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
            ray.init(num_cpus=workers, include_dashboard=False, log_to_driver=False, logging_level="error")
        with backend("ray" if workers else "processes"):
            evaluate(scenario, ["dally"], range(workers), workers=max(workers, 1), progress=False) if workers else None
            begin = time.perf_counter()
            found[name] = evaluate(scenario, ["dally"], seeds, workers=max(workers, 1), progress=False)
            taken[name] = time.perf_counter() - begin
        if workers:
            ray.shutdown()
    assert found["ray, 1 worker"] == found["one process"] == found["ray, 2 workers"]
    speedup = taken["ray, 1 worker"] / taken["ray, 2 workers"]
    for name, seconds in taken.items():
        print(f"{name}: {seconds:.1f} s")
    print(f"two workers are {speedup:.2f} times as fast as one; all results are equal")
    save_figures({"seconds": taken, "speedup": speedup}, settings.output)


if __name__ == "__main__":
    run_script(main)
