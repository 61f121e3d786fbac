"""What a decision costs: CPU time of agent and rivals for each decision point, on one test window of each log.

``python -m studies.unseen_logs.timing LOGS``. The time is that of the whole run, so it includes what the
simulator does between two decision points, which is the same kind of work for all.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.table import Table

from gpusched_env.baselines import make_scheduler
from gpusched_env.problem.instance import Instance
from gpusched_env.simulator import Outcome, Simulation, Until
from gpusched_env.support.commands import run_script
from gpusched_env.support.consoles import console
from studies.unseen_logs.rivals import tuned_rivals
from studies.unseen_logs.windows import LOGS, TEST, Window, list_windows

AGENT: Final = "learned"


class Counted(Simulation):
    """A simulation that counts its decision points."""

    points = 0

    def advance(self) -> Outcome:
        """Advance, and count."""
        outcome = super().advance()
        self.points += outcome is Outcome.DECIDE
        return outcome


def decision_points(spec: str, instance: Instance) -> int:
    """Return the number of decision points of a run."""
    counted = Counted(instance)
    counted.run(make_scheduler(spec), until=Until(0, len(instance.workload)))  # without the compiled loop
    return counted.points


def cpu_s(spec: str, instance: Instance) -> float:
    """Return the CPU time of a run [s]."""
    begin = time.process_time()
    Simulation(instance).run(make_scheduler(spec))
    return time.process_time() - begin


def one_of_each_log(nodes: int) -> dict[str, Window]:
    """Return the last test window of each log with the largest cluster of at most ``nodes`` nodes, by log."""
    found: dict[str, Window] = {}
    for window in list_windows(TEST):
        log = LOGS[window.part]
        if window.nodes <= nodes and (log not in found or window.nodes >= found[log].nodes):
            found[log] = window
    return found


@dataclass
class Settings:
    """Measure the time of a decision of the agent and of the tuned rivals."""

    logs: Annotated[Path, typer.Argument()]
    """Folder of the logs."""
    nodes: int = 32
    """Nodes of the largest cluster."""


def main(options: Settings) -> None:
    """Measure and print."""
    windows = one_of_each_log(options.nodes)
    instances = {log: window.instance(options.logs) for log, window in windows.items()}
    first = next(iter(instances.values()))
    table = Table("us", *(f"{log}, {8 * window.nodes} GPUs" for log, window in windows.items()), show_edge=False)
    for spec in (AGENT, *tuned_rivals().values()):
        cpu_s(spec, first)  # compiles
        cells = [f"{1e6 * cpu_s(spec, one) / decision_points(spec, one):.1f}" for one in instances.values()]
        table.add_row(spec, *cells)
    console().print(table)


if __name__ == "__main__":
    run_script(main)
