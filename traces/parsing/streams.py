"""Iterate over the rows of a trace; a malformed row becomes a TraceError."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final

from gpusched_env.errors import TraceError
from gpusched_env.traces.parsing.bad_rows import BadRowError, refuse_row
from gpusched_env.traces.parsing.containers import each_trace, open_trace, trace_files
from gpusched_env.traces.parsing.fields import Place

if TYPE_CHECKING:
    from _csv import Reader as CsvReader

__all__ = ["csv_rows"]

LONGEST_LINE: Final = 1 << 20  # [byte]


def csv_header(path: Path) -> tuple[str, ...]:
    """Return the column names of the first line."""
    with open_trace(path) as stream:
        for row in _rows(path, csv.reader(text_lines(path, stream), strict=True)):
            return tuple(name.strip() for name in row)
    raise TraceError(f"{path}: the file is empty; fetch it again")


def other_header(path: Path, header: Sequence[str], what: str, *layouts: Sequence[str]) -> TraceError:
    """Make the error for a header that fits none of the layouts; ``what`` is what the file should be."""
    expected = " or ".join(", ".join(columns) for columns in layouts)
    return TraceError(f"{path}, line 1: not {what}: expected the columns {expected}; found {', '.join(header)[:200]}")


def lines(path: Path, stream: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """Yield the number and the bytes of every line; numbers count from 1."""
    for number, raw in enumerate(iter(partial(stream.readline, LONGEST_LINE), b""), 1):
        if len(raw) == LONGEST_LINE:
            raise TraceError(f"{path}, line {number}: {LONGEST_LINE:,} bytes or more; is this the right file?")
        yield number, raw


def text_lines(path: Path, stream: BinaryIO) -> Iterator[str]:
    """Yield every line as text, with its line end; if bad rows are skipped, lines that are not UTF-8 become blank."""
    for number, raw in lines(path, stream):
        yield _decoded(path, number, raw)


def _decoded(path: Path, number: int, raw: bytes) -> str:
    """Decode a line; if bad rows are skipped, a line that is not UTF-8 becomes a blank line."""
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        complaint = f"{path}, line {number}: not UTF-8 ({error.reason}); is this the right file?"
        refuse_row(BadRowError(complaint, (number,), "not UTF-8"))
        return "\n"


def _rows(path: Path, reader: CsvReader) -> Iterator[list[str]]:
    while True:
        before = reader.line_num
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as error:  # an unclosed quote spans many lines, and each of them is counted
            complaint = f"{path}, line {reader.line_num}: not CSV ({error}); correct or remove the row"
            refuse_row(BadRowError(complaint, range(before + 1, reader.line_num + 1), f"not CSV ({error})"))
            continue
        yield row


def csv_rows(path: Path, columns: Sequence[str], names: Sequence[str] = ()) -> Iterator[tuple[Place, list[str]]]:
    """Yield the place and the values of ``columns``, in that order, of every data row; blank lines are skipped.

    ``names`` are all columns of a file that is published without a header; a header that a user added is skipped.
    """
    for file, stream in each_trace(path):
        yield from _csv_rows(file, stream, columns, names)


def _csv_rows(
    path: Path, stream: BinaryIO, columns: Sequence[str], names: Sequence[str]
) -> Iterator[tuple[Place, list[str]]]:
    name, reader = str(path), csv.reader(text_lines(path, stream), strict=True)
    rows = _rows(path, reader)
    first = next(rows, [])
    header = [text.strip() for text in first]
    if names and header != list(names):
        header, rows = list(names), chain([first], rows)
    missing = [column for column in columns if column not in header]
    if missing:
        raise TraceError(
            f"{path}, line 1: column {missing[0]!r} is missing; expected {', '.join(columns)}; "
            f"found {', '.join(header)[:200]}"
        )
    repeated = [column for column in columns if header.count(column) > 1]
    if repeated:
        raise TraceError(f"{path}, line 1: column {repeated[0]!r} occurs twice; keep one")
    index = [header.index(column) for column in columns]
    end = 0 if names else reader.line_num
    for row in rows:
        before, end = end, reader.line_num
        if not row:
            continue
        if len(row) != len(header):
            width = f"{len(row)} fields where the header has {len(header)}"
            remedy = "the row is cut or has a stray comma: correct or remove it"
            refuse_row(BadRowError(f"{path}, line {end}: {width}; {remedy}", range(before + 1, end + 1), width))
            continue
        yield Place(name, reader.line_num), [row[i] for i in index]


def bar_header(path: Path) -> tuple[str, ...]:
    """Return the lower-case column names of the first line, separated by ``|``; older sacct has an empty last one."""
    with open_trace(path) as stream:
        line = next(text_lines(path, stream), None)
    if line is None:
        raise TraceError(f"{path}: the file is empty; fetch it again")
    names = tuple(name.strip().lower() for name in line.rstrip("\r\n").split("|"))
    repeated = [name for name in names if name and names.count(name) > 1]
    if repeated and not names[0].isdigit():  # else a table without a header
        raise TraceError(f"{path}, line 1: column {repeated[0]!r} occurs twice; keep one")
    return names


def bar_rows(path: Path, header: Sequence[str]) -> Iterator[tuple[Place, list[str]]]:
    """Yield the place and the fields, separated by ``|``, of every line; skip blank ones and headers.

    ``header`` : names of the columns in lower case, in the order of the fields. A log that was joined of several has
    several headers, each of which may have these columns in another order.
    """
    columns = set(header)
    for file in trace_files(path):
        width, order = len(header), [*range(len(header))]
        in_order = True
        for place, fields in _split_lines(file, "|"):
            if fields[0].strip().lower() in columns:
                names = [text.strip().lower() for text in fields]
                if 2 * len(columns.intersection(names)) > len(columns):
                    if missing := [name for name in header if name and name not in names]:
                        remedy = "write all files with the same columns"
                        place.refuse("header", "|".join(fields), f"no column {missing[0]}, as the first has; {remedy}")
                    width, order = len(names), [names.index(name) if name in names else 0 for name in header]
                    in_order = names == [*header]
                    continue
            if len(fields) != width:
                found = f"{len(fields)} fields where the header has {width}"
                remedy = "the row is cut or a name has a stray |: correct or remove it"
                refuse_row(BadRowError(f"{place.path}, line {place.number}: {found}; {remedy}", (place.number,), found))
            else:
                yield place, fields if in_order else [fields[i] for i in order]


def word_rows(path: Path, fields: int, comment: bytes, heads: dict[str, str]) -> Iterator[tuple[Place, list[str]]]:
    """Yield the place and the first ``fields`` words of every data line; comments may be in any encoding.

    ``heads`` takes the comments ``Key: value`` of the file that is read, with the keys in lower case.
    """
    for file, stream in each_trace(path):
        name = str(file)
        heads.clear()
        for number, raw in lines(file, stream):
            if raw.lstrip().startswith(comment):
                key, _, value = raw.decode("latin-1").strip().lstrip(comment.decode()).partition(":")
                heads[key.strip().lower()] = value.strip()
                continue
            words = _decoded(file, number, raw).split()
            if words and len(words) < fields:
                width = f"{len(words)} fields where {fields} are expected"
                remedy = "the row is cut or this is another format: correct or remove it"
                refuse_row(BadRowError(f"{file}, line {number}: {width}; {remedy}", (number,), width))
            elif words:
                yield Place(name, number), words[:fields]


def tab_rows(path: Path) -> Iterator[tuple[Place, list[str]]]:
    """Yield the place and the fields, separated by tabs, of every line of a file without a header; skip blank lines."""
    return _split_lines(path, "\t")


def _split_lines(path: Path, separator: str) -> Iterator[tuple[Place, list[str]]]:
    for file, stream in each_trace(path):
        name = str(file)
        for number, line in enumerate(text_lines(file, stream), 1):
            if text := line.rstrip("\r\n"):
                yield Place(name, number), text.split(separator)
