"""Tables of a page: headings with units, and cells with sort keys."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from gpusched_env.evaluation.results import RunResult
from gpusched_env.evaluation.tables import DEFAULT_METRICS, HEADINGS, LINK_METRICS, by_scheduler
from gpusched_env.metrics import COLUMN_OF, COLUMNS, Interval, mean_interval
from gpusched_env.units import Unit, three_digits, unit_for

BOUND: Final = "lower bound"


@dataclass(frozen=True)
class Cell:
    """A cell: its text, sort key (``value``), link (``href``), and small print after the text (``detail``)."""

    text: str
    value: float | None = None
    href: str = ""
    detail: str = ""
    mark: str = ""  # CSS class
    badges: Sequence[str] = ()  # facts that the page itself has established, unlike the text
    bar: float | None = None  # filled share of a bar below the text


@dataclass(frozen=True)
class Heading:
    """A column; ``better`` = "min" or "max": the value that the first click sorts to the top."""

    heading: str
    text: bool = False
    title: str = ""
    better: str = "min"


@dataclass(frozen=True)
class Row:
    """A row; rows of bounds stay last."""

    cells: Sequence[Cell]
    bound: bool = False


@dataclass(frozen=True)
class Table:
    """A table; ``sorted_by`` = initial sort column, -1 = none; ``named_by`` = the column with the rows' names."""

    caption: str
    columns: Sequence[Heading]
    rows: Sequence[Row] = field(default_factory=list)
    sortable: bool = True
    sorted_by: int = -1
    named_by: int = 0


def scale_of(name: str, intervals: Sequence[Interval]) -> Unit:
    """Choose the unit of a metric's column: a unit of time, per cent, or none."""
    if COLUMN_OF[name].unit == "s":
        return unit_for(interval.mean for interval in intervals)
    return Unit("%", 0.01) if COLUMN_OF[name].unit == "share" else Unit("", 1.0)


def heading(name: str, unit: Unit) -> Heading:
    """Return the heading of a metric's column; its tooltip is the formula."""
    text = HEADINGS.get(name, name.removesuffix("_s").replace("_", " ").replace("jct", "JCT"))
    column = COLUMN_OF[name]
    return Heading(f"{text} [{unit.sign}]" if unit.sign else text, title=column.formula, better=column.better or "min")


def number(interval: Interval, unit: Unit) -> Cell:
    """Format a mean, and half of its interval if there is one."""
    if not math.isfinite(interval.mean):
        return Cell("-")
    text = three_digits(interval.mean / unit.seconds)
    decimals = len(text.partition(".")[2])
    half = interval.half_width / unit.seconds
    detail = f"± {half:,.{decimals}f}" if math.isfinite(half) else ""
    return Cell(text, interval.mean, detail=detail)


def summary_table(results: Sequence[RunResult], links: bool = False) -> Table:
    """Compare schedulers by the usual metrics, best mean JCT first; the last row is the lower bound.

    Parameters
    ----------
    results : of one scenario; a cell is the mean over seeds, and half of its 95 % interval (Student t)
    links : the network is a topology: include the share of communication

    Raises
    ------
    GpuschedError : results that cannot be compared
    """
    groups = by_scheduler(results)
    order = sorted(groups, key=lambda label: (_rank(groups[label]), label))
    metrics = LINK_METRICS if links else DEFAULT_METRICS
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
    """Every metric in a row of its own, with its meaning."""
    groups = by_scheduler(results)
    columns = [Heading("metric", text=True), *(Heading(label) for label in groups), Heading("meaning", text=True)]
    rows = []
    for column in COLUMNS:
        means = [mean_interval([run.metrics[column.name] for run in group]) for group in groups.values()]
        unit = scale_of(column.name, means)
        rows.append(
            Row([Cell(heading(column.name, unit).heading), *(number(m, unit) for m in means), Cell(column.formula)])
        )
    return Table("every metric", columns, rows, sortable=False)


def _who(label: str, group: list[RunResult]) -> Cell:
    return Cell(label, detail="reads true run times" if group[0].scheduler.clairvoyant else "")


def _rank(group: list[RunResult]) -> float:
    """Mean JCT; inf if a run left jobs unfinished, because its mean leaves out the long jobs."""
    if any(run.metrics["finished"] < run.metrics["jobs"] for run in group):
        return math.inf
    return mean_interval([run.metrics["mean_jct_s"] for run in group]).mean
