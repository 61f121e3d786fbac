"""Conversion of actions to delay timers: from numbers in [-1, 1] per demand class to seconds per demand."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from gpusched_env.errors import GpuschedError
from gpusched_env.portable import arrays
from gpusched_env.portable.elementary import log
from gpusched_env.problem.cluster import Cluster

if TYPE_CHECKING:
    from gpusched_env.baselines.dally.run import DelayRun

SHORTEST_S: Final = 60.0  # [s] shortest timer that is not 0
SPAN: Final = 10_080.0  # longest finite timer / shortest: a week of minutes
OFF: Final = 0.05  # fraction of the range at each end: the lower one means 0, the upper one infinity
RESIDUAL_BASE: Final = 16.0  # in residual mode, an action of 1 multiplies a timer by this
_INSIDE: Final = 1e-6  # margin by which a minute is not read as 0, nor a week as infinite
DEMAND_CLASSES: Final = (2, 4, 8, 16, 32)  # [GPU] largest demand of each class but the last; one GPU has no class


def timer_seconds(action: np.ndarray) -> np.ndarray:
    """float64, same shape: timers [s]; 0 up to an action of -0.9, infinite from 0.9 on, logarithmic between."""
    values = np.asarray(action, float)
    if not (np.abs(values) <= 1.0).all():
        raise GpuschedError(f"action {values.tolist()}: every value must lie in [-1, 1]")
    share = (values + 1.0) / 2.0
    seconds = SHORTEST_S * arrays.power(SPAN, (share - OFF) / (1.0 - 2.0 * OFF))
    return np.where(share <= OFF, 0.0, np.where(share >= 1.0 - OFF, math.inf, seconds))


def timer_action(seconds: np.ndarray | Sequence[float]) -> np.ndarray:
    """float64, same shape: the action that gives a timer [s]; 0 and inf are exact, others are clipped to 1 min..7 d."""
    wanted = np.asarray(seconds, float)
    if np.isnan(wanted).any() or (wanted < 0).any():
        raise GpuschedError(f"timers {wanted.tolist()}: give seconds >= 0, inf = wait for ever")
    length = arrays.log(np.clip(wanted, SHORTEST_S, SHORTEST_S * SPAN) / SHORTEST_S) / log(SPAN)
    share = OFF + (1.0 - 2.0 * OFF) * np.clip(length, _INSIDE, 1.0 - _INSIDE)
    return np.where(wanted == 0, -1.0, np.where(np.isinf(wanted), 1.0, 2.0 * share - 1.0))


class TimerActions:
    """Actions [D, 2] for D demand classes on one cluster.

    Parameters
    ----------
    cluster : its machines and racks decide which demands exceed a machine or a rack
    classes : [GPU] largest demand of each class but the last, which has no bound; the first class begins at 2
    residual : True = an action multiplies the hand tuner's timers; False = it replaces them

    Attributes
    ----------
    class_of : int64 [G + 1], class of each demand; -1 for demands of 0 and 1
    machine_gpus, rack_gpus : [GPU] in the largest machine and in the largest rack
    """

    def __init__(self, cluster: Cluster, classes: Sequence[int] = DEMAND_CLASSES, residual: bool = False) -> None:
        bounds = [int(bound) for bound in classes]
        if not bounds or bounds[0] < 2 or bounds != sorted(set(bounds)):
            raise GpuschedError(f"classes {tuple(classes)}: give strictly ascending demands of at least 2 GPUs")
        self.classes, self.residual = tuple(bounds), residual
        self.count = len(bounds) + 1
        self.gpus = cluster.gpus
        self.machine_gpus, self.rack_gpus = int(cluster.nodes["gpus"].max()), int(cluster.racks["gpus"].max())
        demands = np.arange(cluster.gpus + 1)
        self.class_of = np.where(demands < 2, -1, np.searchsorted(bounds, demands, side="left"))
        self._has_class = self.class_of >= 0
        self._class = np.maximum(self.class_of, 0)
        self._beyond_machine = demands > self.machine_gpus

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of an action: (number of classes, 2 timers: rack and network)."""
        return self.count, 2

    def checked(self, action: object) -> np.ndarray:
        """Return an action as float64 [D, 2], clipped to [-1, 1]; a GpuschedError for another shape, or NaN."""
        try:
            values = np.asarray(action, float)
        except (TypeError, ValueError) as error:
            raise GpuschedError(f"action {action!r}: give numbers of shape {self.shape}") from error
        if values.shape != self.shape:
            raise GpuschedError(f"action has shape {values.shape}: it must be {self.shape} (demand classes, timers)")
        if np.isnan(values).any():
            raise GpuschedError(f"action {values.tolist()} contains NaN; check the policy that returned it")
        return np.clip(values, -1.0, 1.0)

    def waits(self, action: object) -> np.ndarray:
        """float64 [G + 1, 2] [s]: rack and network timer of each demand; 0 for demands of one GPU.

        The action gives the network timer as an additional wait after the rack timer, so that the network timer never
        expires first. A gang larger than a machine takes a rack at once, so its network timer is only that wait.
        """
        seconds = timer_seconds(self.checked(action))[self._class]
        waits = np.empty((self.gpus + 1, 2))
        waits[:, 0] = seconds[:, 0]
        waits[:, 1] = np.where(self._beyond_machine, seconds[:, 1], seconds[:, 0] + seconds[:, 1])
        waits[~self._has_class] = 0.0
        return waits

    def factors(self, action: object) -> np.ndarray:
        """float64 [G + 1, 2]: factors of the hand tuner's timers in residual mode; 1 for demands of one GPU."""
        factors = arrays.power(RESIDUAL_BASE, self.checked(action))[self._class]
        factors[~self._has_class] = 1.0
        return factors

    def carry_out(self, action: object, run: DelayRun) -> None:
        """Set a run's timers, or in residual mode the factors of the hand tuner's timers."""
        if self.residual:
            run.factors[:] = self.factors(action)
            run.tune_by_hand()
        else:
            run.waits_s[:] = self.waits(action)
