"""Pairs of models that share nodes (C1) or a GPU (C2, C3): two numbers per model, fitted to other pairs of them.

A random half of the pairs calibrates, and the other half tests. C3 asks whether the numbers of one GPU type hold for
another; C3-type fits each type's own. The spread of measured slowdowns is the evidence for the defaults of sharing.
"""

from __future__ import annotations

import ast
import dataclasses
import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import numpy as np

from gpusched_env.portable.elementary import log
from gpusched_env.portable.normal import normal_quantile
from gpusched_env.reproduce.testbeds.reading import Columns, Measured, Points, UnplayableError
from gpusched_env.sharing import MEASURED, PairNumbers, Sharing, fit_pairs, model_of

SEEDS: Final = 20
FIT_TYPE, TEST_TYPES = "v100", ("p100", "k80")
NODES: Final = ("victim", "victim_gpus", "aggressor", "aggressor_gpus", "rate")
LUCID: Final = [name + end for end in "12" for name in ("model", "batchsize", "amp", "speed")]
GAVEL: Final = ("gpu_type", "model", "other", "rate")
Pair = tuple[str, str, float]  # model, other model, rate


def gavel_rows(content: bytes) -> Columns:
    """Read pairs of one-GPU jobs that can share a GPU from a throughput file of Gavel; rate beside / rate alone."""
    rows = []
    for gpu_type in (FIT_TYPE, *TEST_TYPES):
        for key, beside in json.loads(content)[gpu_type].items():
            model, gpus = ast.literal_eval(key)
            others = {ast.literal_eval(name): rates for name, rates in beside.items() if name != "null" and gpus == 1}
            rows += [
                (gpu_type, model, name, r[0] / beside["null"]) for (name, g), r in others.items() if g == 1 and r[0]
            ]
    return {name: np.array(column) for name, column in zip(GAVEL, zip(*rows, strict=True), strict=True)}


