"""Fit models to the measurements of Pollux (Qiao et al., OSDI 2021) and Sia (Jayaram Subramanya et al., SOSP 2023)."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

import numpy as np

from gpusched_env.errors import TraceError
from gpusched_env.traces.parsing.fields import Place
from gpusched_env.traces.parsing.streams import csv_rows
from gpusched_env.traces.profile_tables.application import Application, Fit
from gpusched_env.traces.profile_tables.fitted import FittedTable
from gpusched_env.traces.profile_tables.throughput import KINDS, MEASUREMENT_DTYPE, Throughput, is_measurement, kinds
from gpusched_env.traces.profile_tables.throughput_fitting import fit_throughput, held_out_errors

# Bytes of all gradients in single precision, and bytes of the largest tensor / bytes of all tensors. Both are computed
# from the definitions of the models (petuum/adaptdl, branch osdi21-artifact, benchmark/models): BERT-base with a head
# for question answering, ResNet-18, Deep Speech 2 (5 bidirectional GRU layers of 800), ResNet-50, NeuMF on
# MovieLens-1M, YOLOv3 for 20 classes.
GRADIENTS: Final = {
    "bert": (4.38e8, 0.214),
    "cifar10": (4.47e7, 0.211),
    "deepspeech2": (1.65e8, 0.0764),
    "imagenet": (1.02e8, 0.0923),
    "ncf": (6.41e6, 0.482),
    "yolov3": (2.47e8, 0.0766),
}
# Largest batch per GPU in the simulators of Pollux and Sia, where it is below the largest measured batch [samples]
LARGEST_BATCH: Final = {("T4", "yolov3"): 8, ("RTX2080Ti", "deepspeech2"): 57}
SIA_TYPES: Final = {"A100": "-dgx-ext", "QuadroRTX6000": "-quad", "RTX2080Ti": "-rtx"}  # GPU type -> file name suffix
TIMES: Final = ("local_bsz", "step_time", "sync_time")
PARTS: Final = 10  # equal parts of a training whose iterations are stored
DIGITS: Final = 6  # significant digits of a fitted parameter
ERROR_DECIMALS: Final = 4


def pollux_table(source: Path) -> FittedTable:
    """Fit models to the measurements of Pollux on 16 machines with 4 T4 each.

    ``placements.csv`` and ``scalability.csv`` give the seconds of an iteration (``step_time``) and the part of this
    time in which a GPU waits for the gradients of the others (``sync_time``). ``validation-BATCH.csv`` gives the number
    of iterations up to each epoch. A job is complete after the largest number of epochs that was trained at every batch
    size.
    """
    return FittedTable(
        "pollux",
        "petuum/adaptdl, branch osdi21-artifact, simulator/traces; Qiao et al., OSDI 2021",
        "Apache-2.0",
        "gpusched traces fit-profiles pollux traces",
        {name: _application(source / name, name) for name in GRADIENTS},
        {"T4": {name: _fit(source / name, "T4", "") for name in GRADIENTS}},
    )


def sia_table(source: Path, robust: bool = False) -> FittedTable:
    """Fit models to the measurements of Sia on three more GPU types.

    The applications are those of Pollux, and this table does not repeat them. ``gpt_pmp`` is not read, because it is
    trained with pipeline parallelism and the model that is fitted describes data-parallel training.
    """
    name = "sia-robust" if robust else "sia"
    return FittedTable(
        name,
        "fitted to siasosp23/artifacts, sia-simulator/traces; Jayaram Subramanya et al., SOSP 2023",
        "not stated; fitted parameters only",
        f"gpusched traces fit-profiles {name} traces",
        {},
        {
            gpu_type: {app: _fit(source / app, gpu_type, suffix, robust) for app in GRADIENTS}
            for gpu_type, suffix in SIA_TYPES.items()
        },
    )


def _fit(folder: Path, gpu_type: str, suffix: str, robust: bool = False) -> Fit:
    spread = _measurements(folder / f"placements{suffix}.csv", "placement")
    more = _measurements(folder / f"scalability{suffix}.csv", "num_nodes", "num_replicas")
    rows = np.unique(np.concatenate([spread, more]))  # both files of Sia have some rows in common
    throughput = fit_throughput(rows, robust)
    rounded = Throughput(*(float(f"{value:.{DIGITS}g}") for value in dataclasses.astuple(throughput)))
    found, kind = rounded.relative_errors(rows), kinds(rows)
    groups = {"all": found} | {name: found[kind == k] for k, name in enumerate(KINDS)}
    groups["held out"] = held_out_errors(rows, robust)
    batch = LARGEST_BATCH.get((gpu_type, folder.name), int(rows["batch"].max()))
    local = int(rows["gpus"][rows["machines"] == 1].max(initial=1))
    return Fit(rounded, batch, local, {name: _summary(errors) for name, errors in groups.items() if len(errors)})


def _summary(errors: np.ndarray) -> tuple[int, float, float]:
    median, p90 = np.quantile(errors, [0.5, 0.9]).round(ERROR_DECIMALS).tolist()
    return len(errors), median, p90


def _measurements(path: Path, *gang: str) -> np.ndarray:
    """Read measurements; ``gang`` names the column of a digit per machine, or those of machines and GPUs."""
    rows = []
    for place, (batch, iteration, sync, *where) in csv_rows(path, [*TIMES, *gang]):
        if len(gang) == 1:
            on = gpus_on(place, where[0])
            machines, gpus = len(on), sum(on)
        else:
            machines, gpus = map(place.whole, gang, where, ("machines", "GPUs"))
        samples = place.whole("local_bsz", batch, "samples")
        times = place.seconds("step_time", iteration), place.seconds("sync_time", sync)
        row = np.array((machines, gpus, samples, *times), MEASUREMENT_DTYPE)
        if not is_measurement(row):
            place.refuse("step_time", iteration, "expected more than sync_time, of samples on a GPU of every machine")
        rows.append(row)
    if not rows:
        raise TraceError(f"{path}: no measurements; fetch the file again")
    return np.array(rows, MEASUREMENT_DTYPE)


def _application(folder: Path, name: str) -> Application:
    counts = {batch: rows[:, 0].tolist() for batch, rows in trainings(folder, ("iteration",), _iterations).items()}
    return application(name, counts)


def _iterations(place: Place, field: str, text: str) -> float:
    return place.amount(field, text, "iterations")


def trainings(folder: Path, columns: Sequence[str], read: Callable[[Place, str, str], float]) -> dict[int, np.ndarray]:
    """Return batch -> columns of the epochs that were trained at all batch sizes, float64 [epochs, columns]."""
    found: dict[int, np.ndarray] = {}
    for path in folder.glob("validation-*.csv"):
        if name := re.fullmatch(r"validation-([1-9]\d*)\.csv", path.name):
            rows = csv_rows(path, columns)
            cells = [list(map(read, [place] * len(columns), columns, texts)) for place, texts in rows]
            found[int(name[1])] = np.array(cells)
    epochs = min(map(len, found.values()), default=0)
    if not epochs:
        raise TraceError(f"{folder}: no validation-BATCH.csv there, or one without rows; give the folder above it")
    return {batch: found[batch][:epochs] for batch in sorted(found)}


def application(name: str, counts: Mapping[int, Sequence[float]]) -> Application:
    """Make an application of the iterations to the end of each epoch, by batch; up to ten parts are kept."""
    epochs = len(next(iter(counts.values())))
    parts = min(PARTS, epochs)
    ends = [epochs * (part + 1) // parts - 1 for part in range(parts)]
    milestones = {batch: tuple(each[end] for end in ends) for batch, each in counts.items()}
    return Application(name, {batch: each[-1] for batch, each in milestones.items()}, *GRADIENTS[name], milestones)


def gpus_on(place: Place, placement: str) -> list[int]:
    """Return the GPUs on each machine of a placement."""
    if not re.fullmatch("[1-9]+", placement):
        place.refuse("placement", placement, "expected a digit from 1 to 9 for each machine; correct the row")
    return list(map(int, placement))
