"""Gandiva's servers: the gang size that each server hosts, and the choice of GPUs for a gang."""

from __future__ import annotations

import numpy as np

from gpusched_env.problem.cluster import MACHINE, NETWORK, RACK, Cluster


class Servers:
    """Affinities of machines (size of the first gang since a machine was unassigned, else 0), and gangs on each."""

    def __init__(self, cluster: Cluster) -> None:
        self.node_of_gpu = cluster.node_of_gpu
        self.rack = cluster.nodes["rack"]
        self.largest = int(cluster.nodes["gpus"].max())
        self.largest_rack = int(cluster.racks["gpus"].max())
        self.affinity = np.zeros(len(cluster.nodes), np.int64)
        self.seats = np.zeros(len(cluster.nodes), np.int64)

    def of(self, gpus: np.ndarray) -> tuple[int, ...]:
        """Return the machines of the GPUs ``gpus``."""
        return tuple(np.unique(self.node_of_gpu[gpus]).tolist())

    def all_able(self, machines: tuple[int, ...], able: np.ndarray) -> bool:
        """Return whether ``able``, Boolean [G], is True for all GPUs of some machines."""
        return bool(able[np.isin(self.node_of_gpu, machines)].all())

    def tier(self, machines: tuple[int, ...], gang: int) -> tuple[int, bool]:
        """Return the tier of a gang on some machines, and whether the empty cluster has a tighter tier for it."""
        if len(machines) == 1:
            return MACHINE, False
        tier = RACK if len(set(self.rack[list(machines)].tolist())) == 1 else NETWORK
        return tier, gang <= (self.largest if tier == RACK else self.largest_rack)

    def occupy(self, machines: tuple[int, ...], gang: int) -> None:
        """Record that a gang is placed on some machines; unassigned machines get its size as their affinity."""
        for machine in machines:
            if self.seats[machine] == 0:
                self.affinity[machine] = gang
            self.seats[machine] += 1

    def leave(self, machines: tuple[int, ...]) -> None:
        """Record that a gang has left some machines; a machine without gangs becomes unassigned."""
        for machine in machines:
            self.seats[machine] -= 1
            if self.seats[machine] == 0:
                self.affinity[machine] = 0

    def place(self, free: np.ndarray, gang: int) -> np.ndarray | None:
        """Return free GPUs for a gang: servers of its affinity, unassigned, any (steps 1 to 3), least loaded first."""
        room = np.bincount(self.node_of_gpu[free], minlength=len(self.rack))
        if room.sum() < gang:
            return None
        for pool in (self.affinity == gang, self.seats == 0):
            widest = NETWORK if gang > self.largest else MACHINE
            gpus = self._gather(free, np.where(pool, room, 0), gang, widest)
            if gpus is not None:
                return gpus
        return self._gather(free, room, gang, NETWORK)

    def lacks(self, gpus: np.ndarray, tier: int) -> int:
        """Count the gang's GPUs outside the machine (for ``tier`` NETWORK: outside the rack) that has most of them."""
        places = self.node_of_gpu[gpus]
        return len(gpus) - int(np.bincount(self.rack[places] if tier == NETWORK else places).max())

    def largest_room(self, free: np.ndarray) -> dict[int, int]:
        """Return the largest number of free GPUs on one machine (key RACK), and in one rack (key NETWORK)."""
        room = np.bincount(self.node_of_gpu[free], minlength=len(self.rack))
        return {RACK: int(room.max()), NETWORK: int(np.bincount(self.rack, weights=room).max())}

    def tighter(self, free: np.ndarray, gang: int, tier: int) -> np.ndarray | None:
        """Find GPUs for a gang on a strictly tighter tier than ``tier``; None = there are none."""
        return self._gather(free, np.bincount(self.node_of_gpu[free], minlength=len(self.rack)), gang, tier - 1)

    def _gather(self, free: np.ndarray, room: np.ndarray, gang: int, widest: int) -> np.ndarray | None:
        """Choose GPUs on the tightest tier with enough ``room``, on few machines; None = no tier up to ``widest``."""
        if room.max() >= gang:
            order = np.array([room.argmax()])
        else:
            by_rack = np.bincount(self.rack, weights=room)
            if widest == MACHINE or room.sum() < gang or (widest == RACK and by_rack.max() < gang):
                return None
            order = np.lexsort((-room, self.rack, -by_rack[self.rack]))  # the rack with most room first
            order = order[np.cumsum(room[order]) - room[order] < gang]
        gpus = [np.flatnonzero(free & (self.node_of_gpu == machine))[: room[machine]] for machine in order]
        return np.concatenate(gpus)[:gang]
