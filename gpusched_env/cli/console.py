"""Tables that commands print, on the console or as JSON."""

from __future__ import annotations

import contextlib
import csv
import functools
import inspect
import io
import json
import re
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from gpusched_env.consoles import console

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

_NUMBER: Final = re.compile(r"-?\d{1,3}(,\d{3})+|-?\d+(\.\d+)?(e[+-]\d+)?")
_tables: list[dict[str, Any]] | None = None  # tables of a command that prints JSON


def plain_table(*headings: str, texts: int = 1) -> Table:
    """Return a table without a frame: ``texts`` columns of names, never truncated, then columns of numbers."""
    from rich.table import Table

    table = Table(*headings, show_edge=False, pad_edge=False)
    for column in table.columns[:texts]:
        column.overflow = "fold"
    for column in table.columns[texts:]:
        column.justify = "right"
    return table


def show(
    table: Table,
    title: str = "",
    note: str = "",
    rows: Sequence[dict[str, Any]] | None = None,
    out: Console | None = None,
) -> None:
    """Print a table with a title and a note; markup in the title and the note is not interpreted.

    Parameters
    ----------
    title : instead of that of the table
    rows : what ``--json`` prints; None = the cells of the table, by heading
    out : None = the standard output
    """
    from rich.text import Text

    if _tables is not None:
        notes = [str(text) for text in (table.caption, note) if text]
        title = (title or str(table.title or "")).strip()
        _tables.append({"title": title, "rows": _cells(table) if rows is None else rows, "notes": notes})
        return
    out = out or console()
    if title:
        table.title = None
        out.print(Text(title, style="bold"))
    out.print(table)
    if note:
        out.print(Text(note, style="yellow"))


def printed_as_json(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the option ``--json``: its tables are printed as JSON, and all else goes to standard error."""

    @functools.wraps(command)
    def call(*, as_json: bool, **given: Any) -> Any:
        global _tables
        if not as_json:
            return command(**given)
        _tables = []
        try:
            with contextlib.redirect_stdout(sys.stderr):
                command(**given)
            print(json.dumps({"tables": _tables}, indent=1, ensure_ascii=False))
        finally:
            _tables = None
        return None

    option = Annotated[bool, typer.Option("--json", help="Print the tables as JSON; all else goes to standard error.")]
    signature = inspect.signature(command)
    added = inspect.Parameter("as_json", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=option)
    call.__signature__ = signature.replace(parameters=[*signature.parameters.values(), added])  # type: ignore[attr-defined]
    call.__annotations__ = command.__annotations__ | {"as_json": option}
    return call


def rows_of_csv(text: str) -> list[dict[str, Any]]:
    """Return the lines of a CSV as rows for :func:`show`."""
    return [{name: _value(cell) for name, cell in line.items()} for line in csv.DictReader(io.StringIO(text))]


def _value(text: str) -> str | int | float | None:
    """Read a cell: what looks like a number is one, an empty cell is null."""
    if _NUMBER.fullmatch(text):
        return float(text) if "." in text or "e" in text else int(text.replace(",", ""))
    return None if text in ("", "-") else text


def _cells(table: Table) -> list[dict[str, Any]]:
    """Return the rows of a table as dictionaries by heading."""
    from rich.text import Text

    def plain(cell: Any) -> str:
        return cell.plain if isinstance(cell, Text) else Text.from_markup(str(cell)).plain

    columns = [(plain(column.header), list(column.cells)) for column in table.columns]
    return [{name: _value(plain(cells[i])) for name, cells in columns} for i in range(table.row_count)]
