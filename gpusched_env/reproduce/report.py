"""What a reproduction prints: medians with their spread, means with their intervals, and which claims hold."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from gpusched_env.metrics import Interval, mean_interval
from gpusched_env.reproduce.card import Finding
from gpusched_env.reproduce.results import Results
from gpusched_env.units import three_digits

if TYPE_CHECKING:
    from rich.table import Table

YES, NO = "yes", "NO"
FEWEST: Final = 3  # values; the t interval of two is wide beyond use


def new_table(title: str, *columns: str) -> Table:
    """Make a table whose first column names and whose others hold numbers."""
    from rich.table import Table

    table = Table(title=title, title_justify="left", title_style="bold")
    for number, column in enumerate(columns):
        table.add_column(column, justify="left" if number == 0 else "right", no_wrap=number == 0)
    return table


def median_and_spread(results: Results, metric: str, **labels: object) -> str:
    """Write the median over seeds, and the quartiles in brackets; empty if there is no such run."""
    median = results.median(metric, **labels)
    if math.isnan(median):
        return ""
    low, high = results.quartiles(metric, **labels)
    return f"{median:,.0f} \\[{low:,.0f}, {high:,.0f}]"


def mean_and_half_width(results: Results, metric: str, unit: float = 1.0, **labels: object) -> str:
    """Write the mean over seeds in a unit, and half of its 95 % interval from three on; empty if there is no run."""
    values = results.values(metric, **labels) / unit
    if not len(values):
        return ""
    interval = mean_interval(values)
    text = three_digits(interval.mean)
    if interval.count < FEWEST:
        return text
    return f"{text} ± {interval.half_width:,.{len(text.partition('.')[2])}f}"


def as_change(interval: Interval) -> str:
    """Write a ratio as a change in per cent, and from three values on its interval in brackets."""
    mean, low, high = (f"{100 * (value - 1):+.0f}" for value in (interval.mean, interval.low, interval.high))
    return f"{mean} %" if interval.count < FEWEST else f"{mean} % \\[{low}, {high}]"


def findings_table(findings: Sequence[Finding]) -> Table:
    """One row a claim, one column a setting."""
    settings = list(dict.fromkeys(item.setting for item in findings))
    from rich.table import Table

    table = Table(title="Which trends hold", title_justify="left", title_style="bold", show_lines=True)
    for column in ("claim", *settings):
        table.add_column(column)
    for claim in dict.fromkeys(item.claim for item in findings):
        cells = {item.setting: item for item in findings if item.claim == claim}
        table.add_row(claim, *(_cell(cells.get(setting)) for setting in settings))
    return table


def _cell(finding: Finding | None) -> str:
    if finding is None:
        return ""
    style = "green" if finding.holds else "red"
    return f"[{style}]{YES if finding.holds else NO}[/{style}]: {finding.numbers}"
