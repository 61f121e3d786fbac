"""Pairs of models that share nodes (C1) or a GPU (C2, C3): two numbers per model, fitted to other pairs of them.

A random half of the pairs calibrates, and the other half tests; in the rows -models, all gangs or batch sizes of a pair
of models are on one side. C3 asks whether the numbers of a V100 hold for other GPU types, C3-type fits those of each.
"""

from __future__ import annotations

import ast
import csv
import io
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from gpusched_env.sharing import PairNumbers, PairRate, fit_pairs, model_of
from gpusched_env.sharing.interference import MEASURED_XI
from studies.reproduce.testbeds.reading import Columns, Measured, Points, UnplayableError

FIELDS: Final = PairRate._fields


def node_rows(content: bytes) -> Columns:
    """Read DeepShare's pairs of gangs."""
    rows = csv.DictReader(io.StringIO(content.decode()))
    return _columns([(n, "", row["victim"], row["aggressor"], row["rate"]) for n, row in enumerate(rows)])


def lucid_rows(content: bytes) -> Columns:
    """Read both rates of each of Lucid's pairs; a job is a model with its batch size and precision."""
    rows: list[tuple[Any, ...]] = []
    for n, row in enumerate(csv.DictReader(io.StringIO(content.decode()))):
        a, b = (f"{row['model' + end]} ({row['batchsize' + end]}, {row['amp' + end]})" for end in "12")
        rows += [(n, "", a, b, row["speed1"]), (n, "", b, a, row["speed2"])]
    return _columns(rows)


def gavel_rows(content: bytes) -> Columns:
    """Read the pairs of one-GPU jobs that can share a GPU from a throughput file of Gavel."""
    rows = []
    for gpu_type in ("v100", "p100", "k80"):
        for key, beside in json.loads(content)[gpu_type].items():
            (a, gpus), alone = ast.literal_eval(key), beside.pop("null")
            for name, rates in beside.items() if gpus == 1 and alone > 0 else ():
                b = ast.literal_eval(name)[0]
                rows += [("|".join(sorted((a, b))), gpu_type.upper(), a, b, rates[0] / alone)] * (rates[0] > 0)
    return _columns(rows)


def _columns(rows: Sequence[tuple[Any, ...]]) -> Columns:
    names = {"pair": None, "gpu_type": None, "model": None, "other": None, "rate": float}
    columns = zip(names.items(), zip(*rows, strict=True), strict=True)
    table = {name: np.array(column, kind) for (name, kind), column in columns}
    return table | {"models": np.array([_models(*both) for both in zip(table["model"], table["other"], strict=True)])}


def _models(model: str, other: str) -> str:
    return "|".join(sorted((model_of(model), model_of(other))))


def _split(entry: Mapping[str, Any]) -> tuple[str, str, list[tuple[str, int]]]:
    """Return the file, the column whose values are halved, and GPU type and seed of each half."""
    split = entry["split"]
    return split["file"], split["by"], [(one, seed) for one in split["types"] for seed in range(split["seeds"])]


