"""Tables for the terminal, with one row per scheduler, one column per metric, and the lower bound as the last row."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from gpusched_env.errors import GpuschedError, unknown_name
from gpusched_env.evaluation.results import RunResult
from gpusched_env.metrics import COLUMN_OF, Interval, mean_interval
from gpusched_env.support.consoles import console as standard_console
from gpusched_env.support.units import Unit, three_digits, unit_for

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

DEFAULT_METRICS: Final = (
    "mean_jct_s",
    "p99_jct_s",
    "makespan_s",
    "mean_queueing_s",
    "utilisation",
    "rho_fair_share",
    "preemptions_per_job",
)
# Metrics for scenarios in which gangs contend for links: DEFAULT_METRICS and the share of communication.
LINK_METRICS: Final = (*DEFAULT_METRICS[:3], "communication_share", *DEFAULT_METRICS[3:])
# Metrics that come first if some job has a deadline
DEADLINE_METRICS: Final = ("deadlines_met", "admitted_share", "admitted_met", "mean_tardiness_s")
# Headings that are shorter than the column names, so that a table fits on a terminal of 120 characters
HEADINGS: Final = {
    "communication_share": "communication",
    "rho_fair_share": "rho <= 1",
    "preemptions_per_job": "preemptions",
    "mean_jobs_in_system": "mean in system",
    "admitted_share": "admitted",
    "admitted_met": "met of admitted",
    "mean_tardiness_s": "tardiness",
}


def usual_metrics(results: Sequence[RunResult], links: bool = False) -> tuple[str, ...]:
    """Return the metrics that a comparison shows by default, with those of contended ``links``."""
    metrics = LINK_METRICS if links else DEFAULT_METRICS
    has_deadlines = all(DEADLINE_METRICS[0] in result.metrics for result in results)
    return (*DEADLINE_METRICS, *metrics) if has_deadlines else metrics


def rank_key(group: Sequence[RunResult]) -> float:
    """Return the key by which tables sort schedulers: minus the share of deadlines met, or the mean JCT.

    Without deadlines, the key is inf for a scheduler that left jobs unfinished, because a mean over its finished jobs
    leaves out long jobs.
    """
    if all(DEADLINE_METRICS[0] in run.metrics for run in group):
        return -mean_interval([run.metrics[DEADLINE_METRICS[0]] for run in group]).mean
    if any(run.metrics["finished"] < run.metrics["jobs"] for run in group):
        return math.inf
    return mean_interval([run.metrics["mean_jct_s"] for run in group]).mean


def by_scheduler(results: Sequence[RunResult]) -> dict[str, list[RunResult]]:
    """Group results by the label of their scheduler; each group is sorted by seed.

    Raises
    ------
    GpuschedError : there are no results, results of several scenarios or tracked windows, or two results of the same
        scheduler and seed
    """
    if not results:
        raise GpuschedError("there are no results to compare")
    if len({(result.fingerprint, result.window) for result in results}) > 1:
        names = ", ".join(sorted({result.scenario for result in results}))
        raise GpuschedError(f"results of several scenarios or tracked windows ({names}): compare one at a time")
    groups: dict[str, list[RunResult]] = {}
    for result in results:
        groups.setdefault(result.label, []).append(result)
    for label, group in groups.items():
        group.sort(key=lambda result: result.seed)
        if len({result.seed for result in group}) < len(group):
            raise GpuschedError(f"scheduler {label!r} has two results for one seed; name one of them, as in ours=SPEC")
    return groups


def comparison_table(results: Sequence[RunResult], metrics: Sequence[str] = DEFAULT_METRICS) -> Table:
    """Return a table that compares schedulers on a scenario.

    Each scheduler has a row. The scheduler with the best mean JCT comes first (with deadlines: the one that meets
    most), and the last row is the lower bound. A cell has the mean over seeds. With two or more seeds, the mean is
    followed by "±" and half the width of the mean's 95 % interval (Student t).

    Parameters
    ----------
    metrics : names of the columns, from :data:`gpusched_env.metrics.COLUMNS`

    Raises
    ------
    GpuschedError : the results cannot be compared, or a metric is unknown
    """
    from rich.table import Table

    for name in metrics:
        if name not in COLUMN_OF:
            raise GpuschedError(unknown_name("metric", name, COLUMN_OF))
    groups = by_scheduler(results)
    order = sorted(groups, key=lambda label: (rank_key(groups[label]), label))
    seeds = sorted({result.seed for result in results})
    some = f"{len(seeds)} seeds, mean ± 95 % interval" if len(seeds) > 1 else f"seed {seeds[0]}"
    table = Table(title=f"{results[0].scenario}: {some}", title_justify="left", caption_justify="left")
    table.add_column("scheduler", no_wrap=True)
    cells: dict[str, list[str]] = {label: [label + ("*" if _clairvoyant(groups[label]) else "")] for label in order}
    bounds = ["lower bound"]
    for name in metrics:
        columns = {label: mean_interval([r.metrics[name] for r in groups[label]]) for label in order}
        bound = mean_interval([r.bounds[name] for r in _one_per_seed(results)]) if name in results[0].bounds else None
        unit = unit_for(i.mean for i in columns.values()) if COLUMN_OF[name].unit == "s" else None
        table.add_column(_heading(name, unit), justify="right", no_wrap=True)
        bounds.append("" if bound is None else _cell(name, bound, unit))
        for label in order:
            cells[label].append(_cell(name, columns[label], unit))
        if name == "mean_jct_s":
            table.add_column("x bound", justify="right", no_wrap=True)
            bounds.append("1")
            for label in order:
                cells[label].append(_cell("", mean_interval([r.against_bound() for r in groups[label]]), None))
    if any(r.metrics["finished"] < r.metrics["jobs"] for r in results):
        table.add_column("finished", justify="right", no_wrap=True)
        bounds.append("")
        for label in order:
            shares = [r.metrics["finished"] / r.metrics["jobs"] for r in groups[label]]
            cells[label].append(_cell("utilisation", mean_interval(shares), None))
    for label in order:
        table.add_row(*cells[label], end_section=label == order[-1])
    table.add_row(*bounds, style="dim")
    if any(_clairvoyant(group) for group in groups.values()):
        table.caption = "* reads true run times"
    return table


def comparison_tables(results: Sequence[RunResult], metrics: Sequence[str], console: Console) -> list[Table]:
    """Return :func:`comparison_table`; if it is too wide for the console, several tables with fewer metrics each."""
    from rich.measure import Measurement

    table = comparison_table(results, metrics)
    needed = Measurement.get(console, console.options.update(max_width=1_000), table).maximum
    if needed <= console.width or len(metrics) == 1:
        return [table]
    half = (len(metrics) + 1) // 2
    return [*comparison_tables(results, metrics[:half], console), *comparison_tables(results, metrics[half:], console)]


def print_comparison(
    results: Sequence[RunResult], metrics: Sequence[str] = DEFAULT_METRICS, console: Console | None = None
) -> None:
    """Print :func:`comparison_table`, in several tables if the console is too narrow; None = standard output."""
    out = console or standard_console()
    for table in comparison_tables(results, metrics, out):
        out.print(table)


def _clairvoyant(group: list[RunResult]) -> bool:
    return group[0].scheduler.clairvoyant


def _one_per_seed(results: Sequence[RunResult]) -> list[RunResult]:
    return list({result.seed: result for result in results}.values())


def _heading(name: str, unit: Unit | None) -> str:
    text = HEADINGS.get(name, name.removesuffix("_s").replace("_", " ").replace("jct", "JCT"))
    if unit is not None:
        return f"{text} \\[{unit.sign}]"
    return f"{text} \\[%]" if COLUMN_OF[name].unit == "share" else text


def _cell(name: str, interval: Interval, unit: Unit | None) -> str:
    scale = 1.0 / unit.seconds if unit is not None else 1.0
    if name in COLUMN_OF and COLUMN_OF[name].unit == "share":
        scale = 100.0
    text = three_digits(interval.mean * scale)
    half = interval.half_width * scale
    if not math.isfinite(half):
        return text
    decimals = len(text.partition(".")[2])
    return f"{text} ± {half:,.{decimals}f}"
