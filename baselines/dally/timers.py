"""Classes that set the timers of a delay scheduler."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

import numpy as np

from gpusched_env.baselines.dally.state import NETWORK_TIMER, RACK_TIMER
from gpusched_env.errors import SchedulerError

if TYPE_CHECKING:
    from gpusched_env.baselines.dally.run import DelayRun


_ROWS: Final = re.compile(r"\d+(:([\d.]+|inf)){2}(/\d+(:([\d.]+|inf)){2})*")


class Timers(Protocol):
    """Set ``run.waits_s``, the times that a gang of each size waits before it accepts a rack, and the network [s]."""

    interval_s: float  # [s] between two calls of ``tune``; inf = it is never called
    by_hand: bool  # True = the compiled hand tuner sets the timers at each recorded wait

    def begin(self, run: DelayRun) -> None:
        """Set the timers before the first event."""

    def tune(self, run: DelayRun) -> None:
        """Set the timers; called every ``interval_s`` of simulated time, before the decisions of that time."""


class HandTimers:
    """The authors' auto-tuner, which computes the timers from recorded waits (docs/dally.md, "The rules")."""

    interval_s = math.inf
    by_hand = True

    def begin(self, run: DelayRun) -> None:
        """Start from empty histories."""
        run.tune_by_hand()

    def tune(self, run: DelayRun) -> None:
        """Do nothing, because the kernels set the timers."""


class TableTimers:
    """Constant timers by gang size, from rows ``(gpus, rack_s, network_s)``.

    Each gang size uses the first row whose ``gpus`` is at least this size; larger gangs use the last row.
    """

    interval_s = math.inf
    by_hand = False

    def __init__(self, rows: np.ndarray) -> None:
        table = np.asarray(rows, np.float64)
        if table.ndim != 2 or table.shape[1:] != (3,) or not len(table):
            raise SchedulerError("timers: give rows of gang size, wait for a rack [s], wait for the network [s]")
        if (np.diff(table[:, 0]) <= 0).any() or not (table[:, 1:] >= 0).all():
            raise SchedulerError("timers: gang sizes must ascend, and waits must be >= 0 (inf = until a tighter place)")
        self.rows = table

    @classmethod
    def load(cls, path: str) -> TableTimers:
        """Read rows from a JSON file, in which null is an infinite wait, or from a text ``GPUS:RACK:NETWORK/...``."""
        if _ROWS.fullmatch(path):
            return cls(np.array([[float(value) for value in row.split(":")] for row in path.split("/")]))
        try:
            rows = json.loads(Path(path).read_text(encoding="utf-8"))
            table = np.array([[math.inf if value is None else float(value) for value in row] for row in rows])
        except (OSError, ValueError, TypeError) as error:
            raise SchedulerError(
                f"timers {path!r}: neither a JSON file with a list of [gang size, rack wait, network wait] in seconds "
                f"nor such rows, as in 8:900:inf/256:0:3600 ({error})"
            ) from error
        return cls(table)

    def begin(self, run: DelayRun) -> None:
        """Set the timers of each gang size from the row that applies to it."""
        gangs = np.arange(len(run.waits_s))
        row = np.minimum(np.searchsorted(self.rows[:, 0], gangs), len(self.rows) - 1)
        run.waits_s[:, RACK_TIMER] = self.rows[row, 1]
        run.waits_s[:, NETWORK_TIMER] = self.rows[row, 2]

    def tune(self, run: DelayRun) -> None:
        """Do nothing: the timers are constant."""
