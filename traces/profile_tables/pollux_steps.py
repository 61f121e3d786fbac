"""Make the table of measured steps from the files of Pollux (Qiao et al., OSDI 2021)."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path
from typing import Final

import numpy as np

from gpusched_env.errors import TraceError
from gpusched_env.traces.parsing.streams import csv_rows
from gpusched_env.traces.profile_tables.application import Application
from gpusched_env.traces.profile_tables.goodput import gain
from gpusched_env.traces.profile_tables.pollux import GRADIENTS, PARTS
from gpusched_env.traces.profile_tables.step_times import UNITS, StepTable

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

    The iterations of an application at a batch are the progress of each epoch / the worth of an iteration, which follows
    from the squared norm and the variance of the measured gradients in this epoch. As in the authors' simulator, the
    progress of an epoch is the smallest one over the trained batches.

    Raises
    ------
    TraceError : a file is absent or malformed
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
    """Return the number of GPUs on each machine of a gang, as few machines as hold it; two or more if ``machines`` > 1.

    The smallest number comes first, as in the names of measured placements.
    """
    if machines == 1:
        return (gpus,)
    if gpus <= NODE_GPUS:
        return (gpus // 2, gpus - gpus // 2)
    rest = gpus % NODE_GPUS
    return (*([rest] if rest else []), *[NODE_GPUS] * (gpus // NODE_GPUS))


def _steps(folder: Path) -> dict[tuple[int, int], np.ndarray]:
    """Return (machines, GPUs) -> rows, see StepTable."""
    from scipy.interpolate import LinearNDInterpolator

    measured, points = _placements(folder), defaultdict(list)
    for placement, rows in measured.items():
        for batch, times in rows.items():
            points[len(placement), sum(map(int, placement)), batch].append(times)
    table = [(*key, *np.mean(times, axis=0)) for key, times in points.items()]
    for place, (nodes, gpus, batch, *seconds) in csv_rows(
        folder / "scalability.csv", ("num_nodes", "num_replicas", "local_bsz", *TIMES)
    ):
        step_s, sync_s = map(place.seconds, TIMES, seconds)
        if step_s > 0:
            table.append((*map(int, (nodes, gpus, batch)), step_s, sync_s))
    known = np.array(table)
    between = LinearNDInterpolator(known[:, :3], known[:, 3:])
    batches = np.unique(known[:, 2])
    found = {}
    for machines, gangs in ((1, range(1, NODE_GPUS + 1)), (2, range(2, MOST_GPUS + 1))):
        for gpus in gangs:
            placement = placement_of(gpus, machines)
            name = "".join(map(str, placement))
            if name in measured:
                rows = np.array([(batch, *times) for batch, times in sorted(measured[name].items())])
            else:
                where = np.column_stack([np.full((len(batches), 2), (min(len(placement), MOST_NODES), gpus)), batches])
                rows = np.column_stack([batches, between(where)])
                rows = rows[np.isfinite(rows).all(axis=1)]
            if len(rows):
                rows[:, 1] -= rows[:, 2]
                found[machines, gpus] = np.round(rows.T * np.array(UNITS)[:, None]) / np.array(UNITS)[:, None]
    return found


def _placements(folder: Path) -> Measured:
    measured: Measured = defaultdict(dict)
    for place, (placement, batch, *seconds) in csv_rows(
        folder / "placements.csv", ("placement", "local_bsz", *TIMES)
    ):
        if not re.fullmatch("[1-9]+", placement):
            place.refuse("placement", placement, "expected a digit from 1 to 9 for each machine; correct the row")
        step_s, sync_s = map(place.seconds, TIMES, seconds)
        if step_s > 0:
            measured[placement][place.whole("local_bsz", batch, "samples")] = (step_s, sync_s)
    return measured


def _application(folder: Path, name: str) -> Application:
    """Read what each epoch of the trainings tells, and count the iterations at each batch by tenths of the training."""
    epochs: dict[int, np.ndarray] = {}
    for path in folder.glob("validation-*.csv"):
        if match := re.fullmatch(r"validation-([1-9]\d*)\.csv", path.name):
            columns = ("progress", "grad_sqr", "grad_var")
            rows = csv_rows(path, columns)
            epochs[int(match[1])] = np.array([[float(text) for text in values] for _, values in rows])
    count = min(map(len, epochs.values()), default=0)
    if not count:
        raise TraceError(f"{folder}: no validation-BATCH.csv there, or one without rows; give the folder above it")
    initial = min(epochs)
    progress = np.diff(np.min([rows[:count, 0] for rows in epochs.values()], axis=0), prepend=0.0)
    parts = min(PARTS, count)
    ends = [count * (part + 1) // parts - 1 for part in range(parts)]
    milestones = {}
    for batch in sorted(epochs):
        worth = [float(gain(square, variance, batch / initial)) for _, square, variance in epochs[batch][:count]]
        done = np.cumsum(progress / worth)
        milestones[batch] = tuple(round(float(done[end]), 1) for end in ends)
    return Application(name, {batch: each[-1] for batch, each in milestones.items()}, *GRADIENTS[name], milestones)
