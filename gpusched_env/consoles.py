"""Consoles for tables: a terminal with its width, or a file or pipe, wide and without padding."""

from __future__ import annotations

import atexit
import codecs
import io
import logging
import re
import sys
from typing import IO, TYPE_CHECKING, Any, Final, cast

if TYPE_CHECKING:
    from rich.console import Console

WIDTH_OF_A_PIPE: Final = 200  # [characters] wide enough that no cell is truncated
INTERRUPTED: Final = 128 + 2  # exit status that shells report for a process ended by SIGINT
_HANDLER: Final = "gpusched-question-marks"  # name of an error handler
_PADDING: Final = re.compile(r"[ \t]+$", re.MULTILINE)


class Unpadded:
    """A text stream without trailing blanks, with which rich pads every line of a table.

    Parameters
    ----------
    stream : receives the lines; all other attributes are those of this stream
    """

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write text without trailing blanks; like rich, pass whole lines."""
        return self._stream.write(_PADDING.sub("", text))

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the stream."""
        return getattr(self._stream, name)


def console(stream: IO[str] | None = None, width: int | None = None) -> Console:
    """Return a console for a stream; the default is the current standard output.

    Parameters
    ----------
    width : width if the stream is not a terminal [characters]; None = WIDTH_OF_A_PIPE
    """
    from rich.console import Console

    target = stream or sys.stdout
    out = Console(file=target, highlight=False)
    if out.is_terminal:
        return out
    return Console(file=cast("IO[str]", Unpadded(target)), highlight=False, width=width or WIDTH_OF_A_PIPE)


def prepare_output() -> None:
    """Make standard output and standard error print ``?`` for characters that their encoding lacks, with one note.

    Without this, a single ± in a table would end a command with an error where the encoding is ASCII. Matplotlib's
    warning about an unwritable cache folder is silenced as well: it has no effect on figures.
    """
    logging.getLogger("matplotlib").setLevel(logging.ERROR)
    codecs.register_error(_HANDLER, _question_marks)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors=_HANDLER)


def _question_marks(error: UnicodeError) -> tuple[str, int]:
    """Replace characters that cannot be encoded; a handler for :func:`codecs.register_error`."""
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
    """Print in one line that Ctrl-C ended a program, and the text of ``stop``; return the exit status."""
    # Objects that the interrupt left incomplete would print warnings when they are deleted at exit.
    atexit.register(setattr, sys, "unraisablehook", lambda _: None)
    print(": ".join([program, "interrupted", *map(str, stop.args)]), file=sys.stderr)
    return INTERRUPTED


_told = False
