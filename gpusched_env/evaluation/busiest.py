"""Find the time of a run at which the network carries the most bytes per second, and the load of each link then."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from gpusched_env.errors import GpuschedError
from gpusched_env.problem.instance import Instance
from gpusched_env.simulator import ClusterView, Decision, Scheduler, simulate


class Moment(NamedTuple):
    """The loads of all links at one time."""

    time_s: float  # the time [s]
    loads: np.ndarray  # float64 [L], used share of capacity of the busiest member of each row of ``topology.links``


def busiest_moment(instance: Instance, scheduler: Scheduler, seed: int = 0) -> Moment:
    """Simulate a run, and find the decision point right after which the links carry the most bytes per second."""
    if instance.topology is None:
        raise GpuschedError("busiest_moment: the network is priced by tiers; give an instance with a topology")
    watcher = _Watcher(scheduler)
    simulate(instance, watcher, seed=seed)
    share = watcher.loads_Bps / watcher.capacity_Bps
    of_links = share[: len(share) - np.count_nonzero(instance.links["tier"] < 0)]  # leaves out buses, the last rows
    return Moment(watcher.time_s, np.maximum.reduceat(of_links, instance.first_row))


class _Watcher(Scheduler):
    """A scheduler that passes on another scheduler's decisions, and reads the link loads after each decision point."""

    def __init__(self, watched: Scheduler) -> None:
        self.watched = watched
        self.clairvoyant = watched.clairvoyant

    @property
    def name(self) -> str:
        return self.watched.name

    def reset(self, view: ClusterView) -> None:
        self.watched.reset(view)
        self.clairvoyant = self.watched.clairvoyant
        self.time_s, self.loads_Bps = 0.0, np.zeros(len(view.network.links))
        self.capacity_Bps = view.network.capacity_Bps

    def decide(self, view: ClusterView) -> Iterable[Decision]:
        yield from self.watched.decide(view)
        loads = view.network.loads_Bps()
        if loads.sum() > self.loads_Bps.sum():
            self.time_s, self.loads_Bps = view.now_s, loads
            self.capacity_Bps = view.network.capacity_Bps
