"""Measured times of a training step: by application, number of GPUs, one machine or several, and batch on a GPU."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from gpusched_env.portable.arrays import interpolated
from gpusched_env.traces.profile_tables.application import Application
from gpusched_env.traces.profile_tables.fitted import read_application
from gpusched_env.traces.profile_tables.profile_table import ProfileTable

NODE_GPUS: Final = 4  # [GPU] of a machine
UNITS: Final = (1.0, 1e6, 1e6)  # samples and seconds in the units of the file


@dataclass(frozen=True)
class StepTable(ProfileTable):
    """Table of measured steps of one publication, on one GPU type.

    ``steps`` : name -> (machines, GPUs) -> float64 [3, n]: samples on a GPU, ascending; time of the gradients [s]; time
    of the synchronisation that does not overlap with them [s]. 2 machines stand for several, of four GPUs each.
    """

    gpu_type: str
    applications: Mapping[str, Application]
    steps: Mapping[str, Mapping[tuple[int, int], np.ndarray]]

    SHIPPED = ("pollux-steps",)

    def seconds(self, application: str, gpus: int, machines: int, batch: int) -> tuple[float, float] | None:
        """Return the gradient and synchronisation time of a step [s], linear in the batch; None = outside."""
        rows = self.steps[application].get((min(machines, 2), gpus))
        if rows is None or not rows[0, 0] <= batch <= rows[0, -1]:
            return None
        return float(interpolated(batch, rows[0], rows[1])), float(interpolated(batch, rows[0], rows[2]))

    def timing(self, application: str, gpus: int, machines: int) -> StepTiming:
        """Return the times of one gang as a function of the batch."""
        return StepTiming(self.steps[application].get((min(machines, 2), gpus)))

    @classmethod
    def _fields(cls, data: Any) -> dict[str, Any]:
        applications = {name: read_application(name, row) for name, row in data["applications"].items()}
        steps = {
            name: {_gang(key): _rows(rows) for key, rows in gangs.items()} for name, gangs in data["steps"].items()
        }
        if set(steps) != set(applications):
            raise ValueError("other applications have steps than are described")
        return {"gpu_type": str(data["gpu_type"]), "applications": applications, "steps": steps}


load_steps = functools.cache(StepTable.load)


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


def _gang(key: str) -> tuple[int, int]:
    machines, gpus = map(int, key.split())
    return machines, gpus


def _rows(rows: Any) -> np.ndarray:
    found = np.array(rows, float) / np.array(UNITS)[:, None]
    if (np.diff(found[0]) <= 0).any() or (found[:2] <= 0).any() or (found[2] < 0).any():
        raise ValueError("batches must ascend, and times be positive")
    return found


def placement_of(gpus: int, machines: int) -> tuple[int, ...]:
    """Return the GPUs on each machine of a gang, ascending: as few machines as hold it; two or more if not local."""
    if machines == 1:
        return (gpus,)
    if gpus <= NODE_GPUS:
        return (gpus // 2, gpus - gpus // 2)
    rest = gpus % NODE_GPUS
    return (*([rest] if rest else []), *[NODE_GPUS] * (gpus // NODE_GPUS))