def _chosen(
    gpu_type: str, seed: int | None = None, second: bool = False, by: str = "pair"
) -> Callable[[Columns], np.ndarray]:
    """Choose the rows of a random half of the pairs of a GPU type, of the second half, or, without a seed, of all."""

    def chosen(table: Columns) -> np.ndarray:
        here: np.ndarray = table["gpu_type"] == gpu_type
        if seed is None:
            return here
        pairs = np.unique(table[by][here])
        half = np.random.default_rng(seed).permutation(len(pairs))[: len(pairs) // 2]
        return here & (np.isin(table[by], pairs[half]) != second)

    return chosen


def _rates(table: Columns) -> list[PairRate]:
    return [PairRate(*row) for row in zip(*(table[name].tolist() for name in FIELDS), strict=True)]


def calibrate(measured: Measured) -> dict[str, Any]:
    """Fit two numbers per model for each half of each row whose file is there."""
    constants: dict[str, Any] = {}
    for row, entry in measured.rows.items():
        if entry["family"] != "colocation" or entry["split"]["file"] not in measured.listed:
            continue
        file, by, halves = _split(entry)
        other = [_chosen(gpu_type) for gpu_type in entry["split"].get("calibrate", ())]
        chosen = other * len(halves) or [_chosen(gpu_type, seed, by=by) for gpu_type, seed in halves]
        try:
            halved = (_rates(measured.calibration(file, FIELDS, rows, row)) for rows in chosen)
            constants[row] = [fit_pairs(rates)._asdict() for rates in halved]
        except UnplayableError:
            continue  # the row says so when it is played
    return constants


def play(row: str, column: str, constants: Mapping[str, Any], measured: Measured) -> list[Points]:
    """Predict the rates of the pairs of a row under a column."""
    file, by, halves = _split(measured.rows[row])
    found: dict[str, tuple[list[PairRate], list[float]]] = {}
    for number, (gpu_type, seed) in enumerate(halves):
        tested = _rates(measured.test(file, FIELDS, _chosen(gpu_type, seed, second=True, by=by)))
        values: list[float] = []
        if column == "calibrated":
            numbers = PairNumbers(**constants[row][number])
            values = [numbers.rate(r.model, r.other) for r in tested]
        elif file in UNFITTED:
            values = UNFITTED[file](column, tested, gpu_type, measured)
        kept = [(r, value) for r, value in zip(tested, values, strict=bool(values)) if value == value]
        rates, predicted = found.setdefault("rate" + f", {gpu_type}" * bool(gpu_type), ([], []))
        rates += [r for r, _ in kept]
        predicted += [value for _, value in kept]
    points = []
    for quantity, (rates, predicted) in found.items():
        groups = [_models(*r[:2]) for r in rates]
        points += [Points(quantity, groups, np.array(predicted), np.array([r.rate for r in rates]))] * bool(predicted)
    return points


def _of_nodes(column: str, tested: list[PairRate], gpu_type: str, measured: Measured) -> list[float]:
    """As is: without a network model, gangs do not slow each other down. Floor: other gangs of the same two models."""
    if column == "floor":
        others = [[s.rate for s in tested if s[:2] == r[:2] and s is not r] for r in tested]
        return [float(np.median(rates or [np.nan])) for rates in others]
    return [1.0] * len(tested) if column == "as is" else []


def _of_lucid(column: str, tested: list[PairRate], gpu_type: str, measured: Measured) -> list[float]:
    """Rules: the sum of the two utilisations alone. Floor: two equal jobs, whose two rates measure one thing."""
    if column == "as is":
        return [1.0 / MEASURED_XI] * len(tested)
    if column == "floor":
        twice = zip(tested[::2], tested[1::2], strict=True)
        return [s.rate if r.model == r.other else np.nan for pair in twice for r, s in (pair, pair[::-1])]
    alone = measured.test("lucid_alone", ("model", "batchsize", "amp", "gpu_util"), lambda t: t["amp"] >= 0)
    use = {f"{m} ({size:g}, {amp:g})": used / 100 for m, size, amp, used in zip(*alone.values(), strict=True)}
    return [min(1.0, 1.0 / (use[r.model] + use[r.other])) for r in tested]


def _of_gavel(column: str, tested: list[PairRate], gpu_type: str, measured: Measured) -> list[float]:
    """Rules: the two jobs take turns. Floor: Gavel's other table, in which the rates alone were measured again."""
    if column != "floor":
        return [1.0 / MEASURED_XI if column == "as is" else 0.5] * len(tested)
    again = {r[:2]: r.rate for r in _rates(measured.test("gavel_physical", FIELDS, _chosen(gpu_type)))}
    return [again.get(r[:2], np.nan) for r in tested]


UNFITTED: Final = {"deepshare": _of_nodes, "lucid": _of_lucid, "gavel": _of_gavel}
