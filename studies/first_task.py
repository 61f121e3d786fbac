"""Is scheduling worth learning on a scenario? Its rules, random play and strict FIFO beside Dally, and their queues.

``python -m studies.first_task`` plays report seeds of ``steady-64-v0`` and prints for each scheduler its mean JCT, the
paired ratio to that of ``dally``, and whether it keeps up: the mean number of jobs in the system in the second half of
the tracked window's time, relative to that in the first half. A queue that begins empty and grows for ever has 1.5 on
``steady-64-v0``; one that keeps up has 1, or a little more while it still fills. It counts as growing if the interval
lies above 1.1. Further training seeds make the interval smaller. Last come the conditions of a first task.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Final

import gymnasium as gym
import numpy as np
import typer
from rich.table import Table

from gpusched_env.agents.evaluation import evaluate_policy
from gpusched_env.agents.learned import LearnedScheduler
from gpusched_env.baselines import make_scheduler
from gpusched_env.evaluation import RunResult, evaluate
from gpusched_env.metrics import Interval, paired_ratio
from gpusched_env.metrics.series import jobs_in_system
from gpusched_env.scenarios import Scenario, get_scenario
from gpusched_env.support.commands import run_script
from gpusched_env.support.consoles import console

REFERENCE: Final = "dally"
UNIFORM: Final = "uniform play"
ENVIRONMENT: Final = "gpusched_env:gpusched/Steady-v0"
RULES: Final = (  # published rules with their defaults, unless a parameter was tuned
    "dally", "dally-fully-consolidated", "dally-no-wait", "dally-no-preempt", "tiresias-g", "gandiva-lite",
    "las-2d:placement=consolidate,round_s=1200", "themis", "tiresias", "delay-zaharia", "fifo-skip", "fifo-easy",
    "yarn-cs", "ssf", "sjf", "srtf", "srsf", "ada-srsf", "themis-lite", "random", "fifo",
)  # fmt: skip
CPU_S: Final = 1.0  # most of an episode
GROWS: Final = 1.1  # least low end of the growth of a queue that does not keep up


@dataclass(frozen=True)
class Row:
    """What was measured of a scheduler."""

    name: str
    clairvoyant: bool
    mean_h: float
    ratio: Interval
    growth: Interval
    cpu_s: float

    @property
    def grows(self) -> bool:
        """Whether the number of jobs in the system grows over the tracked window."""
        return self.growth.low > GROWS


def uniform_play(scenario: Scenario, seeds: list[int]) -> list[RunResult]:
    """Play uniformly drawn feasible actions of the environment, and keep the logs."""
    windows = asdict(gym.make(ENVIRONMENT, scenario=scenario).unwrapped.windows)  # type: ignore[attr-defined]
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "config.json"
        config.write_text(json.dumps({"training": windows}), encoding="utf-8")
        agent = LearnedScheduler(str(config.with_name("none.npz")), untrained=True)
        return evaluate_policy(agent, scenario, seeds, keep_logs=True)


def growth(scenario: Scenario, result: RunResult) -> float:
    """Return the mean number of jobs in the second half of the tracked window's time, relative to the first half."""
    assert scenario.tracked_window is not None
    assert result.log is not None
    first, end = scenario.tracked_window
    arrival_s = scenario.instance(result.seed).workload.jobs["arrival_s"]
    early, late = jobs_in_system(result.log).binned(np.linspace(arrival_s[first], arrival_s[end - 1], 3))
    return float(late / early)


def measured(scenario: Scenario, names: Iterable[str], seeds: list[int], more: list[int]) -> list[Row]:
    """Play every scheduler on all seeds; ratios are over ``seeds``, growth over both."""
    rows, reference = [], np.empty(0)
    for name in names:
        begin_s = time.process_time()
        if name == UNIFORM:
            results = uniform_play(scenario, seeds + more)
        else:
            results = evaluate(scenario, [name], seeds + more, workers=1, keep_logs=True)
        cpu_s = (time.process_time() - begin_s) / len(results)
        jct_s = np.array([result.metrics["mean_jct_s"] for result in results[: len(seeds)]])
        reference = jct_s if name == REFERENCE else reference
        grown = [growth(scenario, result) for result in results]
        clairvoyant = name != UNIFORM and make_scheduler(name).clairvoyant
        ratios = paired_ratio(jct_s, reference), paired_ratio(grown, np.ones(len(grown)))
        rows.append(Row(name, clairvoyant, float(jct_s.mean()) / 3600, *ratios, cpu_s))
    return rows


def conditions(rows: list[Row]) -> list[tuple[str, bool]]:
    """Return each condition in words, with what was measured, and whether it holds."""
    of = {row.name: row for row in rows}
    rules = sorted((row for row in rows if row.name not in ("random", UNIFORM)), key=lambda row: row.ratio.mean)
    blind = [row for row in rules if not row.clairvoyant]
    best, fifth = blind[0], blind[4]
    random, fifo = of[UNIFORM].ratio.mean / best.ratio.mean, of["fifo"].ratio
    slowest = max(rows, key=lambda row: row.cpu_s)
    grow = ", ".join(row.name for row in rows if row.grows) or "none"
    return [
        (f"uniform play / {best.name}, the best rule without run times: {random:.2f}, at least 1.5", random >= 1.5),
        (f"strict FIFO / dally: {fifo.mean:.2f} [{fifo.low:.2f}, {fifo.high:.2f}], at least 3, low end above 2.5",
         fifo.mean >= 3 and fifo.low > 2.5),
        (f"first and fifth rule without run times, {best.name} and {fifth.name}: intervals apart",
         fifth.ratio.low > best.ratio.high),
        (f"schedulers whose queue grows: {grow}", grow == "none"),
        (f"CPU time of an episode: at most {slowest.cpu_s:.2f} s ({slowest.name})", slowest.cpu_s < CPU_S),
    ]  # fmt: skip


def interval(of: Interval) -> str:
    """Return an estimate as a cell of a table."""
    return f"{of.mean:.2f} [{of.low:.2f}, {of.high:.2f}]"


def main(
    scenario: Annotated[str, typer.Option(help="Scenario with a tracked window.")] = "steady-64-v0",
    seeds: Annotated[int, typer.Option(help="Report seeds, over which ratios are.")] = 40,
    more: Annotated[int, typer.Option(help="Training seeds that only growth is measured on.")] = 60,
    schedulers: Annotated[str, typer.Option(help="Further schedulers, separated by semicolons.")] = "",
) -> None:
    """Print the table and the conditions of a first task; about four minutes of CPU time."""
    problem = get_scenario(scenario)
    first, train = problem.seeds.report[0], problem.seeds.train[0]
    names = [*RULES, UNIFORM, *filter(None, schedulers.split(";"))]
    rows = measured(problem, names, list(range(first, first + seeds)), list(range(train, train + more)))
    table = Table(title=f"{scenario}: {seeds} report seeds, and {more} training seeds for growth")
    for column in ("scheduler", "mean JCT [h]", "/ dally", "late / early jobs", "CPU [s]"):
        table.add_column(column)
    for row in sorted(rows, key=lambda row: row.ratio.mean):
        cells = (f"{row.mean_h:.2f}", interval(row.ratio), interval(row.growth), f"{row.cpu_s:.2f}")
        table.add_row(row.name + "*" * row.clairvoyant, *cells)
    out = console(width=120)
    out.print(table)
    for words, holds in conditions(rows):
        out.print(f"{'holds' if holds else 'FAILS'}  {words}", highlight=False)


if __name__ == "__main__":
    run_script(main)
