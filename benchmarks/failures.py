"""What failures cost the simulator: a year of 100,000 jobs on 2,048 nodes of 8 GPUs, beside the run without failures.

    python benchmarks/failures.py [--scheduler fifo-skip] [--rate 4] [--output FILE.json]

Jobs of 1 to 1,024 GPUs arrive in a Poisson process over a year and demand 0.8 of the GPUs; nodes fail ``rate`` times in
1,000 node-days and are repaired for two hours; jobs save every hour. CPU seconds of the simulator alone, best of the
repeats: drawing the outages has its own row.
"""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from poisson_jobs import FREE, columns
from rich.console import Console

import gpusched_env
from gpusched_env import Instance, Workload, make_scheduler, simulate
from gpusched_env.event_log import COMPLETE, FAIL
from gpusched_env.problem.failures import Failures
from gpusched_env.support.commands import run_script

YEAR_S: Final = 365 * 86_400.0  # [s]
SHARES: Final = {1: 0.4, 8: 0.4, 16: 0.1, 64: 0.06, 256: 0.03, 1024: 0.01}
TARGET_S: Final = 6.0  # [s] of the run with failures


@dataclass
class Settings:
    """Measure a year with failures."""

    scheduler: str = "fifo-skip"
    """Who plays."""
    jobs: int = 100_000
    """Jobs of the year."""
    load: float = 0.8
    """Demand / GPUs."""
    rate: float = 4.0
    """Failures in 1,000 node-days."""
    repeats: int = 2
    """Runs of each kind, after one that compiles."""
    output: Path | None = None
    """JSON file for the results."""


def a_year(jobs: int, load: float) -> Instance:
    """Draw jobs, and stretch their arrivals and lengths to a year."""
    _, workload, cluster = columns(jobs, 16_384, 0, load, SHARES)
    rows = workload.jobs
    factor = YEAR_S / rows["arrival_s"].max()
    workload = Workload.from_columns(rows["arrival_s"] * factor, rows["gpus"], rows["duration_s"] * factor)
    rules = dataclasses.replace(FREE, checkpoint_interval_s=3_600.0, checkpoint_cost_s=10.0, recovery_s=600.0)
    return Instance(cluster, workload, None, rules)


def taken_s(call: Callable[[], Any]) -> tuple[float, Any]:
    """CPU seconds of a call [s], and its result."""
    begin = time.process_time()
    found = call()
    return time.process_time() - begin, found


def main(settings: Settings) -> None:
    """Measure, print the seconds, their ratio and whether the target is met."""
    calm = a_year(settings.jobs, settings.load)
    failures = Failures(settings.rate, until_s=2 * YEAR_S)
    drawn_s, stormy = taken_s(partial(failures.apply, calm, 0))
    rows: dict[str, list[float]] = {"without failures": [], "with failures": []}
    for turn in range(settings.repeats + 1):
        for name, instance in zip(rows, (calm, stormy), strict=True):
            one_s, log = taken_s(partial(simulate, instance, make_scheduler(settings.scheduler)))
            rows[name] += [one_s] if turn else []
    console = Console()
    failed, done = (int((log.events["kind"] == kind).sum()) for kind in (FAIL, COMPLETE))
    years = float(log.events["time_s"][-1]) / YEAR_S
    console.print(f"{settings.scheduler}: {done:,} jobs done after {years:.2f} years, {failed:,} gangs failed")
    best = {name: min(seconds) for name, seconds in rows.items()}
    for name, best_s in {"outages drawn": drawn_s, **best}.items():
        console.print(f"{name}: {best_s:.2f} s of CPU")
    without_s, with_s = best.values()
    verdict = "met" if with_s <= TARGET_S else "MISSED"
    console.print(f"ratio {with_s / without_s:.2f}; target {TARGET_S:g} s, {verdict}")
    if settings.output is not None:
        document = {"version": gpusched_env.__version__, "drawn_s": drawn_s, "seconds": rows, "failed": failed}
        settings.output.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    run_script(main)
