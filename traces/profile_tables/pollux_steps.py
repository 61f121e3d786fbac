"""Make the table of measured steps from the files of Pollux (Qiao et al., OSDI 2021)."""

from __future__ import annotations

import math
from collections import defaultdict
from pathlib import Path
from typing import Any, Final

import numpy as np

from gpusched_env.traces.parsing.fields import Place
from gpusched_env.traces.parsing.streams import csv_rows
from gpusched_env.traces.profile_tables.application import Application
from gpusched_env.traces.profile_tables.goodput import gain
from gpusched_env.traces.profile_tables.pollux import GRADIENTS, application, gpus_on, trainings
from gpusched_env.traces.profile_tables.steps import UNITS, StepTable

MOST_GPUS: Final = 64  # [GPU] largest gang
NODE_GPUS: Final = 4  # [GPU] of a machine
MOST_NODES: Final = 16  # the authors look up a gang of more machines as one of 16
TIMES: Final = ("step_time", "sync_time")
Measured = dict[str, dict[int, tuple[float, float]]]  # placement -> samples on a GPU -> step time, sync time [s]


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
        "gpusched traces fit-profiles pollux-steps traces",
        "T4",
        {name: _application(source / name, name) for name in GRADIENTS},
        {name: _steps(source / name) for name in GRADIENTS},
    )


def placement_of(gpus: int, machines: int) -> tuple[int, ...]:
    """Return the GPUs on each machine of a gang, ascending: as few machines as hold it; two or more if not local."""
    if machines == 1:
        return (gpus,)
    if gpus <= NODE_GPUS:
        return (gpus // 2, gpus - gpus // 2)
    rest = gpus % NODE_GPUS
    return (*([rest] if rest else []), *[NODE_GPUS] * (gpus // NODE_GPUS))


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
    for place, (nodes, gpus, batch, *seconds) in csv_rows(folder / "scalability.csv", (*columns, *TIMES)):
        step_s, sync_s = map(place.seconds, TIMES, seconds)
        if step_s > 0:
            units = ("machines", "GPUs", "samples")
            where = [place.whole(*field) for field in zip(columns, (nodes, gpus, batch), units, strict=True)]
            table.append((*where, step_s, sync_s))
    known = np.array(table)
    return np.unique(known[:, 2]), LinearNDInterpolator(known[:, :3], known[:, 3:])


def _placements(folder: Path) -> Measured:
    measured: Measured = defaultdict(dict)
    for place, (placement, batch, *seconds) in csv_rows(folder / "placements.csv", ("placement", "local_bsz", *TIMES)):
        gpus_on(place, placement)
        step_s, sync_s = map(place.seconds, TIMES, seconds)
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


def _application(folder: Path, name: str) -> Application:
    """Count the iterations at each batch, from what each epoch of the trainings tells."""
    epochs = trainings(folder, ("progress", "grad_sqr", "grad_var"), _number)
    progress = np.diff(np.min([rows[:, 0] for rows in epochs.values()], axis=0), prepend=0.0)
    counts = {}
    for batch, rows in epochs.items():
        worth = [float(gain(square, variance, batch / min(epochs))) for _, square, variance in rows]
        counts[batch] = [round(count, 1) for count in np.cumsum(progress / worth).tolist()]
    return application(name, counts)
