"""Step times beyond what was measured: Pollux (S1), Sia (S2), ElasticFlow and Gavel (S3)."""

from __future__ import annotations

import ast
import csv
import dataclasses
import io
import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

import numpy as np

from gpusched_env.reproduce.testbeds.reading import Chosen, Columns, Measured, Points, UnplayableError
from gpusched_env.traces.profile_tables.throughput import (
    MEASUREMENT_DTYPE,
    WIDER,
    IterationTime,
    RingThroughput,
    Throughput,
)
from gpusched_env.traces.profile_tables.throughput_fitting import fit_pollux, fit_throughput

TIMES: Final = ["step_time", "sync_time"]
SETTINGS: Final = ["machines", "gpus", "batch", "placement"]
MEDIAN: Final = np.nan  # stands for the median of the measured batches
# Row -> its files are named FOLDER/APPLICATION...; a column, and its largest value in the calibration
SPLITS: Final = {
    "S1-one-machine": ("T4", "machines", 1),
    "S1-two-machines": ("T4", "machines", 2),
    "S1-gpus": ("T4", "gpus", 8),
    "S1-batch": ("T4", "batch", MEDIAN),
    "S2-rtx-one-machine": ("RTX2080Ti", "machines", 1),
    "S2-rtx-two-machines": ("RTX2080Ti", "machines", 2),
    "S2-rtx-gpus": ("RTX2080Ti", "gpus", 8),
    "S2-rtx-batch": ("RTX2080Ti", "batch", MEDIAN),
    "S2-a100-one-machine": ("A100", "machines", 1),
    "S2-a100-gpus": ("A100", "gpus", 8),
    "S2-a100-batch": ("A100", "batch", MEDIAN),
    "S3-elasticflow-a100": ("elasticflow-A100", "gpus", 8),
    "S3-elasticflow-t4": ("elasticflow-T4", "gpus", 8),
    "S3-gavel-v100": ("gavel-v100", "gpus", 4),
    "S3-gavel-p100": ("gavel-p100", "gpus", 4),
    "S3-gavel-k80": ("gavel-k80", "gpus", 4),
}
Read = Callable[[str, Sequence[str], Chosen], Columns]


def calibrate(measured: Measured) -> dict[str, Any]:
    """Fit the product's present model ("as is") and the ring to the calibration rows of each application."""
    found: dict[str, Any] = {}
    for row in SPLITS:
        try:
            for group, files in _groups(measured, row).items():
                rows, _ = _gangs(partial(measured.calibration, row=row), row, files, test=False)
                fits = {"as is": fit_pollux(rows), "calibrated": fit_throughput(rows)}
                found.setdefault(row, {})[group] = {column: _rounded(fit) for column, fit in fits.items()}
        except UnplayableError:
            continue  # so is its test, which says why
    return found


def play(row: str, column: str, constants: Mapping[str, Any], measured: Measured) -> list[Points]:
    """Predict the test rows. The floor is by how much two gangs with as many GPUs on their machines differ.

    If the calibration does not tell of the network, no time is predicted (NaN), except on a condition, which is a part.
    If it does not tell what limits two machines, both ends of what is possible are parts.
    """
    if column == "rules":
        return []
    found: dict[str, list[tuple[str, np.ndarray, np.ndarray]]] = {}
    for group, files in _groups(measured, row).items():
        rows, placements = _gangs(measured.test, row, files, test=True)
        seconds = rows["iteration_s"]
        if column == "floor":
            first, second = _repeats(rows, placements)
            cases, seconds = {"": seconds[first]}, seconds[second]
        else:
            law: type[IterationTime] = RingThroughput if column == "calibrated" else Throughput
            cases = _cases(law(**constants[row][group][column]), rows)
        for part, modelled in cases.items():
            found.setdefault(part, []).append((group, modelled, seconds))
    return [
        Points(
            f"time [s]{part}",
            [group for group, _, seconds in each for _ in seconds],
            np.concatenate([modelled for _, modelled, _ in each]),
            np.concatenate([seconds for _, _, seconds in each]),
        )
        for part, each in found.items()
    ]


def _cases(model: IterationTime, rows: np.ndarray) -> dict[str, np.ndarray]:
    """Return part of the quantity -> predicted times [s]."""

    def times(one: IterationTime) -> np.ndarray:
        return one.iteration_s(rows["gpus"], rows["machines"], rows["batch"])

    if not isinstance(model, RingThroughput):
        return {"": times(model)}
    if "network_s" in model.unknown and (rows["machines"] > 1).any():
        return {"": np.full(len(rows), np.nan), ", network as fast as a machine": times(model)}
    cases = {"": times(model)}
    if "wider" in model.unknown and (rows["machines"] > 2).any():
        for part, wider in zip((", paths limit", ", cards limit"), WIDER, strict=True):
            cases[part] = times(dataclasses.replace(model, wider=wider))
    return cases


