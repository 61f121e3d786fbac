"""The printed output of a reproduction: medians with quartiles, means with intervals, and which claims hold."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from gpusched_env.metrics import Interval, mean_interval
from gpusched_env.reproduce.card import Finding
from gpusched_env.reproduce.results import Results
from gpusched_env.support.units import three_digits

if TYPE_CHECKING:
    from rich.table import Column, Table

YES, NO = "yes", "NO"
WIDTH: Final = 120  # [characters] of the output, unless the terminal's width is known
SUMMARY_LINES: Final = 9  # most lines below the title
BORDER: Final = 3  # [characters] per column: a line, and a blank on each side
FEWEST: Final = 3  # minimum number of values for an interval, as the t interval of two values is too wide to be of use


def new_table(title: str, *columns: str) -> Table:
    """Make a table with names in the first column and numbers in the others."""
    from rich.table import Table

    table = Table(title=title, title_justify="left", title_style="bold")
    for number, column in enumerate(columns):
        table.add_column(column, justify="left" if number == 0 else "right", no_wrap=number == 0)
    return table


def median_and_spread(results: Results, metric: str, **labels: object) -> str:
    """Format the median over seeds, with the quartiles in brackets; empty if there is no such run."""
    median = results.median(metric, **labels)
    if math.isnan(median):
        return ""
    low, high = results.quartiles(metric, **labels)
    return f"{median:,.0f} \\[{low:,.0f}, {high:,.0f}]"


def mean_and_half_width(results: Results, metric: str, unit: float = 1.0, **labels: object) -> str:
    """Format the mean over seeds in a unit, with half its 95 % interval from three seeds on; empty without runs."""
    values = results.values(metric, **labels) / unit
    if not len(values):
        return ""
    interval = mean_interval(values)
    text = three_digits(interval.mean)
    if interval.count < FEWEST:
        return text
    return f"{text} ± {interval.half_width:,.{len(text.partition('.')[2])}f}"


def as_change(interval: Interval) -> str:
    """Format a ratio as a change in per cent, with the interval in brackets if there are at least three values."""
    mean, low, high = (f"{100 * (value - 1):+.0f}" for value in (interval.mean, interval.low, interval.high))
    return f"{mean} %" if interval.count < FEWEST else f"{mean} % \\[{low}, {high}]"


def summary(findings: Sequence[Finding], width: int = WIDTH) -> list[str]:
    """Return one line per claim, which says in how many settings the claim holds.

    If there are more than SUMMARY_LINES claims, claims with the same words before the colon share a line.
    """
    claims: dict[str, list[bool]] = {}
    for finding in findings:
        claims.setdefault(finding.claim, []).append(finding.holds)
    if len(claims) > SUMMARY_LINES:
        starts = [claim.partition(": ")[0] for claim in claims]
        groups: dict[str, list[bool]] = {}
        for start, (claim, holds) in zip(starts, claims.items(), strict=True):
            groups.setdefault(start if starts.count(start) > 1 else claim, []).extend(holds)
        claims = groups
    lines = [f"holds in {sum(holds):>2} of {len(holds):>2}: {claim}" for claim, holds in claims.items()]
    lines = [line if len(line) <= width else f"{line[: width - 3].rstrip()}..." for line in lines]
    more = len(lines) - SUMMARY_LINES + 1
    return lines if more <= 1 else [*lines[: SUMMARY_LINES - 1], f"and {more} more claims, in the last table"]


def fitted(table: Table, width: int) -> list[Table]:
    """Split a table that is too wide into narrower tables, each with the first column; only headings wrap.

    Parameters
    ----------
    width : [characters]
    """
    from rich.table import Table

    first, *others = table.columns
    if _wide(first) + sum(map(_wide, others)) + 1 <= width:
        return [table]
    left = width - 1 - _narrow(first)
    split = [others]
    for parts in range(1, len(others) + 1):
        size = -(-len(others) // parts)
        split = [others[at : at + size] for at in range(0, len(others), size)]
        if all(sum(map(_narrow, each)) <= left for each in split):
            break
    found = []
    for number, columns in enumerate(split):
        title = str(table.title) if number == 0 else f"{str(table.title).partition(chr(10))[0]} (more columns)"
        part = Table(title=title, title_justify="left", title_style="bold")
        for column in (first, *columns):
            part.add_column(column.header, justify=column.justify, width=min(_narrow(column), left) - BORDER)
        cells = (list(column.cells) for column in (first, *columns))
        for row, values in zip(table.rows, zip(*cells, strict=True), strict=True):
            part.add_row(*values, end_section=row.end_section)
        found.append(part)
    return found


def _wide(column: Column) -> int:
    """Width of a column with its border, if nothing wraps."""
    return max(_length(str(column.header)), *map(_length, _texts(column))) + BORDER


def _narrow(column: Column) -> int:
    """Width of a column with its border, if its heading wraps between words."""
    return max(*map(_length, str(column.header).split() or [""]), *map(_length, _texts(column))) + BORDER


def _texts(column: Column) -> list[str]:
    return ["", *map(str, column.cells)]


def _length(markup: str) -> int:
    from rich.text import Text

    return Text.from_markup(markup).cell_len


def findings_table(findings: Sequence[Finding]) -> Table:
    """One row per finding, grouped by claim."""
    from rich.table import Table

    table = Table(title="Which trends hold", title_justify="left", title_style="bold")
    for column, share in (("claim", 4), ("setting", 2), ("result", 3)):
        table.add_column(column, ratio=share)
    for claim in dict.fromkeys(item.claim for item in findings):
        own = [item for item in findings if item.claim == claim]
        for item in own:
            style, verdict = ("green", YES) if item.holds else ("red", NO)
            result = f"[{style}]{verdict}[/{style}]: {item.numbers}"
            table.add_row(claim if item is own[0] else "", item.setting, result, end_section=item is own[-1])
    return table
