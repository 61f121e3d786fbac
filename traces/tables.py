"""Read published tables that do not list jobs: measured times, time series, summaries, results.

The layouts of the tables are in ``layouts.toml``.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gpusched_env.errors import TraceError
from gpusched_env.traces.astra_sim_layers import HEADING, layer_rows
from gpusched_env.traces.layouts import BARE, LAYERS, LAYOUTS, NAMED, Column, Layout
from gpusched_env.traces.parsing.cells import EXPECTED, parse
from gpusched_env.traces.parsing.detection import Signature, columns, recognise
from gpusched_env.traces.parsing.fields import Place
from gpusched_env.traces.parsing.json_rows import json_rows
from gpusched_env.traces.parsing.report import ReadReport
from gpusched_env.traces.parsing.sources import AUTO, split_here
from gpusched_env.traces.parsing.streams import csv_header, csv_rows


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