def _groups(measured: Measured, row: str) -> dict[str, list[str]]:
    """Return application -> its files."""
    groups: dict[str, list[str]] = {}
    for file in measured.listed:
        folder, _, name = file.partition("/")
        if folder == SPLITS[row][0]:
            groups.setdefault(name.partition("/")[0], []).append(file)
    return groups


def _gangs(read: Read, row: str, files: Sequence[str], test: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return the MEASUREMENT_DTYPE rows of one side of the split, each once, and the placement of each."""
    _, by, most = SPLITS[row]
    if np.isnan(most):
        most = np.median(np.unique(np.concatenate([read(file, ["batch"], _every)["batch"] for file in files])))

    def chosen(table: Columns) -> np.ndarray:
        side: np.ndarray = (table[by] > most) == test
        return side & (table["group"] == files[0]) if "group" in table else side

    tables = [read(file, [*SETTINGS, *TIMES], chosen) for file in files]
    columns = {name: np.concatenate([table[name] for table in tables]) for name in [*SETTINGS, *TIMES]}
    placements = columns.pop("placement")
    rows = np.empty(len(placements), MEASUREMENT_DTYPE)
    for name, values in zip(MEASUREMENT_DTYPE.names or (), columns.values(), strict=True):
        rows[name] = values
    rows, first = np.unique(rows, return_index=True)  # some files of Sia have rows in common
    return rows, placements[first]


def _every(table: Columns) -> np.ndarray:
    return np.ones(len(table["batch"]), bool)


def _repeats(rows: np.ndarray, placements: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return pairs of rows that were measured at one batch, with the same numbers of GPUs on machines in any order."""
    order = np.lexsort((rows["batch"], placements))
    where, batch = placements[order], rows["batch"][order]
    same = (where[1:] == where[:-1]) & (batch[1:] == batch[:-1]) & (where[1:] != "")
    return order[:-1][same], order[1:][same]


def _rounded(fit: IterationTime) -> dict[str, Any]:
    values = dataclasses.asdict(fit)  # type: ignore[call-overload]
    return {name: float(f"{value:.4g}") if isinstance(value, float) else list(value) for name, value in values.items()}


def measured_gangs(content: bytes) -> Columns:
    """Read placements.csv (a digit for each machine) or scalability.csv of Pollux or Sia."""
    rows, placements = [], []
    for row in csv.DictReader(io.StringIO(content.decode())):
        digits = row.get("placement", "")
        gang = (len(digits), sum(map(int, digits))) if digits else (int(row["num_nodes"]), int(row["num_replicas"]))
        placements.append("".join(sorted(digits)) or f"{gang[0]} machines, {gang[1]} GPUs")
        rows.append((*gang, *(float(row[name]) for name in ("local_bsz", *TIMES))))
    return _columns(rows, placements)


def elasticflow_rates(content: bytes, on_machine: int) -> Columns:
    """Read iterations a second of global batches; a gang is on as few machines as hold it."""
    rows = []
    for row in csv.DictReader(io.StringIO(content.decode())):
        samples = float(row.pop("global_batch_size"))
        for gpus, rate in ((int(name), float(text or "nan")) for name, text in row.items()):
            if rate > 0:
                rows.append((-(-gpus // on_machine), gpus, samples / gpus, 1 / rate, np.nan if gpus > 1 else 0.0))
    return _columns(rows, [""] * len(rows))


a100_rates: Final = partial(elasticflow_rates, on_machine=8)
t4_rates: Final = partial(elasticflow_rates, on_machine=4)


def gavel_rates(content: bytes) -> Columns:
    """Read the rates of jobs alone. They count the steps of all GPUs; gangs that are apart are on two or more machines.

    A step of 10 samples on each of 8 V100 would else take an eighth of the time that it takes on one.
    """
    rows, groups = [], []
    for name, jobs in json.loads(content).items():
        gpu_type, _, apart = name.partition("_")
        for key, others in jobs.items():
            model, gpus = ast.literal_eval(key)
            family, _, batch = model.partition(" (batch size ")
            rate = others["null"]
            if batch and rate > 0 and not (apart and gpus == 1):
                sync_s = np.nan if gpus > 1 else 0.0
                rows.append((2 if apart else 1, gpus, float(batch.rstrip(")")), gpus / rate, sync_s))
                groups.append(f"gavel-{gpu_type}/{family}")
    return _columns(rows, [""] * len(rows)) | {"group": np.array(groups)}


def _columns(rows: Sequence[tuple[float, ...]], placements: Sequence[str]) -> Columns:
    machines, gpus, batch, *times = np.array(rows, float).reshape(-1, 5).T
    settings = dict(zip(SETTINGS, (machines, gpus, batch, np.array(placements)), strict=True))
    return settings | dict(zip(TIMES, times, strict=True))
