"""How an action becomes delay timers: numbers in [-1, 1] for each demand class, seconds for each demand."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from gpusched_env.cluster import Cluster
from gpusched_env.errors import GpuschedError
from gpusched_env.portable import arrays
from gpusched_env.portable.elementary import log

if TYPE_CHECKING:
    from gpusched_env.baselines.dally.run import DelayRun

SHORTEST_S: Final = 60.0  # [s] shortest timer that is not 0
SPAN: Final = 10_080.0  # longest finite timer / shortest: a week of minutes
OFF: Final = 0.05  # share of the range at either end that stands for 0 and for infinity
RESIDUAL_BASE: Final = 16.0  # in residual mode an action of 1 makes a timer so many times as long
_INSIDE: Final = 1e-6  # keeps a minute from reading as 0, and a week as infinite
DEMAND_CLASSES: Final = (2, 4, 8, 16, 32)  # [GPU] largest demand of each class but the last; gangs of one GPU have none


def timer_seconds(action: np.ndarray) -> np.ndarray:
    """float64, same shape: seconds of one timer [s]; 0 up to -0.9, infinite from 0.9 on, logarithmic between.

    Raises
    ------
    GpuschedError : a value outside [-1, 1], or NaN
    """
    values = np.asarray(action, float)
    if not (np.abs(values) <= 1.0).all():
        raise GpuschedError(f"action {values.tolist()}: every value must lie in [-1, 1]")
    share = (values + 1.0) / 2.0
    seconds = SHORTEST_S * arrays.power(SPAN, (share - OFF) / (1.0 - 2.0 * OFF))
    return np.where(share <= OFF, 0.0, np.where(share >= 1.0 - OFF, math.inf, seconds))


def timer_action(seconds: np.ndarray | Sequence[float]) -> np.ndarray:
    """float64, same shape: the action that gives a timer [s]; 0 and inf are exact, others lie between 1 min and 7 d.

    Raises
    ------
    GpuschedError : a negative time, or NaN
    """
    wanted = np.asarray(seconds, float)
    if np.isnan(wanted).any() or (wanted < 0).any():
        raise GpuschedError(f"timers {wanted.tolist()}: give seconds >= 0, inf = wait for ever")
    length = arrays.log(np.clip(wanted, SHORTEST_S, SHORTEST_S * SPAN) / SHORTEST_S) / log(SPAN)
    share = OFF + (1.0 - 2.0 * OFF) * np.clip(length, _INSIDE, 1.0 - _INSIDE)
    return np.where(wanted == 0, -1.0, np.where(np.isinf(wanted), 1.0, 2.0 * share - 1.0))


class TimerActions:
    """Actions [D, 2] of D demand classes on one cluster.

    Parameters
    ----------
    cluster : decides which demands exceed a machine or a rack
    classes : [GPU] largest demand of each class but the last, which has no bound; the first begins with 2
    residual : an action multiplies the hand tuner's timers instead of replacing them

    Attributes
    ----------
    class_of : int64 [G + 1], class of each demand; -1 for demands of 0 and 1
    machine_gpus, rack_gpus : [GPU] of the largest machine and rack

    Raises
    ------
    GpuschedError : bounds that do not ascend from at least 2
    """

    def __init__(self, cluster: Cluster, classes: Sequence[int] = DEMAND_CLASSES, residual: bool = False) -> None:
        bounds = [int(bound) for bound in classes]
        if not bounds or bounds[0] < 2 or bounds != sorted(set(bounds)):
            raise GpuschedError(f"classes {tuple(classes)}: give demands of at least 2 GPUs that ascend")
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
        """Shape of an action: classes, (rack timer, network timer)."""
        return self.count, 2

    def checked(self, action: object) -> np.ndarray:
        """Give an action as float64 [D, 2], cut to [-1, 1].

        Raises
        ------
        GpuschedError : another shape, or NaN
        """
        try:
            values = np.asarray(action, float)
        except (TypeError, ValueError) as error:
            raise GpuschedError(f"action {action!r}: give numbers of shape {self.shape}") from error
        if values.shape != self.shape:
            raise GpuschedError(f"action has shape {values.shape}: it must be {self.shape} (demand classes, timers)")
        if np.isnan(values).any():
            raise GpuschedError(f"action {values.tolist()}: NaN is no timer; check the policy that gave it")
        return np.clip(values, -1.0, 1.0)

    def waits(self, action: np.ndarray) -> np.ndarray:
        """float64 [G + 1, 2] [s]: rack and network timer of each demand; those of one GPU are 0.

        The network timer is the rack timer and a further wait, so it is never the shorter one. A gang larger than a
        machine takes a rack at once: its network timer is the further wait alone.
        """
        seconds = timer_seconds(self.checked(action))[self._class]
        waits = np.empty((self.gpus + 1, 2))
        waits[:, 0] = seconds[:, 0]
        waits[:, 1] = np.where(self._beyond_machine, seconds[:, 1], seconds[:, 0] + seconds[:, 1])
        waits[~self._has_class] = 0.0
        return waits

    def factors(self, action: np.ndarray) -> np.ndarray:
        """float64 [G + 1, 2]: what the hand tuner's timers are multiplied by in residual mode; 1 for one GPU."""
        factors = arrays.power(RESIDUAL_BASE, self.checked(action))[self._class]
        factors[~self._has_class] = 1.0
        return factors

    def carry_out(self, action: object, run: DelayRun) -> None:
        """Set a run's timers, or in residual mode what the hand tuner's are multiplied by.

        Raises
        ------
        GpuschedError : an action of another shape, or with NaN
        """
        checked = self.checked(action)
        if self.residual:
            run.factors[:] = self.factors(checked)
            run.tune_by_hand()
        else:
            run.waits_s[:] = self.waits(checked)
