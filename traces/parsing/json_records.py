"""Iterate over the records of a JSON list, or over a stream of objects in JSON or YAML, one at a time."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Final, NoReturn

import msgspec

from gpusched_env.errors import TraceError
from gpusched_env.traces.parsing.containers import each_trace
from gpusched_env.traces.parsing.fields import Place
from gpusched_env.traces.parsing.yaml_records import ForeignYamlError, YamlError, is_yaml, yaml_objects

CHUNK: Final = 1 << 16  # [byte] least number of bytes read at once; for a long record, the chunks double
LONGEST: Final = 1 << 25  # [characters] longest record; a longer one means that the file is damaged


LONGEST_LINE: Final = 1 << 16  # [characters] longest line that is decoded as a whole
BEFORE_ITEMS: Final = 1 << 12  # [characters] of a Kubernetes List, in which its ``items`` must begin
_ITEMS: Final = re.compile(
    r'\{\s*(?:(?:"apiVersion"\s*:\s*"[^"]*+"|"kind"\s*:\s*"\w*List"|"metadata"\s*:\s*\{[^{}]*+\})\s*,\s*)*+'
    r'"items"\s*:\s*(?=\[)'
)


Table = dict[str, Any]
_KEYS: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])  # leaves the values undecoded


def json_records(path: Path) -> Iterator[tuple[Place, Any]]:
    """Yield the place and the value of every record; memory holds one record and a chunk of text."""
    return _records(path, lambda stream: _Json(stream).values(), "expected a JSON list of jobs")


def json_objects(path: Path, fields: type[Any] = Table) -> Iterator[tuple[Place, Any]]:
    """Yield the place and the value of every object: of JSON lines, of a list, or of a Kubernetes List with ``items``.

    A file may hold several of these, one after another; or documents of YAML. Memory holds one object and a chunk of
    text. An object that is a line of JSON is of the type ``fields``, which may be a Struct of msgspec. An object that
    is not a line, or that does not fit this type, is a dictionary.
    """
    decode = msgspec.json.Decoder(fields).decode

    def read(stream: BinaryIO) -> Iterator[Any]:
        return yaml_objects(stream, LONGEST) if is_yaml(stream) else _Json(stream).objects(decode)

    return _records(path, read, "expected JSON objects, one a line or in a List, or YAML")


def json_members(path: Path, names: Sequence[str], rest: Table | None = None) -> Iterator[tuple[Place, Any]]:
    """Yield the place and the value of every element of the lists ``names`` of an object, or of several in a row.

    ``rest`` takes the values of the other keys.
    """
    others = {} if rest is None else rest
    return _records(path, lambda stream: _Json(stream).members(names, others), f"expected a list {' or '.join(names)}")


def _records(path: Path, read: Callable[[BinaryIO], Iterator[Any]], wanted: str) -> Iterator[tuple[Place, Any]]:
    total = 0
    for file, stream in each_trace(path):
        number, name = 0, str(file)
        try:
            for number, record in enumerate(read(stream), 1):
                yield Place(name, number, "record"), record
        except TraceError:
            raise
        except (ValueError, RecursionError) as error:
            what = error.msg if isinstance(error, json.JSONDecodeError) else str(error)
            if isinstance(error, ForeignYamlError):
                remedy = "write the file with kubectl get -o json, or without it"
                raise TraceError(f"{file}, after record {number}: the YAML has {what}; {remedy}") from error
            kind = "YAML" if isinstance(error, YamlError) else "JSON"
            raise TraceError(
                f"{file}, after record {number}: the {kind} is cut or damaged ({what}); fetch the file again"
            ) from error
        total += number
    if total == 0:
        raise TraceError(f"{path}: no records; {wanted}; check that this is the right file")


class _Json:
    """JSON whose text is read in chunks."""

    def __init__(self, stream: BinaryIO) -> None:
        self.stream = stream
        self.decode = codecs.getincrementaldecoder("utf-8")().decode
        self.scan = json.JSONDecoder(parse_constant=_refuse_constant).raw_decode
        self.text = ""
        self.at = 0

    def values(self) -> Iterator[Any]:
        if self._next() != "[":
            return
        yield from self._elements()
        if self._next():
            raise ValueError("text after the end of the list")

    def objects(self, decode: Callable[[str], Any]) -> Iterator[Any]:
        while (first := self._next()) != "":
            if first == "{" and (found := self._line(decode)) is not None:
                yield found
                continue
            while len(self.text) - self.at < BEFORE_ITEMS and self._read():
                pass
            before = _ITEMS.match(self.text, self.at)
            if first == "[":
                yield from self._elements()
            elif before is None:
                yield self._value()
            else:
                self.at = before.end()
                yield from self._elements()
                self._end_object()

    def members(self, names: Sequence[str], rest: Table) -> Iterator[Any]:
        """Yield the elements of the lists ``names`` of each object; ``rest`` takes what else the objects hold."""
        while (letter := self._next()) == "{":
            letter = ","
            while letter == ",":
                self.at += 1
                if self._next() == "}":
                    break
                key = self._value()
                if self._next() != ":":
                    raise ValueError("expected ':' after a key")
                self.at += 1
                if key in names and self._next() == "[":
                    yield from self._elements()
                else:
                    rest[key] = self._value()
                letter = self._next()
            if self._next() != "}":
                raise ValueError("expected ',' or '}' after a value")
            self.at += 1
        if letter:
            raise ValueError("text after the end of an object")

    def _line(self, decode: Callable[[str], Any]) -> Any:
        """Return the object if it is the rest of the line, by msgspec; None = it is not, or for the slower decoder."""
        end = self.text.find("\n", self.at, self.at + LONGEST_LINE)
        if end < 0:
            return None
        line = self.text[self.at : end]
        try:
            if '"items"' in line and "items" in _KEYS.decode(line):  # the volumes of a pod have items, too
                return None
            found = decode(line)
        except (msgspec.MsgspecError, ValueError, RecursionError):
            return None
        self.at = end + 1
        return found

    def _end_object(self) -> None:
        """Skip the keys after the ``items`` of a List."""
        while (letter := self._next()) == ",":
            self.at += 1
            self._value()
            if self._next() != ":":
                raise ValueError("expected ':' after a key")
            self.at += 1
            self._value()
        if letter != "}":
            raise ValueError("expected ',' or '}' after the items")
        self.at += 1

    def _elements(self) -> Iterator[Any]:
        """Yield the elements of the list that begins here."""
        self._next()
        self.at += 1
        if self._next() != "]":
            yield self._value()
            while self._next() == ",":
                self.at += 1
                yield self._value()
            if self._next() != "]":
                raise ValueError("expected ',' or ']' after a record")
        self.at += 1

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
