"""The observation of a tuner of delay timers: no run times, nothing of the future, only what a scheduler can count."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from gymnasium import spaces

from gpusched_env.delay_timers.actions import TimerActions
from gpusched_env.delay_timers.columns import (
    CLASS,
    CLASS_COLUMNS,
    CLUSTER,
    CLUSTER_COLUMNS,
    COST_COLUMNS,
    COUNT,
    scaled_count,
    scaled_time,
)
from gpusched_env.delay_timers.costs import placement_costs
from gpusched_env.delay_timers.counts import GANG_DTYPE, PLACEMENT_DTYPE, Tally, describe
from gpusched_env.envs.observation.column import DAY_S, TIME
from gpusched_env.portable.elementary import cos, log2, sin
from gpusched_env.problem.cluster import MACHINE, NETWORK, RACK

if TYPE_CHECKING:
    from gpusched_env.simulator import Simulation

_FIXED: Final = CLASS.beyond_rack + 1  # the first columns are constant in a run
_TIMES: Final = [i for i, one in enumerate(CLASS_COLUMNS) if one.scale == TIME and not one.name.startswith("timer")]
_COUNTS: Final = [i for i, one in enumerate(CLASS_COLUMNS) if one.scale == COUNT]

Observation = dict[str, np.ndarray]


def observation_space(classes: int, costs: bool = False) -> spaces.Dict:
    """Return the space of ``classes``, ``cluster`` and perhaps ``costs``, one row per class.

    Bounds are 0 and 1, and -1 and 1 for the time of day.
    """
    low = np.zeros(len(CLUSTER_COLUMNS), np.float32)
    low[[CLUSTER.day_sin, CLUSTER.day_cos]] = -1.0
    found: dict[str, spaces.Space[Any]] = {
        "classes": spaces.Box(0.0, 1.0, (classes, len(CLASS_COLUMNS)), np.float32),
        "cluster": spaces.Box(low, np.ones_like(low), dtype=np.float32),
    }
    if costs:
        found["costs"] = spaces.Box(0.0, 1.0, (classes, len(COST_COLUMNS)), np.float32)
    return spaces.Dict(found)


class TimerObserver:
    """Observe a run: the events since the last observation, and the state.

    Parameters
    ----------
    simulation : the run, before its first event
    actions : holds the demand classes
    interval_s : tuning interval [s]
    costs : whether to observe the costs of placements, too
    """

    def __init__(self, simulation: Simulation, actions: TimerActions, interval_s: float, costs: bool = False) -> None:
        self.simulation, self.actions, self.interval_s = simulation, actions, interval_s
        instance = simulation.instance
        jobs = instance.workload.jobs
        gangs = np.zeros(len(jobs), GANG_DTYPE)
        gangs["gpus"], gangs["idle_since_s"] = jobs["gpus"], jobs["arrival_s"]
        gangs["demand_class"] = actions.class_of[jobs["gpus"]]
        fits_machine, fits_rack = jobs["gpus"] <= actions.machine_gpus, jobs["gpus"] <= actions.rack_gpus
        gangs["best"] = np.where(fits_machine, MACHINE, np.where(fits_rack, RACK, NETWORK))
        gangs["best_iteration_s"] = instance.ideal_s / instance.iterations
        self._gangs = gangs
        self._compute_s = np.ascontiguousarray(instance.compute_s[:, MACHINE])  # [C, GPU types] [s], on every tier
        self._seen = 0  # events of the log counted so far
        self._placements = np.zeros(256, PLACEMENT_DTYPE)  # the recent ones come first
        self._placed = 0
        self._fixed = self._fixed_columns()
        self._costs = placement_costs(instance, actions) if costs else None

    def _fixed_columns(self) -> np.ndarray:
        """Return the class columns that are constant in a run; a class larger than the cluster has no demands."""
        columns = np.zeros((self.actions.count, len(CLASS_COLUMNS)))
        columns[:, CLASS.smallest] = 1.0
        demands = np.arange(len(self.actions.class_of))
        for number in np.unique(self.actions.class_of[2:]).tolist():
            own = demands[self.actions.class_of == number]
            columns[number, CLASS.smallest] = min(log2(float(own[0])) / 10.0, 1.0)
            columns[number, CLASS.beyond_machine] = np.mean(own > self.actions.machine_gpus)
            columns[number, CLASS.beyond_rack] = np.mean(own > self.actions.rack_gpus)
        return columns

    def observe(self, waits_s: np.ndarray, now_s: float) -> Observation:
        """Return the observation of the run's current state.

        Parameters
        ----------
        waits_s : float64 [G + 1, 2], rack and network timer of each demand [s]
        now_s : time of the observation, at or after the latest event and before the next one [s]
        """
        arrays, events = self.simulation.arrays, self.simulation.events_since(self._seen)
        self._seen += len(events)
        if self._placed + len(events) > len(self._placements):
            more = np.zeros(self._placed + len(events), PLACEMENT_DTYPE)
            self._placements = np.concatenate([self._placements, more])
        classes, cluster = np.zeros_like(self._fixed), np.zeros(len(CLUSTER_COLUMNS))
        tally = Tally(
            news=events, gangs=self._gangs, placements=self._placements, compute_s=self._compute_s, classes=classes,
            cluster=cluster,
        )  # fmt: skip
        self._placed = describe(arrays, tally, self._placed, now_s, now_s + self.interval_s)
        classes[:, _TIMES], classes[:, _COUNTS] = scaled_time(classes[:, _TIMES]), scaled_count(classes[:, _COUNTS])
        self._describe_timers(classes, waits_s)
        classes[:, CLASS.queued_gpus] /= self.actions.gpus + classes[:, CLASS.queued_gpus]
        classes[:, :_FIXED] = self._fixed[:, :_FIXED]
        classes[:, CLASS.expired_machine] *= 1.0 - self._fixed[:, CLASS.beyond_machine]
        classes[:, CLASS.expired_rack] *= 1.0 - self._fixed[:, CLASS.beyond_rack]
        cluster[CLUSTER.queued_gpus] /= self.actions.gpus + cluster[CLUSTER.queued_gpus]
        angle = 2.0 * math.pi * now_s / DAY_S
        cluster[CLUSTER.day_sin], cluster[CLUSTER.day_cos] = sin(angle), cos(angle)
        # Sums of fractions may exceed 1 by rounding.
        found = {
            "classes": np.minimum(classes, 1.0).astype(np.float32),
            "cluster": np.clip(cluster, -1.0, 1.0).astype(np.float32),
        }
        if self._costs is not None:
            found["costs"] = self._costs[int(arrays.world["next_arrival"])]
        return found

    def _describe_timers(self, classes: np.ndarray, waits_s: np.ndarray) -> None:
        """Write the mean of the scaled timers over the demands of each class."""
        own = self.actions.class_of[2:]
        demands = np.maximum(np.bincount(own, minlength=self.actions.count), 1)
        scaled = scaled_time(waits_s[2:])
        for column, own_column in enumerate((CLASS.timer_rack, CLASS.timer_network)):
            classes[:, own_column] = np.bincount(own, scaled[:, column], self.actions.count) / demands
