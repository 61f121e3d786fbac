"""Where tables go: standard output as wide as the terminal, or a file or a pipe, wide enough and without padding."""

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

WIDTH_OF_A_PIPE: Final = 200  # [characters] it has no width: do not cut cells there
INTERRUPTED: Final = 128 + 2  # exit status, as shells tell of a process that SIGINT has ended
_HANDLER: Final = "gpusched-question-marks"  # name of an error handler
_PADDING: Final = re.compile(r"[ \t]+$", re.MULTILINE)


class Unpadded:
    """A text stream whose lines lose the blanks at their ends: rich fills every line of a table with them.

    Parameters
    ----------
    stream : where the lines go; everything but writing is its own
    """

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write whole lines, as rich does."""
        return self._stream.write(_PADDING.sub("", text))

    def __getattr__(self, name: str) -> Any:
        """Give what else the stream has."""
        return getattr(self._stream, name)


def console(stream: IO[str] | None = None, width: int | None = None) -> Console:
    """Give a console for a stream, by default standard output as it is now.

    Parameters
    ----------
    width : of what is no terminal [characters]; None = WIDTH_OF_A_PIPE
    """
    from rich.console import Console

    target = stream or sys.stdout
    out = Console(file=target, highlight=False)
    if out.is_terminal:
        return out
    return Console(file=cast("IO[str]", Unpadded(target)), highlight=False, width=width or WIDTH_OF_A_PIPE)


def prepare_output() -> None:
    """Let standard output and errors show ``?`` for what their encoding lacks, and say so once.

    Without this, one ± in a table would end a command where the encoding is ASCII. Matplotlib, too, keeps to itself
    that it found no cache folder to write: that changes no figure.
    """
    logging.getLogger("matplotlib").setLevel(logging.ERROR)
    codecs.register_error(_HANDLER, _question_marks)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors=_HANDLER)


def _question_marks(error: UnicodeError) -> tuple[str, int]:
    """Handle what cannot be encoded, as :func:`codecs.register_error` asks for."""
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
    """Say in one line that Ctrl-C ended a program, and what was kept, the text of ``stop``; give its exit status."""
    # What the interrupt left half-made would complain when it is deleted, at the very end.
    atexit.register(setattr, sys, "unraisablehook", lambda _: None)
    print(": ".join([program, "interrupted", *map(str, stop.args)]), file=sys.stderr)
    return INTERRUPTED


_told = False
