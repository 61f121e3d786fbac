"""Read published tables that do not list jobs: measured times, time series, summaries, results.

The layouts of the tables, with columns, kinds and units, are in ``layouts.toml``.
"""

from __future__ import annotations

import json
import tomllib
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import numpy as np

from gpusched_env.errors import TraceError
from gpusched_env.traces.parsing.containers import open_trace
from gpusched_env.traces.parsing.detection import Signature, columns, recognise
from gpusched_env.traces.parsing.fields import Place
from gpusched_env.traces.parsing.report import ReadReport
from gpusched_env.traces.parsing.sources import AUTO, split_here
from gpusched_env.traces.parsing.streams import csv_header, csv_rows, tab_rows

NAMED, BARE, LAYERS = "CSV with a header line", "CSV without a header line", "layer file of ASTRA-sim"
FORMS: Final = {"NAMED": NAMED, "BARE": BARE, "LAYERS": LAYERS}
EXPECTED: Final = {  # kind of column -> expected text of a cell, for error messages
    "text": "a text",
    "time": "a date as YYYY-MM-DD, or a time as YYYY-MM-DD HH:MM:SS",
    "whole": "a whole number",
    "number": "a finite number",
}
EXACT: Final = 2**53  # a float represents every whole number up to this one exactly
HEADING: Final = "DATA"  # data-parallel training, in which only gradients are exchanged
FIELDS: Final = 12
READ: Final = (0, 2, 5, 8, 10, 11)  # layer, three compute times, bytes of the weight gradients, update time
FIXED: Final = {1: "-1", 3: "NONE", 4: "0", 6: "NONE", 7: "0", 9: "ALLREDUCE"}  # values in data-parallel training
STRAY: Final = "a stray total, not a layer"
GLUED: Final = "the layer's name begins with a stray total; it is kept as it is"
MISCOUNTED: Final = "line 2 gives a wrong number of layers; it is ignored"


@dataclass(frozen=True)
class Column:
    """A column of a table.

    Parameters
    ----------
    name : name in the file; may be empty
    kind : "text", "time" (a date, or a date and time), "whole" (a whole number) or "number" (empty or nan = missing)
    unit : unit of the values; "" = none, "1" = a ratio
    """

    name: str
    kind: str
    unit: str = ""


@dataclass(frozen=True)
class Layout:
    """The layout of a table; ``layouts.toml`` explains the fields."""

    about: str
    columns: tuple[Column, ...]
    rest: Column | None = None
    levels: int = 0
    root: str = ""
    form: str = NAMED


def _layout(
    about: str, columns: Sequence[Sequence[str]], rest: Sequence[str] = (), form: str = "NAMED", **json: Any
) -> Layout:
    listed = [Column(name.strip("_") and name, kind, unit) for kind, unit, names in columns for name in names.split()]
    return Layout(about, tuple(listed), Column("", *rest) if rest else None, form=FORMS[form], **json)


_TABLES: Final = tomllib.loads(Path(__file__).with_name("layouts.toml").read_text(encoding="utf-8"))
LAYOUTS: Final = {name: _layout(**table) for name, table in _TABLES.items()}


@dataclass(frozen=True)
class Table:
    """A published table, whose columns have equal length.

    Attributes
    ----------
    layout : name of the layout
    columns : name -> values: text, datetime64[s] (local time of the log), int64, or float64 (NaN = missing)
    units : name of a column -> unit; "" = none
    """

    layout: str
    columns: Mapping[str, np.ndarray]
    units: Mapping[str, str]

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(next(iter(self.columns.values())))

    def __getitem__(self, column: str) -> np.ndarray:
        """Return a column by its name in the file."""
        return self.columns[column]


