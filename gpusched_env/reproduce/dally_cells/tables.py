"""Tables and findings: the learned tuner against every rival, over all test cells and in each of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from gpusched_env.agents.learned_timers import shipped
from gpusched_env.agents.timer_network import TimerNetwork
from gpusched_env.metrics import Interval
from gpusched_env.reproduce.card import Finding
from gpusched_env.reproduce.dally_cells.contenders import FULL, HAND, LEARNED, NO_WAIT, RIVALS, STATIC
from gpusched_env.reproduce.dally_cells.ratios import (
    JCT,
    METRICS,
    P99,
    best_in_cell,
    best_static,
    in_cell,
    logs,
    of_best,
    over_cells,
)
from gpusched_env.reproduce.report import new_table
from gpusched_env.reproduce.results import Results

if TYPE_CHECKING:
    from rich.table import Table

GAIN: Final = 0.05  # by which the tuner must be better in geometric mean
WORSE: Final = 0.03  # by which it may be worse than the best rival of a cell


def all_tables(results: Results) -> Sequence[Table]:
    """Return the ratios over all cells, those in each cell, and the cost of the search."""
    return (_over_cells(results), *(_by_cell(results, metric) for metric in (JCT, P99)), _spent())


def all_findings(results: Results) -> list[Finding]:
    """Check the two criteria for the mean and for the 99th percentile of JCT."""
    return [finding for metric in METRICS for finding in _findings(results, metric)]


def _findings(results: Results, metric: str) -> Iterator[Finding]:
    what = METRICS[metric]
    for rival in (HAND, NO_WAIT, FULL, best_static(results, metric, STATIC)):
        own = over_cells(results, LEARNED, rival, metric)
        name = rival if rival in (HAND, NO_WAIT, FULL) else f"the best single static setting ({rival})"
        claim = f"{what}: at least {GAIN:.0%} better over all cells than the rival"
        yield Finding(claim, name, own.mean <= 1.0 - GAIN, _written(own))
    claim = f"{what}: at most {WORSE:.0%} worse than the best rival of the cell"
    for cell, rival in best_in_cell(results, metric).items():
        own = in_cell(results, cell, LEARNED, rival, metric)
        yield Finding(claim, f"{cell} ({rival})", own.mean <= 1.0 + WORSE, _written(own))


def _over_cells(results: Results) -> Table:
    """Geometric means of the ratio learned / rival, and how far each contender is from the best rival of each cell."""
    title = (
        "Learned / rival: geometric mean over cells and seeds [95 % bootstrap interval over seeds]; and each contender "
        f"against the best rival of each cell: cells within {WORSE:.0%}, worst cell"
    )
    wide = [f"{what}: {part}" for part in ("cells", "worst") for what in ("mean", "p99")]
    table = new_table(title, "contender", *METRICS.values(), *wide)
    for name in (LEARNED, *RIVALS):
        ratios = [_written(over_cells(results, LEARNED, name, metric)) if name != LEARNED else "" for metric in METRICS]
        found = [of_best(results, name, metric) for metric in METRICS]
        within = [f"{int((own <= 1.0 + WORSE).sum())} of {len(own)}" for own in found]
        table.add_row(name, *ratios, *within, *(f"{own.max():.3f}" for own in found))
    means = [f"{_geometric(of_best(results, LEARNED, metric).tolist()):.3f}" for metric in METRICS]
    table.add_row("best rival of each cell (oracle)", *means, "", "", "", "")
    return table


def _by_cell(results: Results, metric: str) -> Table:
    title = f"{METRICS[metric]}: learned / rival in each cell [95 % bootstrap interval]"
    table = new_table(
        title, "cell", "learned [h]", *(f"/ {name}" for name in (HAND, NO_WAIT, FULL)), "/ best rival", ""
    )
    hours = logs(results, LEARNED, metric).mean(axis=1)
    for number, (cell, best) in enumerate(best_in_cell(results, metric).items()):
        plain = [f"{in_cell(results, cell, LEARNED, rival, metric).mean:.3f}" for rival in (HAND, NO_WAIT, FULL)]
        own = in_cell(results, cell, LEARNED, best, metric)
        table.add_row(cell, f"{_exp_hours(hours[number]):.2f}", *plain, _written(own), best)
    return table


def _spent() -> Table:
    table = new_table("The search of the learned tuner", "", "")
    about = TimerNetwork.load(shipped("cells")).about
    for name in (
        "learner",
        "simulated_jobs",
        "cpu_hours",
        "training_seeds",
        "validation_seeds",
        "chosen_at",
    ):
        table.add_row(name.replace("_", " "), f"{about[name]}")
    for name in ("training_cells", "validation_cells"):
        table.add_row(name.replace("_", " "), f"{len(about[name])}")
    return table


def _geometric(ratios: Sequence[float]) -> float:
    from gpusched_env.portable.elementary import exp, log

    return exp(sum(log(ratio) for ratio in ratios) / len(ratios))


def _exp_hours(value: float) -> float:
    from gpusched_env.portable.elementary import exp

    return exp(value) / 3_600.0


def _written(interval: Interval) -> str:
    return f"{interval.mean:.3f} \\[{interval.low:.3f}, {interval.high:.3f}]"
