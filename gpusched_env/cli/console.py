"""Tables that commands print."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpusched_env.support.consoles import console

if TYPE_CHECKING:
    from rich.table import Table


def plain_table(*headings: str, texts: int = 1) -> Table:
    """Return a table without a frame: ``texts`` columns of names, never truncated, then columns of numbers."""
    from rich.table import Table

    table = Table(*headings, show_edge=False, pad_edge=False)
    for column in table.columns[:texts]:
        column.overflow = "fold"
    for column in table.columns[texts:]:
        column.justify = "right"
    return table


def show(table: Table, title: str = "", note: str = "") -> None:
    """Print a table with a title and a note; markup in the title and the note is not interpreted."""
    from rich.text import Text

    out = console()
    table.title = None
    if title:
        out.print(Text(title, style="bold"))
    out.print(table)
    if note:
        out.print(Text(note, style="yellow"))
