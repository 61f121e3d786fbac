"""Evaluation of a trained agent and every baseline on unseen seeds: table, picture and files."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from rich.console import Console

from gpusched_env.agents.learned import LearnedScheduler
from gpusched_env.baselines import list_baselines
from gpusched_env.consoles import console as file_console
from gpusched_env.errors import GpuschedError
from gpusched_env.evaluation import (
    RunResult,
    by_scheduler,
    evaluate,
    plot_runs,
    print_comparison,
    write_csv,
    write_json,
)
from gpusched_env.metrics import paired_ratio
from gpusched_env.scenarios import Scenario
from gpusched_env.simulator import Scheduler

METRICS: Final = ("mean_jct_s", "p99_jct_s", "preemptions_per_job")  # of the table; results.csv has all
PLOTTED: Final = ("learned", "srtf", "tiresias-L", "sjf", "random", "fifo-strict")
WIDTH: Final = 150  # [characters] of table.txt


def evaluate_agent(
    model: Path, scenario: Scenario, output: Path, report_seeds: int, workers: int, console: Console
) -> list[RunResult]:
    """Compare a trained agent with the baselines on the scenario's report seeds; print and save the results.

    Two rows are references: ``random`` draws among all waiting jobs; ``untrained`` draws among the feasible actions of
    the agent's own windows, and so measures the effect of the windows alone.

    Raises
    ------
    GpuschedError : ``report_seeds`` is below 1, or the scenario has fewer
    """
    first, end = scenario.seeds.report
    if not 1 <= report_seeds <= end - first:
        raise GpuschedError(f"report_seeds is {report_seeds}: scenario {scenario.name} has {end - first} of them")
    agent = LearnedScheduler(str(model))
    links, types = scenario.network.topology is not None, len(scenario.cluster.gpu_types) > 1
    baselines = list_baselines(links, types, variants=False, sharing=scenario.sharing is not None)
    players: list[str | Scheduler] = [agent, LearnedScheduler(str(model), untrained=True), *baselines]
    results = evaluate(scenario, players, range(first, first + report_seeds), workers=workers, keep_logs=True)
    write_json(results, output / "results.json")
    write_csv(results, output / "results.csv")

    instance = scenario.instance(first)
    logs = {result.scheduler.name: result.log for result in results if result.seed == first and result.log is not None}
    plot_runs(
        instance,
        {name: logs[name] for name in PLOTTED if name in logs},
        output / "comparison.png",
        title=f"{scenario.name}, report seed {first}",
        window=scenario.tracked_window,
    )
    print_comparison(results, METRICS, console)
    verdicts = compare_to(results, "learned")
    for line in verdicts:
        console.print(line)
    with (output / "table.txt").open("w", encoding="utf-8") as stream:
        file = file_console(stream, WIDTH)
        print_comparison(results, METRICS, file)
        file.print("\n".join(verdicts))
    return results


def compare_to(results: list[RunResult], name: str) -> list[str]:
    """Return lines that compare the mean JCT of ``name`` with each other scheduler's, paired by seed."""
    groups = by_scheduler(results)
    own = [result.metrics["mean_jct_s"] for result in groups.pop(name)]
    lines = [f"mean JCT of {name} / that of the others (geometric mean over seeds, 95 % interval):"]
    for other, runs in groups.items():
        ratio = paired_ratio(own, [result.metrics["mean_jct_s"] for result in runs])
        lines.append(f"  {other:<14} {ratio.mean:.3f}  [{ratio.low:.3f}, {ratio.high:.3f}]")
    return lines
