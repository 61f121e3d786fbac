"""Tables from the measurements of Pollux (Qiao et al., OSDI 2021) and Sia (Jayaram Subramanya et al., SOSP 2023).

Models are fitted to the times of iterations of both; the steps that Pollux's simulator looks up are tabulated.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from gpusched_env.errors import TraceError
from gpusched_env.traces.parsing.fields import Place
from gpusched_env.traces.parsing.streams import csv_rows
from gpusched_env.traces.profile_tables.application import Application, Fit
from gpusched_env.traces.profile_tables.fitted import FittedTable
from gpusched_env.traces.profile_tables.goodput import gain
from gpusched_env.traces.profile_tables.steps import NODE_GPUS, UNITS, StepTable, placement_of
from gpusched_env.traces.profile_tables.throughput import Throughput
from studies.profile_tables.measurements import KINDS, MEASUREMENT_DTYPE, is_measurement, kinds, relative_errors
from studies.profile_tables.throughput_fitting import fit_pollux

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
FOLDS: Final = 5  # number of folds of the cross-validation
PARTS: Final = 10  # equal parts of a training whose iterations are stored
DIGITS: Final = 6  # significant digits of a fitted parameter
ERROR_DECIMALS: Final = 4
MOST_GPUS: Final = 64  # [GPU] largest gang
MOST_NODES: Final = 16  # the authors look up a gang of more machines as one of 16
Measured = dict[str, dict[int, tuple[float, float]]]  # placement -> samples on a GPU -> step time, sync time [s]


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
        "python -m studies.profile_tables pollux traces",
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
        f"python -m studies.profile_tables {name} traces",
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
    throughput = fit_pollux(rows, robust)
    rounded = Throughput(*(float(f"{value:.{DIGITS}g}") for value in dataclasses.astuple(throughput)))
    found, kind = relative_errors(rounded, rows), kinds(rows)
    groups = {"all": found} | {name: found[kind == k] for k, name in enumerate(KINDS)}
    groups["held out"] = held_out_errors(rows, robust)
    batch = LARGEST_BATCH.get((gpu_type, folder.name), int(rows["batch"].max()))
    local = int(rows["gpus"][rows["machines"] == 1].max(initial=1))
    return Fit(rounded, batch, local, {name: _summary(errors) for name, errors in groups.items() if len(errors)})


def held_out_errors(rows: np.ndarray, robust: bool = False) -> np.ndarray:
    """Return the relative errors of predicted iteration times across machines, by cross-validation; float64 [H].

    The pairs (machines, gang size) with more than one machine are sorted and dealt in turn into five folds. For each
    fold, a model is fitted to the measurements of all other pairs and predicts those of the fold. The result is empty
    if there are fewer than two such pairs.
    """
    pairs, of_row = np.unique(rows[["machines", "gpus"]], return_inverse=True)
    spread = np.flatnonzero(pairs["machines"] > 1)
    errors = [np.empty(0)]
    for fold in range(min(FOLDS, len(spread)) if len(spread) > 1 else 0):
        out = np.isin(of_row, spread[fold::FOLDS])
        errors.append(relative_errors(fit_pollux(rows[~out], robust), rows[out]))
    return np.concatenate(errors)


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


def pollux_steps(source: Path) -> StepTable:
    """Tabulate the steps that Pollux's simulator looks up, for every gang of up to 64 T4 on as few machines as hold it.

    A gang of several machines has four GPUs on each but one. If its placement was measured, its times are those
    measurements; else they are interpolated linearly over machines, GPUs and batch, as the authors do, in all
    measurements (a Delaunay triangulation by SciPy). A batch outside is left out.

    The iterations of an application at a batch are the sum over epochs of progress / worth of an iteration. The worth
    follows from the squared norm and the variance of the gradients that were measured in the epoch. As in the authors'
    simulator, the progress at the end of an epoch is the smallest one over the trained batches.
    """
    return StepTable(
        "pollux-steps",
        "petuum/adaptdl, branch osdi21-artifact, simulator/traces; Qiao et al., OSDI 2021",
        "Apache-2.0",
        "python -m studies.profile_tables pollux-steps traces",
        "T4",
        {name: _measured_application(source / name, name) for name in GRADIENTS},
        {name: _steps(source / name) for name in GRADIENTS},
    )


def _steps(folder: Path) -> dict[tuple[int, int], np.ndarray]:
    """Return (machines, GPUs) -> rows, see StepTable."""
    measured = _placements(folder)
    known, between = _interpolator(folder, measured)
    found = {}
    for machines, gangs in ((1, range(1, NODE_GPUS + 1)), (2, range(2, MOST_GPUS + 1))):
        for gpus in gangs:
            placement = placement_of(gpus, machines)
            own = measured.get("".join(map(str, placement)))
            if own is not None:
                rows = np.array([(batch, *times) for batch, times in sorted(own.items())])
            else:
                nodes = min(len(placement), MOST_NODES)
                where = np.column_stack([np.full(len(known), nodes), np.full(len(known), gpus), known])
                rows = np.column_stack([known, between(where)])
                rows = rows[np.isfinite(rows).all(axis=1)]
            if len(rows):
                rows[:, 1] -= rows[:, 2]
                found[machines, gpus] = np.round(rows.T * np.array(UNITS)[:, None]) / np.array(UNITS)[:, None]
    return found


def _interpolator(folder: Path, measured: Measured) -> tuple[np.ndarray, Any]:
    """Return the measured batches, and a function from rows (machines, GPUs, batch) to step and sync times [s]."""
    from scipy.interpolate import LinearNDInterpolator

    points: dict[tuple[int, int, int], list[tuple[float, float]]] = defaultdict(list)
    for name, rows in measured.items():
        for samples, times in rows.items():
            points[len(name), sum(map(int, name)), samples].append(times)
    table = [(*key, *np.mean(times, axis=0)) for key, times in points.items()]
    columns = ("num_nodes", "num_replicas", "local_bsz")
    for place, (nodes, gpus, batch, *seconds) in csv_rows(folder / "scalability.csv", (*columns, *TIMES[1:])):
        step_s, sync_s = map(place.seconds, TIMES[1:], seconds)
        if step_s > 0:
            units = ("machines", "GPUs", "samples")
            where = [place.whole(*field) for field in zip(columns, (nodes, gpus, batch), units, strict=True)]
            table.append((*where, step_s, sync_s))
    known = np.array(table)
    return np.unique(known[:, 2]), LinearNDInterpolator(known[:, :3], known[:, 3:])


def _placements(folder: Path) -> Measured:
    measured: Measured = defaultdict(dict)
    for place, (placement, batch, *seconds) in csv_rows(
        folder / "placements.csv", ("placement", "local_bsz", *TIMES[1:])
    ):
        gpus_on(place, placement)
        step_s, sync_s = map(place.seconds, TIMES[1:], seconds)
        if step_s > 0:
            measured[placement][place.whole("local_bsz", batch, "samples")] = (step_s, sync_s)
    return measured


def _number(place: Place, field: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        place.refuse(field, text, "expected a finite number >= 0; correct the row")
    return value


def _measured_application(folder: Path, name: str) -> Application:
    """Count the iterations at each batch, from what each epoch of the trainings tells."""
    epochs = trainings(folder, ("progress", "grad_sqr", "grad_var"), _number)
    progress = np.diff(np.min([rows[:, 0] for rows in epochs.values()], axis=0), prepend=0.0)
    counts = {}
    for batch, rows in epochs.items():
        worth = [float(gain(square, variance, batch / min(epochs))) for _, square, variance in rows]
        counts[batch] = [round(count, 1) for count in np.cumsum(progress / worth).tolist()]
    return application(name, counts)
