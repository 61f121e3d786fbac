"""Tables of a page, with units in headings and sort keys in cells."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from gpusched_env.evaluation.results import RunResult
from gpusched_env.evaluation.tables import HEADINGS, by_scheduler, rank_key, usual_metrics
from gpusched_env.metrics import ALL_COLUMNS, COLUMN_OF, Interval, mean_interval
from gpusched_env.support.units import Unit, three_digits, unit_for

BOUND: Final = "lower bound"


@dataclass(frozen=True)
class Cell:
    """A cell of a table."""

    text: str
    value: float | None = None  # sort key
    href: str = ""  # address of a link
    detail: str = ""  # small print after the text
    mark: str = ""  # CSS class
    badges: Sequence[str] = ()  # texts that the program itself has established, unlike ``text``
    bar: float | None = None  # filled share of a bar below the text; None = no bar


@dataclass(frozen=True)
class Heading:
    """A column of a table."""

    heading: str
    text: bool = False  # whether the cells are texts, not numbers
    title: str = ""  # tooltip
    better: str = "min"  # "min" or "max"; the first click on the heading sorts this value to the top


@dataclass(frozen=True)
class Row:
    """A row of a table."""

    cells: Sequence[Cell]
    bound: bool = False  # whether the row has lower bounds; such a row stays last when the table is sorted


@dataclass(frozen=True)
class Table:
    """A table of a page."""

    caption: str
    columns: Sequence[Heading]
    rows: Sequence[Row] = field(default_factory=list)
    sortable: bool = True
    sorted_by: int = -1  # index of the column by which the rows are sorted at first; -1 = none
    named_by: int = 0  # index of the column with the names of the rows


def scale_of(name: str, intervals: Sequence[Interval]) -> Unit:
    """Choose the unit of a metric's column: a unit of time, per cent, or no unit."""
    if COLUMN_OF[name].unit == "s":
        return unit_for(interval.mean for interval in intervals)
    return Unit("%", 0.01) if COLUMN_OF[name].unit == "share" else Unit("", 1.0)


def heading(name: str, unit: Unit) -> Heading:
    """Return the heading of a metric's column; its tooltip is the formula."""
    text = HEADINGS.get(name, name.removesuffix("_s").replace("_", " ").replace("jct", "JCT"))
    column = COLUMN_OF[name]
    return Heading(f"{text} [{unit.sign}]" if unit.sign else text, title=column.formula, better=column.better or "min")


def number(interval: Interval, unit: Unit) -> Cell:
    """Return a cell with a mean, and with half the width of its interval if there is one."""
    if not math.isfinite(interval.mean):
        return Cell("-")
    text = three_digits(interval.mean / unit.seconds)
    decimals = len(text.partition(".")[2])
    half = interval.half_width / unit.seconds
    detail = f"± {half:,.{decimals}f}" if math.isfinite(half) else ""
    return Cell(text, interval.mean, detail=detail)


def summary_table(results: Sequence[RunResult], links: bool = False) -> Table:
    """Return a table that compares schedulers by the usual metrics, best mean JCT first; the last row is the bound.

    A cell has the mean over seeds and half the width of its 95 % interval (Student t).

    ``links``: include the share of communication, for a network with a topology.
    """
    groups = by_scheduler(results)
    order = sorted(groups, key=lambda label: (rank_key(groups[label]), label))
    metrics = usual_metrics(results, links)
    columns = [Heading("scheduler", text=True)]
    rows = {label: [_who(label, groups[label])] for label in order}
    bounds = [Cell(BOUND)]
    one_per_seed = list({result.seed: result for result in results}.values())
    for name in metrics:
        means = {label: mean_interval([run.metrics[name] for run in groups[label]]) for label in order}
        unit = scale_of(name, list(means.values()))
        columns.append(heading(name, unit))
        for label in order:
            rows[label].append(number(means[label], unit))
        known = [run.bounds[name] for run in one_per_seed if name in run.bounds]
        bounds.append(number(mean_interval(known), unit) if known else Cell(""))
    seeds = sorted({result.seed for result in results})
    caption = f"{len(seeds)} seeds, mean ± half of the 95 % interval" if len(seeds) > 1 else f"seed {seeds[0]}"
    return Table(caption, columns, [*(Row(rows[label]) for label in order), Row(bounds, bound=True)], sorted_by=1)


def metrics_table(results: Sequence[RunResult]) -> Table:
    """Return a table with one row for each metric and its meaning, and one column for each scheduler."""
    groups = by_scheduler(results)
    columns = [Heading("metric", text=True), *(Heading(label) for label in groups), Heading("meaning", text=True)]
    rows = []
    for column in (column for column in ALL_COLUMNS if column.name in results[0].metrics):
        means = [mean_interval([run.metrics[column.name] for run in group]) for group in groups.values()]
        unit = scale_of(column.name, means)
        rows.append(
            Row([Cell(heading(column.name, unit).heading), *(number(m, unit) for m in means), Cell(column.formula)])
        )
    return Table("every metric", columns, rows, sortable=False)


def _who(label: str, group: list[RunResult]) -> Cell:
    return Cell(label, detail="reads true run times" if group[0].scheduler.clairvoyant else "")
