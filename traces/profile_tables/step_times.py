"""Measured times of a training step: by application, number of GPUs, one machine or several, and batch on a GPU."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from gpusched_env.errors import WorkloadError
from gpusched_env.portable.arrays import interpolated
from gpusched_env.traces.profile_tables.application import Application
from gpusched_env.traces.profile_tables.fitted_files import read_application, written_rows
from gpusched_env.traces.profile_tables.json_files import (
    WORDS,
    block,
    not_as_written,
    shipped_text,
    write_table,
    written_text,
)

STEP_TABLES: Final = ("pollux-steps",)  # shipped beside this file as NAME.json


@dataclass(frozen=True)
class StepTable:
    """Table of measured steps of one publication, on one GPU type.

    ``steps`` : name -> (machines, GPUs) -> float64 [3, n]: samples on a GPU, ascending; time of the gradients [s]; time
    of the synchronisation that does not overlap with them [s]. 2 machines stand for several, of four GPUs each.
    """

    name: str
    source: str
    licence: str
    made: str
    gpu_type: str
    applications: Mapping[str, Application]
    steps: Mapping[str, Mapping[tuple[int, int], np.ndarray]]

    def seconds(self, application: str, gpus: int, machines: int, batch: int) -> tuple[float, float] | None:
        """Return the gradient and synchronisation time of a step [s], linear in the batch; None = outside."""
        rows = self.steps[application].get((min(machines, 2), gpus))
        if rows is None or not rows[0, 0] <= batch <= rows[0, -1]:
            return None
        return float(interpolated(batch, rows[0], rows[1])), float(interpolated(batch, rows[0], rows[2]))

    def timing(self, application: str, gpus: int, machines: int) -> StepTiming:
        """Return the times of one gang as a function of the batch."""
        return StepTiming(self.steps[application].get((min(machines, 2), gpus)))


@dataclass(frozen=True)
class StepTiming:
    """The measured times of one gang, linear between measured batches; ``rows`` as in StepTable, None = none."""

    rows: np.ndarray | None

    def gradient_s(self, batch: np.ndarray) -> np.ndarray:
        """Return the time to compute the gradients of ``batch`` samples on each GPU [s]; see :meth:`iteration_s`."""
        return np.ones(len(batch)) if self.rows is None else interpolated(batch, self.rows[0], self.rows[1])

    def iteration_s(self, gpus: int, machines: int, batch: np.ndarray) -> np.ndarray:
        """Return the time of a step of ``batch`` samples on each GPU [s]; inf outside the measured batches."""
        if self.rows is None:
            return np.full(len(batch), np.inf)
        known = (batch >= self.rows[0, 0]) & (batch <= self.rows[0, -1])
        return np.where(known, interpolated(batch, self.rows[0], self.rows[1] + self.rows[2]), np.inf)


@functools.cache
def load_steps(name: str) -> StepTable:
    """Load a table of this package."""
    return _table(shipped_text(name, STEP_TABLES), name)


def read_steps(path: str | Path) -> StepTable:
    """Read a table that :func:`write_steps` wrote."""
    return _table(written_text(path), str(path))


def write_steps(table: StepTable, path: Path) -> None:
    """Write a table atomically, times in microseconds, a line for each application and gang; equal bytes if equal."""
    steps = {}
    for name, gangs in table.steps.items():
        whole = {
            f"{machines} {gpus}": [
                [round(v * unit) for v in row.tolist()] for row, unit in zip(found, UNITS, strict=True)
            ]
            for (machines, gpus), found in gangs.items()
        }
        steps[name] = block({gang: json.dumps(rows) for gang, rows in whole.items()})
    write_table(path, table, {"applications": written_rows(table.applications), "steps": steps}, ("gpu_type",))


UNITS: Final = (1.0, 1e6, 1e6)  # samples and seconds in the units of the file


def _table(text: str, where: str) -> StepTable:
    try:
        data = json.loads(text)
        applications = {name: read_application(name, row) for name, row in data["applications"].items()}
        steps = {
            name: {_gang(key): _rows(rows) for key, rows in gangs.items()} for name, gangs in data["steps"].items()
        }
        if set(steps) != set(applications):
            raise ValueError("other applications have steps than are described")
        called, source, licence, made, gpu_type = (str(data[key]) for key in (*WORDS, "gpu_type"))
        return StepTable(called, source, licence, made, gpu_type, applications, steps)
    except WorkloadError as error:
        raise WorkloadError(f"{where}: {error}") from error
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise not_as_written(where, error) from error


def _gang(key: str) -> tuple[int, int]:
    machines, gpus = map(int, key.split())
    return machines, gpus


def _rows(rows: Any) -> np.ndarray:
    found = np.array(rows, float) / np.array(UNITS)[:, None]
    if (np.diff(found[0]) <= 0).any() or (found[:2] <= 0).any() or (found[2] < 0).any():
        raise ValueError("batches must ascend, and times be positive")
    return found