def read_table(source: str) -> tuple[Table, ReadReport]:
    """Read ``layout:path``, such as ``tiresias-gpu-time:PATH``, or ``auto:path`` if the header shows the layout.

    ``layout:@name`` means the file that ``gpusched traces fetch name`` downloaded. All rows are kept, except stray
    totals in layer files. The report notes missing numbers. Files may be compressed with gzip, zstd or zip.

    Raises
    ------
    TraceError : an unknown layout, a missing column, or a malformed value; the message names the file, line or record,
        field and remedy
    """
    name, path = split_here(source, "table", (AUTO, *LAYOUTS))
    if name == AUTO:
        name = recognise(path, {known: _signatures(layout) for known, layout in LAYOUTS.items()})
    layout = LAYOUTS[name]
    told = _columns(path, layout)
    report = ReadReport(name, str(path), unit="record" if layout.levels else "line", things="rows")
    numbers = array("q")
    texts: list[list[str]] = [[] for _ in told]
    for place, row in _rows(path, layout, told, report):
        numbers.append(place.number)
        for cells, text in zip(texts, row, strict=True):
            cells.append(text)
    if not numbers:
        raise TraceError(f"{path}: there are no rows; check that this is the right file")
    report.kept = len(numbers)
    report.rows = report.kept + sum(report.dropped.values())
    arrays = {column.name: _array(column, cells, numbers, report) for column, cells in zip(told, texts, strict=True)}
    return Table(name, arrays, {column.name: column.unit for column in told}), report


def read_layers(path: Path) -> tuple[Table, ReadReport]:
    """Read a layer file of ASTRA-sim 1.0.

    Columns: layer, forward_ns, input_gradient_ns, weight_gradient_ns, update_ns [ns], gradient_bytes [byte].

    Raises
    ------
    TraceError : not a layer file, training that is not data-parallel, or a malformed row
    """
    return read_table(f"astra-layers:{path}")


def _signatures(layout: Layout) -> list[Signature]:
    """Return what ``auto:path`` recognises a layout by: all its columns, no others unless ``rest``; a first line."""
    if layout.form == LAYERS:
        return [columns(HEADING, only=True)]
    if layout.levels or layout.form != NAMED:
        return []
    return [columns(*(column.name for column in layout.columns), only=layout.rest is None)]


def _columns(path: Path, layout: Layout) -> tuple[Column, ...]:
    if layout.rest is None:
        return layout.columns
    told = {column.name for column in layout.columns}
    others = [name for name in csv_header(path) if name not in told]
    return (*layout.columns, *(Column(name, layout.rest.kind, layout.rest.unit) for name in others))


def _rows(
    path: Path, layout: Layout, told: tuple[Column, ...], report: ReadReport
) -> Iterator[tuple[Place, list[str]]]:
    if layout.form == LAYERS:
        return layer_rows(path, report)
    if layout.levels:
        return json_rows(path, layout.root, layout.levels, len(told) - layout.levels)
    names = [column.name for column in told]
    return csv_rows(path, names, names if layout.form == BARE else ())


def _array(column: Column, texts: list[str], numbers: array[int], report: ReadReport) -> np.ndarray:
    """Parse a whole column at once; if that fails, parse cell by cell to find the malformed one."""
    try:
        values = parse(column.kind, texts)
    except ValueError:
        for number, text in zip(numbers, texts, strict=True):
            try:
                parse(column.kind, [text])
            except ValueError:
                remedy = f"expected {EXPECTED[column.kind]}; correct or remove the row"
                Place(report.path, number, report.unit).refuse(column.name, text, remedy)
        raise
    if column.kind == "number":
        for row in np.flatnonzero(np.isnan(values)):
            report.note(f"{column.name} is missing", numbers[row])
    return values


def parse(kind: str, texts: Sequence[str]) -> np.ndarray:
    """Parse texts into str, datetime64[s] ("time"), int64 ("whole") or float64 ("number"; "" and ``nan`` = NaN)."""
    if kind == "text":
        return np.array(texts, np.str_)
    if kind == "time":
        return np.array([_time(text) for text in texts], "datetime64[s]")
    values = np.array([float(text or "nan") for text in texts])
    if np.isinf(values).any() or "_" in "".join(texts):  # float() accepts "1_000", but no table has such numbers
        raise ValueError
    if kind == "number":
        return values
    if not ((np.abs(values) <= EXACT) & (values == np.trunc(values))).all():  # NaN fails both conditions
        raise ValueError
    return values.astype(np.int64)


def _time(text: str) -> datetime:
    when = datetime.fromisoformat(text)
    if when.tzinfo is not None or len(text) not in (len("2020-04-01"), len("2020-04-01 00:00:00")):
        raise ValueError
    return when


