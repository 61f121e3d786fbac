"""Read CSV files of pairs of models: rows with their file and line, and checked fields."""

from __future__ import annotations

import csv
import math
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from gpusched_env.errors import ScenarioError

Row = dict[str, str]
MOST: Final = sys.float_info.max  # the largest finite number


def pair_rows(path: Path, needed: Sequence[str], instead: Sequence[str] = ()) -> Iterator[tuple[str, Row]]:
    """Yield the place, ``"FILE, line N"``, and the fields ("" = missing) of every row of a CSV file with a header.

    The header names the columns ``needed``, or else all of ``instead``.
    """
    names = ", ".join(needed) + (f" (or {', '.join(instead)})" if instead else "")
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = csv.DictReader(file, strict=True, skipinitialspace=True)
            header = rows.fieldnames or ()
            other = bool(instead) and set(instead) <= set(header)
            for column in needed:
                if other == (column in header):
                    told = f"{column!r} and {instead[-1]!r}" if other else f"no column {column!r}"
                    raise ScenarioError(f"{path}, line 1: {told}: the header must name {names}")
            for row in rows:
                if None in row or None in row.values():
                    wrong = next((f"ends before {name!r}" for name, text in row.items() if text is None), "is longer")
                    raise ScenarioError(f"{path}, line {rows.line_num}: it {wrong}; write as many fields as in line 1")
                plain = {name: (text or "").strip() for name, text in row.items() if isinstance(name, str)}
                yield f"{path}, line {rows.line_num}", plain
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise ScenarioError(f"{path}: {error}: give a CSV file in UTF-8 with the columns {names}") from error


def text_of(row: Row, column: str, place: str) -> str:
    """Return a field that must not be empty."""
    if not row[column]:
        raise ScenarioError(f"{place}, field {column!r} is empty: fill it or remove the line")
    return row[column]


def number_of(
    row: Row, column: str, place: str, least: float = 0.0, most: float = MOST, wanted: str = "a finite number >= 0"
) -> float:
    """Return a field as a number from ``least`` to ``most``, which ``wanted`` describes in errors."""
    try:
        value = math.nan if "_" in row[column] else float(row[column])  # float() also reads "0_1"
    except ValueError:
        value = math.nan
    if not least <= value <= most:
        raise ScenarioError(f"{place}, field {column!r}: {row[column]!r}: expected {wanted}")
    return value
