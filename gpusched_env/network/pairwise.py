"""Pairwise interference: a table of measured ratios gives the rate of a model beside another model.

The rules follow gajagajago/deepshare, scheduler/cluster_env.py. The user must supply the table; the package has none.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Final

import numpy as np

from gpusched_env.errors import ScenarioError
from gpusched_env.network.contention import Contention
from gpusched_env.sharing.csv_pairs import number_of, pair_rows, text_of
from gpusched_env.sharing.pair_numbers import FLEET, NUMBERS, PairNumbers, PairRate, predicted

FIELDS: Final = ("model_a", "model_b", "ratio")
WANTED: Final = "a throughput ratio in (0, 1], 1 = undisturbed; a slow-down s is written as 1/s"


def ratio_matrix(contention: Contention, names: Sequence[str]) -> np.ndarray | None:
    """Return the ratio of each name (row) beside each name (column), float64 [K, K]; None if the model has no table.

    Ratios are at least ``contention.floor``. The model ``*`` of the table stands for those without an entry. A pair
    that the table lacks is an error, or (``missing`` "unit") 1, or ("fit") predicted by two numbers per model; then
    only a pair of a model that is in no row is an error.
    """
    if contention.model != "table":
        return None
    ratio = read_pairwise(Path(contention.ratios))
    measured = {pair: rate for pair, rate in ratio.items() if FLEET not in pair}
    for a, b in product(names, names):
        if given := [ratio[key] for key in product((a, FLEET), (b, FLEET)) if key in ratio]:
            ratio[a, b] = given[0]
    lacking = [pair for pair in product(names, names) if pair not in ratio]
    listed = {name for pair in measured for name in pair if contention.missing == "fit"}
    if contention.missing != "unit" and (unknown := [pair for pair in lacking if not listed.issuperset(pair)]):
        a, b = unknown[0]
        raise ScenarioError(
            f"{contention.ratios}: no ratio for {a!r} beside {b!r} ({len(lacking)} of {len(names) ** 2} ordered pairs "
            "missing): add them, or set missing='unit' to let such pairs run undisturbed, or 'fit' to predict those of "
            "models that are in some row"
        )
    if lacking and contention.missing == "fit":
        ratio |= predicted(contention.ratios, [PairRate(*pair, rate) for pair, rate in measured.items()], lacking)
    return np.array([[max(contention.floor, ratio.get((a, b), 1.0)) for b in names] for a in names])


def read_pairwise(path: Path) -> dict[tuple[str, str], float]:
    """Read a CSV file with a header and the columns ``model_a, model_b, ratio``; other columns are ignored.

    Or the columns are ``model, sensitivity, aggressiveness`` (gpusched_env.sharing.pair_numbers).
    Returns (a, b) -> throughput of a beside b / throughput of a alone, in (0, 1]; that of (b, a) may differ.
    """
    ratio: dict[tuple[str, str], float] = {}
    place_of: dict[tuple[str, str], str] = {}
    numbers = PairNumbers({}, {})
    for place, row in pair_rows(path, FIELDS, NUMBERS):
        if "ratio" not in row:
            numbers.add(row, place)
            continue
        a, b, _ = (text_of(row, field, place) for field in FIELDS)
        if (a, b) in ratio:
            raise ScenarioError(
                f"{place}: the pair {a!r}, {b!r} is given at {place_of[a, b]} already: keep one of them"
            )
        ratio[a, b], place_of[a, b] = number_of(row, "ratio", place, math.ulp(0.0), 1.0, WANTED), place
    ratio |= numbers.rates()
    if not ratio:
        raise ScenarioError(f"{path}: no row below the header: give one line for each ordered pair of models")
    return ratio