def layer_rows(path: Path, report: ReadReport) -> Iterator[tuple[Place, list[str]]]:
    """Yield the place of every layer and its fields READ.

    Fields are separated by tabs, and line 1 is ``DATA``. Some files end with a line that has one number, a stray total;
    it is dropped. The report notes a wrong number of layers in line 2, and layer names that begin with a stray total.
    """
    rows = tab_rows(path)
    _, heading = next(rows, (None, []))
    if heading != [HEADING]:
        raise TraceError(f"{path}, line 1: found {' '.join(heading)[:60]!r}; expected {HEADING}; is this a layer file?")
    counted, told = next(rows, (Place(str(path), 2), [""]))
    count = counted.whole("number of layers", told[0], "layers")
    names: list[tuple[Place, str]] = []
    totals: list[str] = []
    for place, row in rows:
        if len(row) == 1 and row[0].strip().isdecimal():
            totals.append(row[0].strip())
            report.drop(STRAY, place.number)
            continue
        if len(row) != FIELDS:
            raise TraceError(
                f"{path}, line {place.number}: {len(row)} fields, separated by tabs, where {FIELDS} are expected; "
                "the row is cut or has a stray tab: correct or remove it"
            )
        for position, expected in FIXED.items():
            if row[position] != expected:
                remedy = f"expected {expected}, as data-parallel training has it; other kinds are not read"
                place.refuse(f"column {position + 1}", row[position], remedy)
        names.append((place, row[0]))
        yield place, [row[position] for position in READ]
    if count != len(names):
        report.note(MISCOUNTED, counted.number)
    for place, name in names:
        if name.startswith(tuple(totals)):
            report.note(GLUED, place.number)


def json_rows(path: Path, root: str, levels: int, width: int) -> Iterator[tuple[Place, list[str]]]:
    """Yield the place and the texts of every leaf, in the order of the file: ``levels`` keys and ``width`` values.

    A leaf is a number, a text, or a list of numbers and texts. A list with fewer than ``width`` values is padded with
    empty texts. The places count leaves from 1.

    ``root`` is the key of the object that holds the rows; "" = the whole file.
    """
    for number, (keys, leaf) in enumerate(_leaves(path, _object(path, root), (), levels), 1):
        values = leaf if isinstance(leaf, list) else [leaf]
        if len(values) > width or not all(isinstance(value, str) for value in values):
            raise TraceError(
                f"{path}, record {number}, field {_shown(keys)}: expected up to {width} numbers or texts; "
                "correct or remove it"
            )
        yield Place(str(path), number, "record"), [*keys, *values, *[""] * (width - len(values))]


def _object(path: Path, root: str) -> Any:
    """Parse the file; numbers stay texts to keep all digits, and objects become tuples of pairs to keep equal keys."""
    with open_trace(path) as stream:
        try:
            data = json.load(stream, object_pairs_hook=tuple, parse_float=str, parse_int=str, parse_constant=str)
        except TraceError:
            raise
        except (ValueError, RecursionError) as error:
            raise TraceError(f"{path}: not JSON ({error}); fetch the file again") from error
    if not root:
        return data
    found = [value for key, value in _pairs(path, data, ()) if key == root]
    if len(found) != 1:
        raise TraceError(f"{path}: the field {root!r} occurs {len(found)} times, not once; is this the right file?")
    return found[0]


def _leaves(path: Path, data: Any, keys: tuple[str, ...], levels: int) -> Iterator[tuple[tuple[str, ...], Any]]:
    if not levels:
        yield keys, data
        return
    for key, value in _pairs(path, data, keys):
        yield from _leaves(path, value, (*keys, key), levels - 1)


def _pairs(path: Path, data: Any, keys: tuple[str, ...]) -> tuple[tuple[str, Any], ...]:
    if not isinstance(data, tuple):
        raise TraceError(f"{path}, field {_shown(keys)}: expected an object with keys; is this the right file?")
    return data


def _shown(keys: tuple[str, ...]) -> str:
    return " > ".join(map(repr, keys))[:200] or "(the whole file)"
