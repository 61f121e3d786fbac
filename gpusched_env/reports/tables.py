"""Tables of a page, with units in headings and sort keys in cells."""

from __future__ import annotations

from collections.abc import Sequence

from gpusched_env.evaluation.results import RunResult
from gpusched_env.evaluation.tables import by_scheduler, comparison_table, heading, number, unit_of, usual_metrics
from gpusched_env.metrics import ALL_COLUMNS, mean_interval
from gpusched_env.support.tables import Cell, Heading, Row, Table


def summary_table(results: Sequence[RunResult], links: bool = False) -> Table:
    """Return the comparison of schedulers by the usual metrics; ``links``: with the share of communication."""
    return comparison_table(results, usual_metrics(results, links))


def metrics_table(results: Sequence[RunResult]) -> Table:
    """Return a table with one row for each metric and its meaning, and one column for each scheduler."""
    groups = by_scheduler(results)
    columns = [Heading("metric", text=True), *(Heading(label) for label in groups), Heading("meaning", text=True)]
    rows = []
    for column in (column for column in ALL_COLUMNS if column.name in results[0].metrics):
        means = [mean_interval([run.metrics[column.name] for run in group]) for group in groups.values()]
        unit = unit_of(column.name, means)
        rows.append(
            Row([Cell(heading(column.name, unit).heading), *(number(m, unit) for m in means), Cell(column.formula)])
        )
    return Table("every metric", columns, rows, sortable=False)