def _half(seed: int, second: bool, of: str = "") -> Callable[[Columns], np.ndarray]:
    """Choose a random half of the rows, or the other one; of a GPU type, both orders of a pair together."""

    def chosen(table: Columns) -> np.ndarray:
        count, of_row = len(next(iter(table.values()))), None
        if of:
            pairs = np.sort(np.array([table["model"], table["other"]]), axis=0)
            names, of_row = np.unique([f"{a}|{b}" for a, b in pairs.T], return_inverse=True)
            count = len(names)
        is_first = np.zeros(count, bool)
        is_first[np.random.default_rng(seed).permutation(count)[: count // 2]] = True
        rows = is_first if of_row is None else is_first[of_row]
        return (rows != second) & (table["gpu_type"] == of if of else True)

    return chosen


def _of_type(gpu_type: str) -> Callable[[Columns], np.ndarray]:
    return lambda table: table["gpu_type"] == gpu_type


def _node_pairs(t: Columns) -> tuple[list[Pair], list[tuple[int, int]]]:
    sizes = [(int(a), int(b)) for a, b in zip(t["victim_gpus"], t["aggressor_gpus"], strict=True)]
    return list(zip(t["victim"].tolist(), t["aggressor"].tolist(), t["rate"].tolist(), strict=True)), sizes


def _gpu_pairs(t: Columns) -> list[Pair]:
    """Return both orders of each row of Lucid's table; a job is a model with its batch size and precision."""
    a, b = (
        [
            f"{m} ({size:g}{', amp' if amp else ''})"
            for m, size, amp in zip(*(t[c + end] for c in ("model", "batchsize", "amp")), strict=True)
        ]
        for end in "12"
    )
    return [*zip(a, b, t["speed1"].tolist(), strict=True), *zip(b, a, t["speed2"].tolist(), strict=True)]


def _typed_pairs(t: Columns) -> list[Pair]:
    return list(zip(t["model"].tolist(), t["other"].tolist(), t["rate"].tolist(), strict=True))


def calibrate(measured: Measured) -> dict[str, Any]:
    """Fit the numbers of C1 on nodes, and, if the user has the files, of C2, C3 and of the defaults of sharing."""
    first = [_node_pairs(measured.calibration("deepshare_again", NODES, _half(seed, False))) for seed in range(SEEDS)]
    constants: dict[str, Any] = {
        "C1": dataclasses.asdict(fit_pairs(*_node_pairs(measured.calibration("deepshare", NODES, _half(0, False))))),
        "C1-20": [dataclasses.asdict(fit_pairs(*rows)) for rows in first],
    }
    try:
        lucid = _gpu_pairs(measured.calibration("lucid", LUCID, _half(0, False)))
        constants["C2"] = dataclasses.asdict(fit_pairs(lucid))
        gavel = _typed_pairs(measured.calibration("gavel", GAVEL, _of_type(FIT_TYPE)))
        constants["C3"] = dataclasses.asdict(fit_pairs(gavel))
        constants["C3-type"] = {
            of: dataclasses.asdict(fit_pairs(_typed_pairs(measured.calibration("gavel", GAVEL, _half(0, False, of)))))
            for of in TEST_TYPES
        }
        constants["defaults"] = spread([[rate for *_, rate in pairs] for pairs in (lucid, gavel)])
    except UnplayableError:
        pass  # these rows say so when they are played
    return constants


def spread(tables: Iterable[list[float]]) -> dict[str, float]:
    """Return how slowdowns less 1 are distributed over measured tables, which weigh alike, and the best constant xi.

    ``sigma`` follows from the 90th percentile of a log-normal distribution. ``constant`` has the least worst median
    error of a rate over the tables, of the numbers 1, 1.05, ..., 2.
    """
    tables = [np.array(rates) for rates in tables]
    excess = np.concatenate([np.maximum(1.0 / rates - 1.0, 0.0) for rates in tables])
    weight = np.concatenate([np.full(len(rates), 1.0 / len(rates)) for rates in tables])
    order = np.argsort(excess, kind="stable")
    below = np.cumsum(weight[order]) / len(tables)
    median, high = (float(excess[order][np.searchsorted(below, share)]) for share in (0.5, 0.9))
    grid = [1.0 + step / 20 for step in range(21)]
    worst = [max(float(np.median(np.abs(1.0 / (xi * rates) - 1.0))) for rates in tables) for xi in grid]
    sigma = log(high / median) / normal_quantile(0.9)
    return {"median": float(f"{median:.2g}"), "sigma": float(f"{sigma:.2g}"), "constant": grid[int(np.argmin(worst))]}


def play(row: str, column: str, constants: Mapping[str, Any], measured: Measured) -> list[Points]:
    """Predict the rates of pairs of a row under a column."""
    known = constants.get(row)
    if row == "C1-20":
        halves = [_node_pairs(measured.test("deepshare_again", NODES, _half(s, True))) for s in range(SEEDS)]
        tested = [pair for pairs, _ in halves for pair in pairs]
        fits = [PairNumbers(**numbers) for numbers in known]
        found = [
            f.rate(a, b, *g)
            for f, (pairs, gpus) in zip(fits, halves, strict=True)
            for (a, b, _), g in zip(pairs, gpus, strict=True)
        ]
        return [_points("rate", tested, found)] if column == "calibrated" else []
    if row == "C1":
        tested, gpus = _node_pairs(measured.test("deepshare", NODES, _half(0, True)))
        if column == "as is":  # without a network model, gangs do not slow each other down
            return [_points("rate", tested, [1.0] * len(tested))]
        if column == "calibrated":
            numbers = PairNumbers(**known)
            return [
                _points("rate", tested, [numbers.rate(a, b, *g) for (a, b, _), g in zip(tested, gpus, strict=True)])
            ]
        return [_points("rate", tested, _same_models(tested))] if column == "floor" else []
    if row == "C2":
        return _play_lucid(column, known, measured)
    return [points for of in TEST_TYPES for points in _play_type(row, of, column, known, measured)]


def _points(quantity: str, tested: list[Pair], predicted: list[float]) -> Points:
    groups = [" | ".join(sorted((model_of(a), model_of(b)))) for a, b, _ in tested]
    return Points(quantity, groups, np.array(predicted), np.array([rate for *_, rate in tested]))


def _same_models(tested: list[Pair]) -> list[float]:
    """Return the median rate of the other gangs of the same two models: what no numbers of models can better."""
    return [
        float(np.median([r for j, (*pair, r) in enumerate(tested) if j != i and pair == own] or [np.nan]))
        for i, (*own, _) in enumerate(tested)
    ]


def _default(tested: list[Pair]) -> list[Points]:
    xi = float(Sharing().source.xi)  # type: ignore[attr-defined]
    drawn = [1.0 / MEASURED.xi(model_of(a), model_of(b)) for a, b, _ in tested]
    return [_points("rate", tested, [1.0 / xi] * len(tested)), _points("rate, drawn", tested, drawn)]


def _play_lucid(column: str, known: Mapping[str, Any], measured: Measured) -> list[Points]:
    tested = _gpu_pairs(measured.test("lucid", LUCID, _half(0, True)))
    if column == "as is":
        return _default(tested)
    if column == "calibrated":
        numbers = PairNumbers(**known)
        return [_points("rate", tested, [numbers.rate(a, b) for a, b, _ in tested])]
    if column == "rules":
        alone = measured.test("lucid_alone", ["model", "batchsize", "amp", "gpu_util"], lambda t: t["amp"] >= 0)
        use = {f"{m} ({s:g}{', amp' if a else ''})": u / 100 for m, s, a, u in zip(*alone.values(), strict=True)}
        return [_points("rate", tested, [min(1.0, 1.0 / (use[a] + use[b])) for a, b, _ in tested])]
    half = len(tested) // 2
    twice = [at for at in range(half) if tested[at][0] == tested[at][1]]  # two equal jobs: one rate, measured twice
    return [_points("rate", [tested[at] for at in twice], [tested[at + half][2] for at in twice])]


def _play_type(row: str, of: str, column: str, known: Mapping[str, Any], measured: Measured) -> list[Points]:
    tested, part = _typed_pairs(measured.test("gavel", GAVEL, _half(0, True, of))), f"rate, {of.upper()}"
    if column == "as is":
        return [_points(part, tested, _default(tested)[0].predicted.tolist())]
    if column == "rules":  # the two jobs take turns
        return [_points(part, tested, [0.5] * len(tested))]
    if column == "calibrated":
        numbers = PairNumbers(**(known if row == "C3" else known[of]))
        return [_points(part, tested, [numbers.rate(a, b) for a, b, _ in tested])]
    again = {(a, b): rate for a, b, rate in _typed_pairs(measured.test("gavel_physical", GAVEL, _of_type(of)))}
    return [_points(part, tested, [again.get((a, b), np.nan) for a, b, _ in tested])]
