"""Where tables go: standard output, as wide as the terminal, or wide enough in a file or a pipe."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

WIDTH_OF_A_PIPE: Final = 200  # [characters] it has no width: do not cut cells there


def console() -> Console:
    """Give a console for standard output as it is now."""
    from rich.console import Console

    out = Console(highlight=False)
    if not out.is_terminal:
        out.width = WIDTH_OF_A_PIPE
    return out


def plain_table(*headings: str, texts: int = 1) -> Table:
    """Give a table without a frame; its first ``texts`` columns hold names, which are never cut, the others numbers."""
    from rich.table import Table

    table = Table(*headings, show_edge=False, pad_edge=False)
    for column in table.columns[:texts]:
        column.overflow = "fold"
    for column in table.columns[texts:]:
        column.justify = "right"
    return table


def show(table: Table, title: str = "", note: str = "") -> None:
    """Print a table under a title that no markup in names can spoil."""
    from rich.text import Text

    out = console()
    table.title = None
    if title:
        out.print(Text(title, style="bold"))
    out.print(table)
    if note:
        out.print(Text(note, style="yellow"))
