"""Consoles on which tables are printed, or collected as JSON.

On a terminal, tables have the width of the terminal. In a file or a pipe, they have a large fixed width and no trailing
blanks.
"""

from __future__ import annotations

import atexit
import codecs
import contextlib
import csv
import dataclasses
import io
import json
import logging
import os
import re
import sys
from collections.abc import Iterator, Sequence
from typing import IO, TYPE_CHECKING, Any, Final, NamedTuple, cast

from gpusched_env.support.provenance import comments, origin
from gpusched_env.support.tables import Table, from_rich

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table as RichTable

WIDTH_OF_A_PIPE: Final = 200  # [characters] wide enough that no cell is truncated
INTERRUPTED: Final = 128 + 2  # exit status that shells report for a process that SIGINT ended
_HANDLER: Final = "gpusched-question-marks"  # name under which _question_marks is registered in ``codecs``
_NUMBER: Final = re.compile(r"-?\d{1,3}(,\d{3})+|-?\d+(\.\d+)?(e[+-]\d+)?")
_PADDING: Final = re.compile(r"[ \t]+$", re.MULTILINE)


class Shown(NamedTuple):
    """A table that a command shows, its rows for JSON, and the runs of which it tells, if it is of runs."""

    table: Table
    rows: Sequence[dict[str, Any]]
    runs: Sequence[dict[str, Any]] | None = None


class Unpadded:
    """Wrap a text stream and remove the trailing blanks with which rich pads every line of a table.

    Parameters
    ----------
    stream : receives the lines; every attribute except ``write`` is taken from this stream
    """

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write ``text`` without the trailing blanks of each line; ``text`` must consist of whole lines."""
        return self._stream.write(_PADDING.sub("", text))

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the wrapped stream."""
        return getattr(self._stream, name)


def console(stream: IO[str] | None = None, width: int | None = None) -> Console:
    """Return a console that prints to a stream.

    Parameters
    ----------
    stream : None = the current standard output
    width : width of tables if the stream is not a terminal [characters]; None = WIDTH_OF_A_PIPE
    """
    from rich.console import Console

    target = stream or sys.stdout
    out = Console(file=target, highlight=False)
    if out.is_terminal:
        return out
    return Console(file=cast("IO[str]", Unpadded(target)), highlight=False, width=width or WIDTH_OF_A_PIPE)


def plain_table(*headings: str, texts: int = 1) -> RichTable:
    """Return a table without a frame: ``texts`` columns of names, never truncated, then columns of numbers."""
    from rich.table import Table as RichTable

    table = RichTable(*headings, show_edge=False, pad_edge=False, caption_justify="left")
    for column in table.columns[:texts]:
        column.overflow = "fold"
    for column in table.columns[texts:]:
        column.justify = "right"
    return table


def show(
    table: RichTable | Table,
    title: str = "",
    note: str = "",
    rows: Sequence[dict[str, Any]] | None = None,
    out: Console | None = None,
    runs: Sequence[dict[str, Any]] | None = None,
) -> None:
    """Print a table with a title and a note; markup in the title and the note is not interpreted.

    Parameters
    ----------
    table : as data, which is printed with the columns that fit, or for the terminal
    title : instead of that of the table
    rows : what ``--json`` prints as rows; None = the rows of the table, by column
    out : None = the standard output
    runs : results of which the table tells, as in JSON
    """
    from rich.text import Text

    if _collected is not None:
        _collected.append(_as_data(table, title, note, rows)._replace(runs=runs))
        return
    out = out or console()
    if isinstance(table, Table):
        title, table = title or table.caption, dataclasses.replace(table, caption="").fitting(out.width).__rich__()
    if title:
        table.title = None
        out.print(Text(title, style="bold"))
    out.print(table)
    if note:
        out.print(Text(note, style="yellow"))


def collecting() -> bool:
    """Return whether tables are collected instead of printed."""
    return _collected is not None


@contextlib.contextmanager
def collected() -> Iterator[list[Shown]]:
    """Collect the tables of :func:`show` instead of printing them; all else goes to standard error."""
    global _collected
    _collected = []
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield _collected
    finally:
        _collected = None


