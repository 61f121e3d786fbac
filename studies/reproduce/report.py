"""The printed output of a reproduction: tables, and which claims hold."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from studies.reproduce.expressions import Missing, Scope
from studies.reproduce.findings import NO, TIE, UNJUDGED, YES, Finding

if TYPE_CHECKING:
    from rich.table import Column, Table

STYLES: Final = {YES: "green", NO: "red", TIE: "yellow", UNJUDGED: "yellow"}
WIDTH: Final = 120  # [characters] of the output, unless the terminal's width is known
SUMMARY_LINES: Final = 9  # most lines below the title
BORDER: Final = 3  # [characters] per column: a line, and a blank on each side


def new_table(title: str, *columns: str) -> Table:
    """Make a table with names in the first column and numbers in the others."""
    from rich.table import Table

    table = Table(title=title, title_justify="left", title_style="bold")
    for number, column in enumerate(columns):
        table.add_column(column, justify="left" if number == 0 else "right", no_wrap=number == 0)
    return table


def pivot(spec: Mapping[str, Any], scope: Scope) -> Iterator[Table]:
    """Yield the tables that a card describes: one for each place of ``each``, with rows and columns for their axes.

    Rows and columns for which no run was played are left out, and so are tables without rows.
    """
    for outer in scope.places(spec.get("each", {})):
        try:
            place = outer.of_seeds_of(spec.get("seeds_of", {})).let(spec.get("let", {}))
        except Missing:
            continue
        columns = [(column, group) for group in spec["columns"] for column in place.places(group.get("for", {}))]
        axes = [{k: v for k, v in column.labels.items() if place.labels.get(k) is not v} for column, _ in columns]
        rows = []
        for group in spec["rows"]:
            for row in place.places(group.get("for", {})):
                lines = group.get("lines", [group])
                for line in lines:
                    texts = [line.get("cell", group.get("cell", "")) for _, group in columns]
                    cells = [_cell(row, axis, text, line) for axis, text in zip(axes, texts, strict=True)]
                    ends = row.value(group.get("section", "False")) and line is lines[-1]
                    rows.append((row.text(line["head"]), cells, ends))
        rows = [row for row in rows if all(cell[1] is None for cell in row[1]) or any(cell[1] for cell in row[1])]
        played = [
            any(row[1][i][1] for row in rows) or all(row[1][i][1] is None for row in rows) for i in range(len(columns))
        ]
        if rows and sum(played) >= spec.get("fewest_columns", 1):
            heads = [column.text(group.get("head", "")) for column, group in columns]
            shown = [head for head, kept in zip(heads, played, strict=True) if kept]
            table = new_table(place.text(spec["title"]), spec.get("corner", ""), *shown)
            for head, cells, ends in rows:
                texts = [text for (text, _), kept in zip(cells, played, strict=True) if kept]
                table.add_row(head, *texts, end_section=ends)
            yield table


def _cell(row: Scope, column: Mapping[str, Any], template: str, line: Mapping[str, Any]) -> tuple[str, bool | None]:
    """Return the text of a cell, and whether it is of runs; None = it needs none."""
    place = row.at(**column)
    before = place.found[0]
    try:
        place = place.let(line.get("let", {}))
        text = place.text(template)
    except Missing:
        return "", False
    return text, True if place.found[0] > before else None


def summary(findings: Sequence[Finding], width: int = WIDTH) -> list[str]:
    """Return one line per claim, which says in how many settings the claim holds.

    If there are more than SUMMARY_LINES claims, claims with the same words before the colon share a line.
    """
    claims: dict[str, list[str]] = {}
    for finding in findings:
        claims.setdefault(finding.claim, []).append(finding.verdict)
    if len(claims) > SUMMARY_LINES:
        starts = [claim.partition(": ")[0] for claim in claims]
        groups: dict[str, list[str]] = {}
        for start, (claim, verdicts) in zip(starts, claims.items(), strict=True):
            groups.setdefault(start if starts.count(start) > 1 else claim, []).extend(verdicts)
        claims = groups
    lines = [f"{tally(verdicts)}: {claim}" for claim, verdicts in claims.items()]
    lines = [line if len(line) <= width else f"{line[: width - 3].rstrip()}..." for line in lines]
    more = len(lines) - SUMMARY_LINES + 1
    return lines if more <= 1 else [*lines[: SUMMARY_LINES - 1], f"and {more} more claims, in the last table"]


def tally(verdicts: Sequence[str]) -> str:
    """Say in how many settings a claim holds; ties are counted separately."""
    if set(verdicts) == {UNJUDGED}:
        return UNJUDGED
    ties = verdicts.count(TIE)
    return f"holds in {verdicts.count(YES):>2} of {len(verdicts):>2}" + (f" ({ties} tied)" if ties else "")


def fitted(table: Table, width: int) -> list[Table]:
    """Split a table that is too wide [characters] into several, each with the first column; only headings wrap."""
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
            style = STYLES[item.verdict]
            result = f"[{style}]{item.verdict}[/{style}]: {item.numbers}"
            if item.full:
                result = f"full runs: [{style}]{item.verdict}[/{style}]; here: {item.numbers}"
            table.add_row(claim if item is own[0] else "", item.setting, result, end_section=item is own[-1])
    return table
