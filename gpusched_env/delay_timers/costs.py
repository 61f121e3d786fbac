"""What loose and tight placements cost the gangs that have arrived: slowdowns by the network, and GPUs left idle.

A scheduler may know these numbers: they follow from profiles and demands of the jobs, and from machines and links.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from gpusched_env.delay_timers.actions import TimerActions
from gpusched_env.delay_timers.columns import COST_COLUMNS
from gpusched_env.problem.cluster import MACHINE, NETWORK, RACK

if TYPE_CHECKING:
    from gpusched_env.problem.instance import Instance

_SLOWDOWNS: Final = 2  # the first columns


class PlacementCosts:
    """Mean costs of placements for each demand class, over the jobs that have arrived so far.

    Parameters
    ----------
    instance : the problem instance, whose jobs are sorted by arrival
    actions : holds the demand classes
    """

    def __init__(self, instance: Instance, actions: TimerActions) -> None:
        jobs = instance.workload.jobs
        self._class = actions.class_of[jobs["gpus"]]
        self._demand = jobs["gpus"].astype(np.float64)
        self._beyond_rack = jobs["gpus"] > actions.rack_gpus
        self._of_job = _costs(instance, actions)
        self._sums = np.zeros((actions.count, len(COST_COLUMNS) - 1))
        self._demands = np.zeros(2)  # [GPU] of gangs larger than a rack, of all gangs
        self._counts = np.zeros(actions.count)
        self._arrived = 0

    def observe(self, arrived: int) -> np.ndarray:
        """float32 [D, 6]: the columns; in a class of which no job has arrived, slowdowns are without bound.

        Parameters
        ----------
        arrived : number of jobs that have arrived, at least that of the last call
        """
        new = slice(self._arrived, arrived)
        gangs = self._class[new] >= 0
        own = self._class[new][gangs]
        self._arrived = arrived
        np.add.at(self._sums, own, self._of_job[new][gangs])
        np.add.at(self._counts, own, 1.0)
        demands = self._demand[new] * gangs
        self._demands += (demands[self._beyond_rack[new]].sum(), demands.sum())
        means = self._sums / np.maximum(self._counts, 1.0)[:, None]
        slowdowns = np.where(self._counts[:, None] > 0.0, np.maximum(means[:, :_SLOWDOWNS], 1.0), np.inf)
        means[:, :_SLOWDOWNS] = 1.0 - 1.0 / slowdowns
        beyond = np.full((len(means), 1), self._demands[0] / max(self._demands[1], 1.0))
        return np.concatenate([means, beyond], axis=1).astype(np.float32)


def uplink_share(instance: Instance) -> float:
    """Return the rate of a rack's uplinks / the summed rate of its machines' NICs, at most 1; 1 without such links."""
    topology = instance.topology
    if topology is None or (topology.uplinks < 0).any() or len(topology.uplinks) < 2:
        return 1.0
    rates = topology.links["capacity"] * topology.links["members"]
    return min(1.0, float((rates[topology.uplinks] / (np.bincount(topology.edge) * topology.nic_Bps)).min()))


def _costs(instance: Instance, actions: TimerActions) -> np.ndarray:
    """float64 [J, 5]: slowdowns of a rack and of the network, share of communication, shares of places left idle.

    A slowdown divides the seconds of an iteration by those on the next tighter tier that can hold the gang. On the
    network, all machines are assumed to send over the uplinks at once. A gang that fits on no tighter tier has a
    slowdown of 1.
    """
    demand = instance.workload.jobs["gpus"].astype(np.int64)
    seconds, compute, communication = (
        values.min(axis=2)[instance.job_class]
        for values in (instance.iteration_s, instance.compute_s, instance.communication_s)
    )
    fits_machine, fits_rack = demand <= actions.machine_gpus, demand <= actions.rack_gpus
    busy_s = np.maximum(seconds[:, NETWORK], compute[:, RACK] + communication[:, RACK] / uplink_share(instance))
    found = np.ones((len(demand), len(COST_COLUMNS) - 1))
    found[fits_machine, 0] = (seconds[:, RACK] / seconds[:, MACHINE])[fits_machine]
    best_s = np.where(fits_machine, seconds[:, MACHINE], seconds[:, RACK])
    found[fits_rack, 1] = (busy_s / best_s)[fits_rack]
    tier = np.where(fits_rack, RACK, NETWORK)
    every = np.arange(len(demand))
    found[:, 2] = 1.0 - compute[every, tier] / seconds[every, tier]
    for column, room in ((3, actions.machine_gpus), (4, actions.rack_gpus)):
        found[:, column] = np.where(demand <= room, room % np.maximum(demand, 1) / room, 0.0)
    return found