def in_json(tables: Sequence[Shown]) -> str:
    """Return tables as JSON: rows and notes; if it tells of runs, these are its rows."""
    data = [
        {"title": one.table.caption, "rows": one.rows if one.runs is None else one.runs, "notes": one.table.noted()}
        | ({} if one.runs is None else {"table": one.rows, "about": origin()})
        for one in tables
    ]
    return json.dumps({"tables": data}, indent=1, ensure_ascii=False) + "\n"


def in_latex(tables: Sequence[Shown]) -> str:
    """Return tables in LaTeX for the package booktabs, each after comments that tell its origin."""
    return "\n".join("".join(f"% {line}\n" for line in comments(one.runs)) + one.table.to_latex() for one in tables)


def in_markdown(tables: Sequence[Shown]) -> str:
    """Return tables in Markdown, each after comments that tell its origin."""
    return "\n".join(
        "".join(f"<!-- {line.replace('>', '&gt;')} -->\n" for line in comments(one.runs))
        + f"\n{one.table.to_markdown()}"
        for one in tables
    )


def rows_of_csv(text: str) -> list[dict[str, Any]]:
    """Return the lines of a CSV as rows for :func:`show`."""
    return [{name: _value(cell) for name, cell in line.items()} for line in csv.DictReader(io.StringIO(text))]


def _value(text: str) -> str | int | float | None:
    """Read a cell: what looks like a number is one, an empty cell is null."""
    if _NUMBER.fullmatch(text):
        return float(text) if "." in text or "e" in text else int(text.replace(",", ""))
    return None if text in ("", "-") else text


def _as_data(table: RichTable | Table, title: str, note: str, rows: Sequence[dict[str, Any]] | None) -> Shown:
    """Return a table that was shown, as data; cells of a table for the terminal that look like numbers are numbers."""
    if isinstance(table, Table):
        data = dataclasses.replace(table, caption=title or table.caption).noting(note)
        return Shown(data, data.to_rows() if rows is None else rows)
    caption = (title or str(table.title or "")).strip()
    data = from_rich(table, caption, [str(text) for text in (table.caption, note) if text])
    names = [column.heading for column in data.columns]
    read = [dict(zip(names, (_value(cell.text) for cell in row.cells), strict=True)) for row in data.rows]
    return Shown(data, read if rows is None else rows)


def prepare_output() -> None:
    """Make standard output and standard error print ``?`` for each character that their encoding lacks.

    The first such character also prints a note. Otherwise, a single ± in a table would end a command with an error if
    the encoding is ASCII. This function also silences Matplotlib's warning about a cache folder that is not writable,
    because figures do not depend on that folder.
    """
    logging.getLogger("matplotlib").setLevel(logging.ERROR)
    codecs.register_error(_HANDLER, _question_marks)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors=_HANDLER)


def _question_marks(error: UnicodeError) -> tuple[str, int]:
    """Replace the characters that cannot be encoded; an error handler for :func:`codecs.register_error`."""
    global _told
    if not isinstance(error, UnicodeEncodeError):
        raise error
    if not _told:
        _told = True
        print(
            f"gpusched_env: ? stands for characters that the encoding {error.encoding} lacks; PYTHONIOENCODING=utf-8 "
            "shows them",
            file=sys.stderr,
        )
    return "?" * (error.end - error.start), error.end


def tell_interrupt(program: str, stop: KeyboardInterrupt) -> int:
    """Print on one line that Ctrl-C interrupted ``program``, followed by the text of ``stop``; return INTERRUPTED."""
    # Objects whose construction was interrupted would print warnings when they are deleted at exit.
    atexit.register(setattr, sys, "unraisablehook", lambda _: None)
    print(": ".join([program, "interrupted", *map(str, stop.args)]), file=sys.stderr)
    return INTERRUPTED


@contextlib.contextmanager
def output_checked() -> Iterator[None]:
    """End the process with one line and status 1 if standard output does not take what is printed (a full disk)."""
    try:
        try:
            yield
        finally:
            sys.stdout.flush()
    except OSError as error:
        if error.filename is not None:  # of another file
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # Python flushes once more at its end
        if isinstance(error, BrokenPipeError):  # the reader has seen enough
            sys.exit(1)
        sys.exit(f"standard output cannot be written ({error.strerror or error}); free space or name another place")


_told = False
_collected: list[Shown] | None = None
