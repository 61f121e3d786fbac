"""Iterate over the records of a JSON list, one at a time."""

from __future__ import annotations

import codecs
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, Final, NoReturn

from gpusched_env.errors import TraceError
from gpusched_env.traces.parsing.containers import open_trace
from gpusched_env.traces.parsing.fields import Place

CHUNK: Final = 1 << 16  # [byte] least number of bytes read at once; for a long record, the chunks double
LONGEST: Final = 1 << 25  # [characters] longest record; a longer one means that the file is damaged


def json_records(path: Path) -> Iterator[tuple[Place, Any]]:
    """Yield the place and the value of every record; memory holds one record and a chunk of text.

    Raises
    ------
    TraceError : the file is not a list, the list is empty, the JSON is cut or damaged, or the text is not UTF-8
    """
    number = 0
    with open_trace(path) as stream:
        try:
            for number, record in enumerate(_List(stream).values(), 1):
                yield Place(str(path), number, "record"), record
        except TraceError:
            raise
        except (ValueError, RecursionError) as error:
            what = error.msg if isinstance(error, json.JSONDecodeError) else str(error)
            raise TraceError(
                f"{path}, after record {number}: the JSON is cut or damaged ({what}); fetch the file again"
            ) from error
    if number == 0:
        raise TraceError(f"{path}: no records; expected a JSON list of jobs")


class _List:
    """A JSON list whose text is read in chunks.

    The decoder is that of the standard library, not an event-based parser. An event-based parser builds the path of
    each event, which takes gigabytes of memory for a file of open brackets. The standard library's decoder stops at its
    recursion limit, and is faster.
    """

    def __init__(self, stream: BinaryIO) -> None:
        self.stream = stream
        self.decode = codecs.getincrementaldecoder("utf-8")().decode
        self.scan = json.JSONDecoder(parse_constant=_refuse_constant).raw_decode
        self.text = ""
        self.at = 0

    def values(self) -> Iterator[Any]:
        if self._next() != "[":
            return
        self.at += 1
        if self._next() != "]":
            yield self._value()
            while self._next() == ",":
                self.at += 1
                yield self._value()
            if self._next() != "]":
                raise ValueError("expected ',' or ']' after a record")
        self.at += 1
        if self._next():
            raise ValueError("text after the end of the list")

    def _value(self) -> Any:
        self._next()
        while True:
            try:
                value, end = self.scan(self.text, self.at)
            except json.JSONDecodeError:
                if not self._read():
                    raise
                continue
            if end < len(self.text) or not self._read():  # a number may continue in the next chunk
                self.at = end
                return value

    def _next(self) -> str:
        """Skip white space and return the next character without consuming it; "" at the end of the file."""
        while True:
            while self.at < len(self.text) and self.text[self.at] in " \t\r\n":
                self.at += 1
            if self.at < len(self.text) or not self._read():
                return self.text[self.at : self.at + 1]

    def _read(self) -> bool:
        """Drop the consumed text and read more text; return False at the end of the file."""
        rest = self.text[self.at :]
        if len(rest) > LONGEST:
            raise ValueError(f"a record of more than {LONGEST:,} characters")
        chunk = self.stream.read(max(CHUNK, len(rest)))
        self.text, self.at = rest + self.decode(chunk, final=not chunk), 0
        return bool(chunk)


def _refuse_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is no JSON")
