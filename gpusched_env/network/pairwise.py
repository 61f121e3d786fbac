"""Pairwise interference: a table of measured ratios gives the rate of a model beside another model.

The rules follow gajagajago/deepshare, scheduler/cluster_env.py. The user must supply the table; the package has none.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from gpusched_env.errors import ScenarioError, unknown_name

Array = np.ndarray[Any, Any]

FIELDS: Final = ("model_a", "model_b", "ratio")
MISSING: Final = ("error", "unit")


@dataclass(frozen=True)
class PairwiseTable:
    """Table of a ratio for each ordered pair of names.

    ``ratio`` : (a, b) -> throughput of a beside b / throughput of a alone, in (0, 1]; that of (b, a) may differ.
    """

    ratio: Mapping[tuple[str, str], float]
    source: str

    def matrix(self, names: Sequence[str], missing: str = "error", floor: float = 0.35) -> Array:
        """Return the ratio of each name (row) beside each name (column); float64 [K, K].

        Ratios are at least ``floor``. A pair that the table lacks is an error, or (``missing`` "unit") 1.
        """
        if missing not in MISSING:
            raise ScenarioError(f"contention.missing: {unknown_name('rule', missing, MISSING)}")
        lacking = [(a, b) for a in names for b in names if (a, b) not in self.ratio]
        if lacking and missing == "error":
            a, b = lacking[0]
            raise ScenarioError(
                f"{self.source}: no ratio for {a!r} beside {b!r} ({len(lacking)} of {len(names) ** 2} ordered pairs "
                "missing): add them, or set missing='unit' to let such pairs run undisturbed"
            )
        return np.array([[max(floor, self.ratio.get((a, b), 1.0)) for b in names] for a in names])


def pairwise_ratios(gpus_on: Array, name: Array, matrix: Array) -> Array:
    """Return the throughput of each gang / its throughput without neighbours; float64 [J].

    It is the smallest ratio over all neighbours, not the product of the ratios. A neighbour is another gang that uses
    one of the gang's servers. A gang that is on one server is not slowed down, and does not slow others down.

    ``gpus_on`` : int [J, S], GPUs of each running gang on each server; ``name`` : int [J], its row in ``matrix``.
    """
    on = gpus_on > 0
    on &= on.sum(axis=1, keepdims=True) > 1
    neighbours = (on[:, None, :] & on[None, :, :]).any(axis=2) & ~np.eye(len(on), dtype=bool)
    return np.where(neighbours, matrix[np.ix_(name, name)], 1.0).min(axis=1, initial=1.0)


def read_pairwise(path: Path) -> PairwiseTable:
    """Read a CSV file with a header and the columns ``model_a, model_b, ratio``; other columns are ignored."""
    ratio: dict[tuple[str, str], float] = {}
    line_of: dict[tuple[str, str], int] = {}
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = csv.DictReader(file, strict=True, skipinitialspace=True)
            absent = [field for field in FIELDS if field not in (rows.fieldnames or ())]
            if absent:
                raise ScenarioError(
                    f"{path}, line 1: no column {absent[0]!r}: the header must name {', '.join(FIELDS)}"
                )
            for row in rows:
                pair, value = _pair(row, f"{path}, line {rows.line_num}")
                if pair in ratio:
                    raise ScenarioError(
                        f"{path}, line {rows.line_num}: the pair {pair[0]!r}, {pair[1]!r} is given on line "
                        f"{line_of[pair]} already: keep one of them"
                    )
                ratio[pair], line_of[pair] = value, rows.line_num
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise ScenarioError(
            f"{path}: {error}: give a CSV file in UTF-8 with the columns {', '.join(FIELDS)}"
        ) from error
    if not ratio:
        raise ScenarioError(f"{path}: no row below the header: give one line for each ordered pair of models")
    return PairwiseTable(ratio, str(path))


def _pair(row: Mapping[str, str | None], place: str) -> tuple[tuple[str, str], float]:
    """Return the pair of names and the ratio of a row; ``place`` is its file and line, for error messages."""
    a, b, text = ((row[field] or "").strip() for field in FIELDS)
    for field, value in zip(FIELDS, (a, b, text), strict=True):
        if not value:
            raise ScenarioError(f"{place}, field {field!r} is empty: fill it or remove the line")
    try:
        ratio = float(text)
    except ValueError:
        ratio = math.nan
    if not 0.0 < ratio <= 1.0 or "_" in text:  # float() also reads "0_1"
        raise ScenarioError(
            f"{place}, field 'ratio': {text!r}: expected a throughput ratio in (0, 1], 1 = undisturbed; "
            "a slow-down s is written as 1/s"
        )
    return (a, b), ratio
