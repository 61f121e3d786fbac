"""Tables of the comparison, and the cost of choosing each contender's timers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gpusched_env.agents.learned_timers import shipped
from gpusched_env.agents.timer_network import TimerNetwork
from gpusched_env.reproduce.dally_tuner.contenders import CEILINGS, CONTENDERS, HAND, PROBLEMS, statics
from gpusched_env.reproduce.dally_tuner.ratios import JCT, P99, problems, ratio, values, written
from gpusched_env.reproduce.report import new_table
from gpusched_env.reproduce.results import Results

if TYPE_CHECKING:
    from rich.table import Table


def all_tables(results: Results) -> Sequence[Table]:
    """Return the ratios to the hand tuner, the times in hours, and the cost of choosing timers."""
    return (
        _ratios(results, "Mean JCT / that of the hand tuner: mean over seeds [95 % bootstrap interval]", JCT),
        _ratios(results, "99th percentile of JCT / that of the hand tuner", P99),
        _hours(results),
        _spent(),
    )


def _ratios(results: Results, title: str, metric: str) -> Table:
    shown = problems(results, PROBLEMS)
    table = new_table(title, "", *shown)
    for name in (*CONTENDERS, *CEILINGS):
        table.add_row(name, *(written(ratio(results, label, name, HAND, metric)) for label in shown))
    return table


def _hours(results: Results) -> Table:
    shown = problems(results, PROBLEMS)
    table = new_table("Mean JCT in hours, mean over seeds; the lower bound holds for every scheduler", "", *shown)
    for name in (*CONTENDERS, *CEILINGS):
        table.add_row(name, *(f"{values(results, label, name).mean() / 3600:.2f}" for label in shown))
    bounds = []
    for label in shown:
        runs = results.where(problem=label, contender=HAND).runs
        bounds.append(f"{sum(run.bounds[JCT] for run in runs) / len(runs) / 3600:.2f}")
    table.add_row("lower bound", *bounds)
    return table


def _spent() -> Table:
    """Number of simulated jobs used to choose timers, on training and validation seeds only."""
    table = new_table("Simulated jobs spent on choosing", "", "jobs", "seeds")
    found = statics()
    seeds = f"{found['seeds'][0]} to {found['seeds'][-1]}"
    for label, own in found["problems"].items():
        for key, what in (("pair", "best static pair"), ("by_class", "best static per class")):
            jobs, trials = own[key]["simulated_jobs"], own[key]["trials"]
            table.add_row(f"{what}, {label} ({trials} trials)", f"{jobs:,}", seeds)
    about = TimerNetwork.load(shipped()).about
    training, validation = about["training_seeds"], about["validation_seeds"]
    table.add_row(
        f"learned, all problems ({about['learner']})",
        f"{about['simulated_jobs']:,}",
        f"{training[0]} to {training[-1]}, {validation[0]} to {validation[-1]}",
    )
    return table
