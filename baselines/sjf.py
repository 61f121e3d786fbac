"""Shortest job first and smallest service first: non-preemptive orders by size."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np

from gpusched_env.baselines.estimates import EstimatingScheduler, is_strict
from gpusched_env.errors import SchedulerError, unknown_name
from gpusched_env.simulator import ClusterView, Decision

KEYS: Final = ("time", "gpu-time")


@dataclass
class ShortestJobFirst(EstimatingScheduler):
    """Start waiting jobs in order of run time, or of gang size x run time; never preempt.

    Parameters
    ----------
    key : "time" = SJF; "gpu-time" = SSF
    strict : the first job that does not fit blocks all behind it (default: skip it)
    placement : placement rule of all jobs

    Notes
    -----
    Ties by arrival, then id. The scenario's ``queue`` overrides ``strict``. O(waiting log waiting) a decision point.
    """

    key: str = "time"
    strict: bool = False
    placement: str = "pack"

    def __post_init__(self) -> None:
        """Check the key."""
        super().__post_init__()
        if self.key not in KEYS:
            raise SchedulerError(unknown_name("key", self.key, KEYS))

    @property
    def name(self) -> str:
        """Name: sjf or ssf."""
        return "sjf" if self.key == "time" else "ssf"

    def decide(self, view: ClusterView) -> Iterable[Decision]:
        """Start whatever fits, smallest first."""
        waiting = view.waiting
        if not len(waiting) or view.free_gpus == 0:
            return []
        size = self.remaining_s(view, waiting)
        if self.key == "gpu-time":
            size = size * view.gpus[waiting]
        order = waiting[np.argsort(size, kind="stable")]
        return view.list_schedule(order, self.placement, is_strict(view, self.strict))
