"""What a tuner of delay timers sees: no durations, no future, only what a scheduler can count."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np
from gymnasium import spaces

from gpusched_env.cluster import MACHINE, NETWORK, RACK
from gpusched_env.envs.columns import DAY_S
from gpusched_env.envs.delay_actions import TimerActions
from gpusched_env.envs.delay_columns import (
    CLASS_COLUMNS,
    CLASS_INDEX,
    CLUSTER_COLUMNS,
    CLUSTER_INDEX,
    MACHINE_SIZES,
    scaled_count,
    scaled_time,
)
from gpusched_env.event_log import ARRIVAL, COMPLETE, RELEASE, RESUME, START

if TYPE_CHECKING:
    from gpusched_env.simulator import Simulation

RECENT_S: Final = DAY_S  # [s] placements older than this are forgotten
_SPREADS: Final = 3  # machine, rack, network; slots of one machine count as the machine

Observation = dict[str, np.ndarray]


def observation_space(classes: int) -> spaces.Dict:
    """Give the space: ``classes`` [D, 24] and ``cluster`` [17], in [0, 1] but for sine and cosine of the day."""
    low = np.zeros(len(CLUSTER_COLUMNS), np.float32)
    low[[CLUSTER_INDEX["day_sin"], CLUSTER_INDEX["day_cos"]]] = -1.0
    return spaces.Dict(
        {
            "classes": spaces.Box(0.0, 1.0, (classes, len(CLASS_COLUMNS)), np.float32),
            "cluster": spaces.Box(low, np.ones_like(low), dtype=np.float32),
        }
    )


class TimerObserver:
    """Count what has happened since the last look, and describe what is.

    Parameters
    ----------
    simulation : the run, before its first event
    actions : the demand classes
    interval_s : tuning interval [s]
    """

    def __init__(self, simulation: Simulation, actions: TimerActions, interval_s: float) -> None:
        self.simulation, self.actions, self.interval_s = simulation, actions, interval_s
        instance = simulation.instance
        jobs = instance.workload.jobs
        self._gang = jobs["gpus"].astype(np.int64)
        self._class_of_job = actions.class_of[self._gang]
        self._best = np.where(
            self._gang <= actions.machine_gpus, MACHINE, np.where(self._gang <= actions.rack_gpus, RACK, NETWORK)
        )
        self._best_iteration_s = instance.ideal_s / instance.iterations
        self._compute_s = instance.compute_s[:, MACHINE]  # [C, GPU types] [s], whatever the placement
        self._idle_since_s = jobs["arrival_s"].astype(float)  # since when each job has held no GPUs, if it holds none
        self._seen = 0  # events of the log
        self._placed_s, self._waited_s = np.empty(0), np.empty(0)  # [s] of each recent placement
        self._cell = np.empty(0, np.int64)  # class x spread
        self._fixed = self._fixed_columns()

    def _fixed_columns(self) -> np.ndarray:
        """Columns of the classes that no run changes."""
        columns = np.zeros((self.actions.count, len(CLASS_COLUMNS)))
        demands = np.arange(len(self.actions.class_of))
        for number in range(self.actions.count):
            own = demands[self.actions.class_of == number]
            if len(own):
                columns[number, CLASS_INDEX["smallest"]] = min(math.log2(own[0]) / 10.0, 1.0)
                columns[number, CLASS_INDEX["beyond_machine"]] = np.mean(own > self.actions.machine_gpus)
                columns[number, CLASS_INDEX["beyond_rack"]] = np.mean(own > self.actions.rack_gpus)
            else:  # beyond the whole cluster: nothing will ever happen here
                columns[number, CLASS_INDEX["smallest"]] = 1.0
        return columns

    def observe(self, waits_s: np.ndarray, now_s: float) -> Observation:
        """Look at the run as it stands.

        Parameters
        ----------
        waits_s : float64 [G + 1, 2], rack and network timer of each demand [s]
        now_s : the instant, at or after the latest event and before the next one [s]
        """
        simulation, b = self.simulation, self.simulation.b
        world = simulation.state.world[b]
        classes = self._fixed.copy()
        cluster = np.zeros(len(CLUSTER_COLUMNS))
        self._count_events(classes, now_s)
        self._describe_placements(classes)
        self._describe_timers(classes, waits_s)
        self._describe_machines(cluster, world)
        self._describe_queue(classes, cluster, world, now_s)
        self._describe_gangs(cluster, world, now_s)
        angle = 2.0 * math.pi * now_s / DAY_S
        cluster[CLUSTER_INDEX["day_sin"]], cluster[CLUSTER_INDEX["day_cos"]] = math.sin(angle), math.cos(angle)
        return {"classes": classes.astype(np.float32), "cluster": np.clip(cluster, -1.0, 1.0).astype(np.float32)}

    # --- what has happened

    def _count_events(self, classes: np.ndarray, now_s: float) -> None:
        """Arrivals, completions and placements since the last look."""
        events = self.simulation.events_since(self._seen)
        self._seen += len(events)
        kind, job = events["kind"], events["job"]
        own = self._class_of_job[job]
        for name, wanted in (("arrivals", ARRIVAL), ("completions", COMPLETE)):
            rows = own[(kind == wanted) & (own >= 0)]
            counts = np.bincount(rows, minlength=self.actions.count)
            classes[:, CLASS_INDEX[name]] = scaled_count(counts)
        moves = ((kind == START) | (kind == RESUME) | (kind == RELEASE)) & (own >= 0)
        placed, waited, cells = [], [], []
        since = self._idle_since_s
        for what, row, time_s, tier in zip(
            kind[moves].tolist(), job[moves].tolist(), events["time_s"][moves].tolist(), events["tier"][moves].tolist(),
            strict=True,
        ):  # fmt: skip
            if what == RELEASE:
                since[row] = time_s
            else:
                placed.append(time_s)
                waited.append(time_s - since[row])
                spread = tier if tier < _SPREADS else MACHINE
                cells.append(self._class_of_job[row] * _SPREADS + spread)
        kept = self._placed_s > now_s - RECENT_S
        self._placed_s = np.concatenate([self._placed_s[kept], placed])
        self._waited_s = np.concatenate([self._waited_s[kept], waited])
        self._cell = np.concatenate([self._cell[kept], np.array(cells, np.int64)])

    def _describe_placements(self, classes: np.ndarray) -> None:
        cells = self.actions.count * _SPREADS
        count = np.bincount(self._cell, minlength=cells)
        some = np.maximum(count, 1)
        mean = np.bincount(self._cell, self._waited_s, cells) / some
        square = np.bincount(self._cell, (self._waited_s - mean[self._cell]) ** 2, cells) / some
        first = CLASS_INDEX["wait_mean_machine"]
        shape = (self.actions.count, _SPREADS)
        columns = np.stack(
            [x.reshape(shape) for x in (scaled_time(mean), scaled_time(np.sqrt(square)), scaled_count(count))], axis=2
        )
        classes[:, first : first + 3 * _SPREADS] = columns.reshape(len(classes), -1)
        by_spread = count.reshape(shape)
        every = np.maximum(by_spread.sum(axis=1), 1)
        fits_machine = 1.0 - self._fixed[:, CLASS_INDEX["beyond_machine"]]
        fits_rack = 1.0 - self._fixed[:, CLASS_INDEX["beyond_rack"]]
        classes[:, CLASS_INDEX["expired_machine"]] = fits_machine * by_spread[:, RACK:].sum(axis=1) / every
        classes[:, CLASS_INDEX["expired_rack"]] = fits_rack * by_spread[:, NETWORK] / every

    def _describe_timers(self, classes: np.ndarray, waits_s: np.ndarray) -> None:
        own = self.actions.class_of
        demands = np.maximum(np.bincount(own[own >= 0], minlength=self.actions.count), 1)
        for column, name in enumerate(("timer_rack", "timer_network")):
            scaled = scaled_time(waits_s[own >= 0, column])
            classes[:, CLASS_INDEX[name]] = np.bincount(own[own >= 0], scaled, self.actions.count) / demands

    # --- what is

    def _describe_machines(self, cluster: np.ndarray, world: np.void) -> None:
        instance = self.simulation.instance
        size = instance.cluster.nodes["gpus"]
        free = self.simulation.state.free[self.simulation.b, : len(size)]
        by_rack = np.add.reduceat(free, instance.cluster.racks["first_node"])
        self._largest_rack = int(by_rack.max())
        total = int(world["free_gpus"])
        cluster[CLUSTER_INDEX["free"]] = total / self.actions.gpus
        for least in MACHINE_SIZES:
            cluster[CLUSTER_INDEX[f"machines_{least}"]] = np.mean(free >= least)
        cluster[CLUSTER_INDEX["largest_rack"]] = self._largest_rack / self.actions.rack_gpus
        if total:
            cluster[CLUSTER_INDEX["fragmentation"]] = 1.0 - free[free == size].sum() / total

    def _describe_queue(self, classes: np.ndarray, cluster: np.ndarray, world: np.void, now_s: float) -> None:
        simulation, count = self.simulation, self.actions.count
        rows = simulation.state.waiting[simulation.b, : world["waiting"]]
        demand = self._gang[rows]
        whole = float(demand.sum())
        cluster[CLUSTER_INDEX["queued_gpus"]] = whole / (self.actions.gpus + whole)
        rows, demand = rows[demand > 1], demand[demand > 1]
        if not len(rows):
            return
        own = self._class_of_job[rows]
        waited = now_s - simulation.state.jobs["last_stop_s"][simulation.b, rows]
        queued = np.bincount(own, minlength=count)
        gpus = np.bincount(own, demand, count)
        longest = np.zeros(count)
        np.maximum.at(longest, own, waited)
        in_rack = demand <= self._largest_rack
        anywhere = ~in_rack & (demand <= world["free_gpus"])
        for name, values in {
            "queued": scaled_count(queued),
            "queued_gpus": gpus / (self.actions.gpus + gpus),
            "waited_mean": scaled_time(np.bincount(own, waited, count) / np.maximum(queued, 1)),
            "waited_max": scaled_time(longest),
            "refusing_rack": scaled_count(np.bincount(own[in_rack], minlength=count)),
            "refusing_network": scaled_count(np.bincount(own[anywhere], minlength=count)),
        }.items():
            classes[:, CLASS_INDEX[name]] = values

    def _describe_gangs(self, cluster: np.ndarray, world: np.void, now_s: float) -> None:
        state, b = self.simulation.state, self.simulation.b
        held = state.running[b, : world["running"]]
        gangs = state.replicas[b]
        gpus = gangs["gpus"][held]
        held, gpus = held[gpus > 1], gpus[gpus > 1].astype(float)
        cluster[[CLUSTER_INDEX["efficiency"], CLUSTER_INDEX["efficiency_of_best"]]] = 1.0
        if not len(held):
            return
        rows, tier, iteration_s = gangs["job"][held], gangs["tier"][held], gangs["iteration_s"][held]
        spread = np.where(tier < _SPREADS, tier, MACHINE)
        first = CLUSTER_INDEX["running_machine"]
        cluster[first : first + _SPREADS] = np.bincount(spread, gpus, _SPREADS) / self.actions.gpus
        cluster[CLUSTER_INDEX["running_worse"]] = gpus[spread > self._best[rows]].sum() / self.actions.gpus
        ending = gangs["lease_s"][held] <= now_s + self.interval_s
        cluster[CLUSTER_INDEX["leases_ending"]] = gpus[ending].sum() / self.actions.gpus
        kind = state.nodes["gpu_type"][b, state.gpu_node[b, gangs["first_gpu"][held]]]
        compute_s = self._compute_s[state.jobs["job_class"][b, rows], kind]
        share = gpus / gpus.sum()
        cluster[CLUSTER_INDEX["efficiency"]] = (share * np.minimum(compute_s / iteration_s, 1.0)).sum()
        best = np.minimum(self._best_iteration_s[rows] / iteration_s, 1.0)
        cluster[CLUSTER_INDEX["efficiency_of_best"]] = (share * best).sum()
