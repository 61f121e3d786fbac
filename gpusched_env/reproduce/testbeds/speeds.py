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

from gpusched_env.reproduce.testbeds.reading import Columns, Measured, Points
from gpusched_env.traces.profile_tables.throughput import MEASUREMENT_DTYPE, IterationTime, RingThroughput, Throughput
from gpusched_env.traces.profile_tables.throughput_fitting import fit_pollux, fit_throughput

TIMES: Final = ["step_time", "sync_time"]
SETTINGS: Final = ["machines", "gpus", "batch", "placement"]
Read = Callable[[str, Sequence[str], Callable[[Columns], np.ndarray]], Columns]


def calibrate(measured: Measured) -> dict[str, Any]:
    """Fit the product's present model ("as is") and the ring to the calibration rows of each application."""
    found: dict[str, Any] = {}
    for row in dict.fromkeys(file.split("/")[0] for file in _listed(measured)):
        for group, files in _groups(measured, row).items():
            rows, _ = _gangs(measured.calibration, measured, files, test=False)
            fits = {"as is": fit_pollux(rows), "calibrated": fit_throughput(rows)}
            found.setdefault(row, {})[group] = {column: _rounded(fit) for column, fit in fits.items()}
    return found


def play(row: str, column: str, constants: Mapping[str, Any], measured: Measured) -> list[Points]:
    """Predict the test rows. The floor is by how much two gangs with as many GPUs on their machines differ."""
    if column == "rules":
        return []
    groups: list[str] = []
    predicted, times = [np.empty(0)], [np.empty(0)]
    for group, files in _groups(measured, row).items():
        rows, placements = _gangs(measured.test, measured, files, test=True)
        seconds = rows["iteration_s"]
        if column == "floor":
            first, second = _repeats(rows, placements)
            modelled, seconds = seconds[first], seconds[second]
        else:
            law: type[IterationTime] = RingThroughput if column == "calibrated" else Throughput
            model = law(**constants[row][group][column])
            modelled = model.iteration_s(rows["gpus"], rows["machines"], rows["batch"])
        groups += [group] * len(seconds)
        predicted.append(modelled)
        times.append(seconds)
    return [Points("time [s]", groups, np.concatenate(predicted), np.concatenate(times))] if groups else []


def _listed(measured: Measured) -> list[str]:
    """Return the files ROW/APPLICATION or ROW/APPLICATION/KIND; their ``split`` names a column and its last value.

    A file has a name for each row of the table, because a row's calibration may be another row's test.
    """
    return [file for file, entry in measured.listed.items() if "split" in entry]


def _groups(measured: Measured, row: str) -> dict[str, list[str]]:
    """Return application -> its files."""
    groups: dict[str, list[str]] = {}
    for file in _listed(measured):
        name, group, *_ = file.split("/")
        if name == row:
            groups.setdefault(group, []).append(file)
    return groups


def _gangs(read: Read, measured: Measured, files: Sequence[str], test: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return the MEASUREMENT_DTYPE rows of one side of the split, each once, and the placement of each."""
    by, most = measured.listed[files[0]]["split"]
    if most == "median":
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
                groups.append(f"S3-gavel-{gpu_type}/{family}")
    return _columns(rows, [""] * len(rows)) | {"group": np.array(groups)}


def _columns(rows: Sequence[tuple[float, ...]], placements: Sequence[str]) -> Columns:
    machines, gpus, batch, *times = np.array(rows, float).reshape(-1, 5).T
    settings = dict(zip(SETTINGS, (machines, gpus, batch, np.array(placements)), strict=True))
    return settings | dict(zip(TIMES, times, strict=True))
