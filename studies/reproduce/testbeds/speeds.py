"""Step times beyond what was measured: Pollux (S1), Sia (S2), ElasticFlow and Gavel (S3)."""

from __future__ import annotations

import ast
import csv
import dataclasses
import io
import json
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

import numpy as np

from gpusched_env.traces.profile_tables.throughput import Throughput
from studies.profile_tables.measurements import MEASUREMENT_DTYPE, WIDER, RingThroughput
from studies.profile_tables.throughput_fitting import fit_pollux, fit_throughput
from studies.reproduce.testbeds.reading import Columns, Measured, Points, UnplayableError

SETTINGS: Final = ("machines", "gpus", "batch", "placement")
TIMES: Final = ("step_time", "sync_time")


def calibrate(measured: Measured) -> dict[str, Any]:
    """Fit the product's present model ("as is") and the ring to the calibration rows of each application."""
    found: dict[str, Any] = {}
    for row, groups in _files(measured).items():
        split = measured.rows[row]["split"]
        try:
            for group, files in groups.items():
                rows, _ = _gangs(partial(measured.calibration, row=row), split, files, test=False)
                fits = {"as is": _rounded(fit_pollux(rows)), "calibrated": _rounded(fit_throughput(rows))}
                found.setdefault(row, {})[group] = fits
        except UnplayableError:
            continue  # nor can its test be played, which says why
    return found


def _rounded(fit: Throughput | RingThroughput) -> dict[str, Any]:
    values = dataclasses.asdict(fit).items()
    return {name: float(f"{value:.4g}") if isinstance(value, float) else list(value) for name, value in values}


def play(row: str, column: str, constants: Mapping[str, Any], measured: Measured) -> list[Points]:
    """Predict the test rows. The floor is by how much two gangs with as many GPUs on their machines differ.

    If the calibration does not tell of the network, no time is predicted (NaN), except on a condition, which is a part.
    If it does not tell what limits two machines, both ends of what is possible are parts.
    """
    found: dict[str, list[tuple[str, float, float]]] = defaultdict(list)
    for group, files in _files(measured)[row].items() if column != "rules" else ():
        rows, placements = _gangs(measured.test, measured.rows[row]["split"], files, test=True)
        seconds = rows["iteration_s"]
        cases: dict[str, np.ndarray] = {}
        models: dict[str, Throughput | RingThroughput] = {}
        if column == "floor":
            first, second = _repeats(rows, placements)
            cases, seconds = {"": seconds[first]}, seconds[second]
        elif column == "as is":
            models = {"": Throughput(**constants[row][group][column])}
        else:
            ring = RingThroughput(**constants[row][group][column])
            models = {"": ring}
            if "network_s" in ring.unknown:
                cases, models = {"": np.full(len(rows), np.nan)}, {", network as fast as a machine": ring}
            elif "wider" in ring.unknown and (rows["machines"] > 2).any():
                for part, wider in zip((", paths limit", ", cards limit"), WIDER, strict=True):
                    models[part] = dataclasses.replace(ring, wider=wider)
        cases |= {part: one.iteration_s(rows["gpus"], rows["machines"], rows["batch"]) for part, one in models.items()}
        for part, times in cases.items():
            found[part] += [(group, *pair) for pair in zip(times, seconds, strict=True)]
    each = {part: list(zip(*values, strict=True)) for part, values in found.items() if values}
    return [Points(f"time [s]{part}", g, np.array(p), np.array(m)) for part, (g, p, m) in each.items()]


def _files(measured: Measured) -> dict[str, dict[str, list[str]]]:
    """Return row -> application -> its files, which are named FOLDER/APPLICATION...; the row's entry has the folder."""
    rows: dict[str, dict[str, list[str]]] = {}
    for row, entry in measured.rows.items():
        for file in measured.listed if entry["family"] == "speeds" else ():
            folder, _, name = file.partition("/")
            if folder == entry["folder"]:
                rows.setdefault(row, {}).setdefault(name.partition("/")[0], []).append(file)
    return rows


def _gangs(
    read: Callable[..., Columns], split: Mapping[str, Any], files: Sequence[str], test: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Return the MEASUREMENT_DTYPE rows of one side of the split, each once, and the placement of each.

    ``split`` : a column -> its largest value in the calibration, or "median" = that of all batches
    """
    ((by, most),) = split.items()
    if most == "median":
        every = [read(file, ["batch"], lambda table: np.ones(len(table["batch"]), bool))["batch"] for file in files]
        most = float(np.median(np.unique(np.concatenate(every))))

    def chosen(table: Columns) -> np.ndarray:
        side: np.ndarray = (table[by] > most) == test
        return side & (table["group"] == files[0]) if "group" in table else side

    tables = [read(file, [*SETTINGS, *TIMES], chosen) for file in files]
    columns = {name: np.concatenate([table[name] for table in tables]) for name in (*SETTINGS, *TIMES)}
    placements = columns.pop("placement")
    rows = np.array(list(zip(*columns.values(), strict=True)), MEASUREMENT_DTYPE)
    rows, first = np.unique(rows, return_index=True)  # some files of Sia have rows in common
    return rows, placements[first]


def _repeats(rows: np.ndarray, placements: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return pairs of rows that were measured at one batch, with the same numbers of GPUs on machines in any order."""
    order = np.lexsort((rows["batch"], placements))
    where, batch = placements[order], rows["batch"][order]
    same = (where[1:] == where[:-1]) & (batch[1:] == batch[:-1]) & (where[1:] != "")
    return order[:-1][same], order[1:][same]


def measured_gangs(content: bytes) -> Columns:
    """Read placements.csv (a digit for each machine) or scalability.csv of Pollux or Sia."""
    rows = []
    for row in csv.DictReader(io.StringIO(content.decode())):
        digits = "".join(sorted(row.get("placement", "")))
        gang = (len(digits), sum(map(int, digits))) if digits else (int(row["num_nodes"]), int(row["num_replicas"]))
        rows.append((*gang, float(row["local_bsz"]), digits, *(float(row[name]) for name in TIMES)))
    return _columns(rows)


def elasticflow_rates(content: bytes, on_machine: int) -> Columns:
    """Read iterations a second of global batches; a gang is on as few machines as hold it."""
    rows = []
    for row in csv.DictReader(io.StringIO(content.decode())):
        samples = float(row.pop("global_batch_size"))
        for gpus, rate in ((int(name), float(text or "nan")) for name, text in row.items()):
            if rate > 0:
                rows.append((-(-gpus // on_machine), gpus, samples / gpus, "", 1 / rate, np.nan if gpus > 1 else 0.0))
    return _columns(rows)


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
            family, _, batch = model.rstrip(")").partition(" (batch size ")
            if batch and others["null"] > 0 and not (apart and gpus == 1):
                sync_s = np.nan if gpus > 1 else 0.0
                rows.append((2 if apart else 1, gpus, float(batch), "", gpus / others["null"], sync_s))
                groups.append(f"S3-gavel-{gpu_type}/{family}")
    return _columns(rows) | {"group": np.array(groups)}


def _columns(rows: Sequence[tuple[Any, ...]]) -> Columns:
    columns = zip((*SETTINGS, *TIMES), zip(*rows, strict=True), strict=True)
    return {name: np.array(values, str if name == "placement" else float) for name, values in columns}
