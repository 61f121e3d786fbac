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


def placement_costs(instance: Instance, actions: TimerActions) -> np.ndarray:
    """float32 [J + 1, D, 6]: the cost columns of each demand class when the first 0, 1, ..., J jobs have arrived.

    In a class of which no job has arrived, slowdowns are without bound.
    """
    gpus = instance.workload.jobs["gpus"]
    is_gang = (actions.class_of[gpus][:, None] == np.arange(actions.count)).astype(float)  # [J, D]
    demand = np.stack([gpus * (gpus > actions.rack_gpus), gpus], axis=1) * is_gang.sum(axis=1, keepdims=True)
    counts, demands = _summed(is_gang), _summed(demand)
    means = (
        _summed(np.where(is_gang[:, :, None] > 0.0, _of_jobs(instance, actions)[:, None], 0.0))
        / np.maximum(counts, 1.0)[:, :, None]
    )
    slowdowns = np.where(counts[:, :, None] > 0.0, np.maximum(means[:, :, :_SLOWDOWNS], 1.0), np.inf)
    means[:, :, :_SLOWDOWNS] = 1.0 - 1.0 / slowdowns
    beyond = demands[:, 0] / np.maximum(demands[:, 1], 1.0)
    beyond = np.broadcast_to(beyond[:, None, None], (*counts.shape, 1))
    return np.concatenate([means, beyond], axis=2).astype(np.float32)


def _summed(values: np.ndarray) -> np.ndarray:
    """float64: the sums of the first 0, 1, ... rows, each row added to the sum before."""
    return np.cumsum(np.concatenate([np.zeros_like(values[:1]), values]), axis=0)


def uplink_share(instance: Instance) -> float:
    """Return the rate of a rack's uplinks / the summed rate of its machines' NICs, at most 1; 1 without such links."""
    topology = instance.topology
    if topology is None or (topology.uplinks < 0).any() or len(topology.uplinks) < 2:
        return 1.0
    rates = topology.links["capacity"] * topology.links["members"]
    return min(1.0, float((rates[topology.uplinks] / (np.bincount(topology.edge) * topology.nic_Bps)).min()))


def _of_jobs(instance: Instance, actions: TimerActions) -> np.ndarray:
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
