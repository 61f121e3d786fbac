"""A round of Sia: milliseconds for the integer program of 160 jobs on three GPU types.

    python benchmarks/sia.py [--jobs 160] [--rounds 5] [--output FILE.json]

All jobs of ``sia-hetero-v0`` arrive at time 0, so that every program has as many jobs as possible: the whole decision,
the table that Sia uses, and HiGHS on the same program. In these rounds, most jobs may have few configurations. "All
configurations" is a program with random values, in which every job may have each of them. Times are CPU seconds, so
that other processes do not count.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from rich.console import Console
from rich.table import Table

import gpusched_env
from gpusched_env.baselines.elastic.sia.program import Program, costs
from gpusched_env.baselines.elastic.sia.scheduler import Sia
from gpusched_env.problem.instance import Instance
from gpusched_env.scenarios import get_scenario
from gpusched_env.simulator import Outcome, Simulation
from gpusched_env.support.commands import run_script

TARGET_S: Final = 0.5  # [s] of a round, 160 jobs on three types


@dataclass
class Settings:
    """Measure the time of Sia's program."""

    jobs: int = 160
    """Jobs at time 0."""
    rounds: int = 5
    """Rounds of the run, after the first, which compiles."""
    output: Path | None = None
    """JSON file for the results."""


class Watched(Sia):
    """Sia with a list of the programs that it solves."""

    def reset(self, view: Any) -> None:
        """Begin with an empty list."""
        super().reset(view)
        self.programs: list[Program] = []

    def program(self, *arguments: Any) -> Any:
        """Build a program and list it."""
        built = super().program(*arguments)
        self.programs.append(built[0])
        return built


def full_program(jobs: int, seed: int) -> Program:
    """Draw a program in which every job may have every configuration of Sia's cluster."""
    rng = np.random.default_rng(seed)
    kinds = [[1, 2, 4, 8, 12, 16, 20, 24], [1, 2, 4, 8, 16, 24], [1, 2, 4, 8, 16]]
    pairs = [(k, gpus) for k, each in enumerate(kinds) for gpus in each]
    kind, gpus = (np.tile(column, jobs).astype(np.int32) for column in np.array(pairs).T)
    first = (np.arange(jobs + 1) * len(pairs)).astype(np.int32)
    speed = rng.uniform(1.0, 4.0, (jobs, 3))[:, [k for k, _ in pairs]]
    values = speed * np.array([gpus for _, gpus in pairs]) ** rng.uniform(0.3, 1.0, (jobs, 1))
    cost = costs((values / values.min(axis=1, keepdims=True)).ravel(), -0.5) - 110
    return Program(first, cost.astype(np.int32), kind, gpus, np.array([24, 24, 16], np.int32))


def taken_s(call: Callable[[], object]) -> float:
    """CPU seconds of a call [s]."""
    begin = time.process_time()
    call()
    return time.process_time() - begin


def main(settings: Settings) -> None:
    """Measure, print a table and whether the target is met."""
    drawn = get_scenario(f"sia-hetero-v0:jobs={settings.jobs}").instance(0)
    workload = drawn.workload.unchecked_columns(arrival_s=np.zeros(settings.jobs))
    simulation = Simulation(Instance(drawn.cluster, workload, drawn.network, drawn.semantics))
    scheduler = Watched()
    view = simulation.view_for(scheduler)
    scheduler.reset(view)
    decisions_s: list[float] = []
    while len(decisions_s) <= settings.rounds and simulation.advance() is Outcome.DECIDE:
        begin = time.process_time()
        for decision in scheduler.decide(view):
            simulation.apply(decision)
        decisions_s.append(time.process_time() - begin)
    programs = scheduler.programs[1:]
    rows = {
        "whole decision": decisions_s[1:],
        "program by the table": [taken_s(each.by_table) for each in programs],
        "program by HiGHS": [taken_s(each.by_highs) for each in programs],
    }
    full = [full_program(settings.jobs, seed) for seed in range(settings.rounds)]
    rows["all configurations, by the table"] = [taken_s(each.by_table) for each in full]
    rows["all configurations, by HiGHS"] = [taken_s(each.by_highs) for each in full]
    size = f"{programs[-1].jobs} jobs, {len(programs[-1].cost)} choices"
    table = Table("part", "median [ms]", "worst [ms]", title=f"a round of Sia, {size} in the last round")
    for name, seconds in rows.items():
        table.add_row(name, f"{1e3 * statistics.median(seconds):.1f}", f"{1e3 * max(seconds):.1f}")
    console = Console()
    console.print(table)
    programs += full
    same = sum(each.total(each.by_table()) == each.total(each.by_highs()) for each in programs)
    console.print(f"programs with the same optimum by both: {same} of {len(programs)}")
    worst = max(rows["whole decision"] + rows["all configurations, by the table"])
    verdict = "met" if worst <= TARGET_S else "MISSED"
    console.print(f"worst decision or program by the table: {worst:.3f} s, target {TARGET_S:g} s, {verdict}")
    if settings.output is not None:
        document = {"version": gpusched_env.__version__, "seconds": rows}
        settings.output.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    run_script(main)
