"""Pairwise interference: a table of measured ratios gives the rate of a model beside another model.

The rules follow gajagajago/deepshare, scheduler/cluster_env.py. The user must supply the table; the package has none.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np

from gpusched_env.errors import ScenarioError
from gpusched_env.network.contention import Contention
from gpusched_env.sharing.csv_pairs import number_of, pair_rows, text_of

FIELDS: Final = ("model_a", "model_b", "ratio")


def ratio_matrix(contention: Contention, names: Sequence[str]) -> np.ndarray | None:
    """Return the ratio of each name (row) beside each name (column), float64 [K, K]; None if the model has no table.

    Ratios are at least ``contention.floor``. A pair that the table lacks is an error, or (``missing`` "unit") 1.
    """
    if contention.model != "table":
        return None
    ratio = read_pairwise(Path(contention.ratios))
    lacking = [(a, b) for a in names for b in names if (a, b) not in ratio]
    if lacking and contention.missing == "error":
        a, b = lacking[0]
        raise ScenarioError(
            f"{contention.ratios}: no ratio for {a!r} beside {b!r} ({len(lacking)} of {len(names) ** 2} ordered pairs "
            "missing): add them, or set missing='unit' to let such pairs run undisturbed"
        )
    return np.array([[max(contention.floor, ratio.get((a, b), 1.0)) for b in names] for a in names])


def read_pairwise(path: Path) -> dict[tuple[str, str], float]:
    """Read a CSV file with a header and the columns ``model_a, model_b, ratio``; other columns are ignored.

    Returns (a, b) -> throughput of a beside b / throughput of a alone, in (0, 1]; that of (b, a) may differ.
    """
    ratio: dict[tuple[str, str], float] = {}
    place_of: dict[tuple[str, str], str] = {}
    for place, row in pair_rows(path, FIELDS):
        a, b, text = (text_of(row, field, place) for field in FIELDS)
        if (a, b) in ratio:
            raise ScenarioError(
                f"{place}: the pair {a!r}, {b!r} is given at {place_of[a, b]} already: keep one of them"
            )
        ratio[a, b], place_of[a, b] = number_of(row, "ratio", place), place
        if not 0.0 < ratio[a, b] <= 1.0:
            raise ScenarioError(
                f"{place}, field 'ratio': {text!r}: expected a throughput ratio in (0, 1], 1 = undisturbed; "
                "a slow-down s is written as 1/s"
            )
    if not ratio:
        raise ScenarioError(f"{path}: no row below the header: give one line for each ordered pair of models")
    return ratio
