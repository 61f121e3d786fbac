"""Consoles on which tables are printed, or collected as JSON.

On a terminal, tables have the width of the terminal. In a file or a pipe, they have a large fixed width and no trailing
blanks.
"""

from __future__ import annotations

import atexit
import codecs
import contextlib
import csv
import io
import logging
import os
import re
import sys
from collections.abc import Iterator, Sequence
from typing import IO, Any, Final, cast

from rich.console import Console
from rich.table import Table
from rich.text import Text

WIDTH_OF_A_PIPE: Final = 200  # [characters] wide enough that no cell is truncated
INTERRUPTED: Final = 128 + 2  # exit status that shells report for a process that SIGINT ended
_HANDLER: Final = "gpusched-question-marks"  # name under which _question_marks is registered in ``codecs``
_NUMBER: Final = re.compile(r"-?\d{1,3}(,\d{3})+|-?\d+(\.\d+)?(e[+-]\d+)?")
_PADDING: Final = re.compile(r"[ \t]+$", re.MULTILINE)


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
    target = stream or sys.stdout
    out = Console(file=target, highlight=False)
    if out.is_terminal:
        return out
    return Console(file=cast("IO[str]", Unpadded(target)), highlight=False, width=width or WIDTH_OF_A_PIPE)


def plain_table(*headings: str, texts: int = 1) -> Table:
    """Return a table without a frame: ``texts`` columns of names, never truncated, then columns of numbers."""
    table = Table(*headings, show_edge=False, pad_edge=False, caption_justify="left")
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
    if _collected is not None:
        notes = [str(text) for text in (table.caption, note) if text]
        title = (title or str(table.title or "")).strip()
        _collected.append({"title": title, "rows": _cells(table) if rows is None else rows, "notes": notes})
        return
    out = out or console()
    if title:
        table.title = None
        out.print(Text(title, style="bold"))
    out.print(table)
    if note:
        out.print(Text(note, style="yellow"))


@contextlib.contextmanager
def collected() -> Iterator[list[dict[str, Any]]]:
    """Collect the tables of :func:`show` instead of printing them; all else goes to standard error."""
    global _collected
    _collected = []
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield _collected
    finally:
        _collected = None


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

    def plain(cell: Any) -> str:
        return cell.plain if isinstance(cell, Text) else Text.from_markup(str(cell)).plain

    columns = [(plain(column.header), list(column.cells)) for column in table.columns]
    return [{name: _value(plain(cells[i])) for name, cells in columns} for i in range(table.row_count)]


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
_collected: list[dict[str, Any]] | None = None
