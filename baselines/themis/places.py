"""Places for gangs on the GPUs of an offer, and how fast a gang is there: what an agent of Themis computes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gpusched_env.baselines.elastic.reallocation import able_nodes
from gpusched_env.problem.cluster import MACHINE, NETWORK, RACK
from gpusched_env.simulator import ClusterView


class Place(NamedTuple):
    """GPUs for a gang: int64 [N], their number on each node, and their power (see ``fairness.py``) [GPU]."""

    nodes: np.ndarray
    power: float
    gpus: int  # [GPU] in all


class Menu(NamedTuple):
    """The sizes on which a job may run, ascending; only those that are faster than all smaller ones."""

    sizes: list[int]  # [GPU]
    powers: dict[int, np.ndarray]  # size -> float64 [tiers, T], power on each tier and GPU type
    most: float  # power of the largest size on its ideal placement [GPU]


def menu_of(view: ClusterView, job: int) -> Menu:
    """Return the menu of a job. The requested size has, on its ideal placement, a power of as many GPUs as it has."""
    sizes, ideal, placed = view.sizes(job), view.size_rates(job), view.placed_rates(job)
    asked = int(view.gpus[job])
    unit = asked / ideal[int(np.searchsorted(sizes, asked))]
    best, found = 0.0, {}
    for size, rate, rates in zip(sizes.tolist(), ideal.tolist(), placed, strict=True):
        if rate > best:
            best = rate
            found[size] = rates * unit
    return Menu(list(found), found, best * unit)


class Places:
    """The GPUs that no job holds or is promised, and the best place in them for a gang."""

    def __init__(self, view: ClusterView, free: np.ndarray) -> None:
        self._view, self.free = view, free
        self._found: dict[tuple[int, int], Place | None] = {}
        self._able: dict[int, np.ndarray] = {}  # job class -> nodes that can run it
        self.total = int(free.sum())  # number of free GPUs

    def take(self, place: Place) -> None:
        """Give GPUs to a job."""
        self.free -= place.nodes
        self.total -= place.gpus
        self._found.clear()

    def put_back(self, place: Place) -> None:
        """Get GPUs back."""
        self.free += place.nodes
        self.total += place.gpus
        self._found.clear()

    def fits(self, place: Place) -> bool:
        """Return whether all GPUs of a place are free."""
        return bool((place.nodes <= self.free).all())

    def best(self, job: int, size: int, menu: Menu, own: np.ndarray | None = None) -> Place | None:
        """Return the place of the largest power, on the ``own`` nodes of its app if it fits there; None = no place."""
        if own is not None and own.any() and (found := self.within(job, size, menu, np.where(own, self.free, 0))):
            return found
        kind = (int(self._view.job_class[job]), size)
        if len(menu.sizes) > 1:  # jobs of one class may have different sizes
            return self.within(job, size, menu, self.free)
        if kind not in self._found:
            self._found[kind] = self.within(job, size, menu, self.free)
        return self._found[kind]

    def within(self, job: int, size: int, menu: Menu, free: np.ndarray) -> Place | None:
        """Return the place of the largest power in some GPUs, int64 [N]; None = there is none."""
        nodes, powers = self._view.cluster.nodes, menu.powers[size]
        kind = int(self._view.job_class[job])
        if kind not in self._able:
            self._able[kind] = able_nodes(self._view, [job])[job]
        room = np.where(self._able[kind], free, 0)
        if room.sum() < size:
            return None
        best: Place | None = None
        for gpu_type in range(powers.shape[1]):
            found = tightest(np.where(nodes["gpu_type"] == gpu_type, room, 0), nodes["rack"], size)
            if found is not None:
                tier, chosen = found
                power = float(powers[tier, gpu_type])
                if power > 0 and (best is None or power > best.power):
                    best = Place(chosen, power, size)
        if best is None and powers.shape[1] > 1:  # a gang on several types runs at the rate of the slowest
            found = tightest(room, nodes["rack"], size)
            if found is not None:
                tier, chosen = found
                slowest = float(powers[tier, nodes["gpu_type"][chosen > 0]].min())
                best = Place(chosen, slowest, size) if slowest > 0 else None
        return best


def tightest(room: np.ndarray, racks: np.ndarray, size: int) -> tuple[int, np.ndarray] | None:
    """Return the tier of the tightest place for ``size`` GPUs, and their number on each node; None = no room.

    Node, else rack, with the least room that suffices, else all nodes, those with the most room first. Ties: the first.
    """
    chosen = np.zeros(len(room), np.int64)
    whole = room >= size
    if whole.any():
        chosen[int(np.argmin(np.where(whole, room, np.iinfo(np.int64).max)))] = size
        return MACHINE, chosen
    by_rack = np.zeros(int(racks[-1]) + 1, np.int64)
    np.add.at(by_rack, racks, room)
    tier = NETWORK
    if (by_rack >= size).any():
        rack = int(np.argmin(np.where(by_rack >= size, by_rack, np.iinfo(np.int64).max)))
        room, tier = np.where(racks == rack, room, 0), RACK
    order = np.argsort(-room, kind="stable")
    most_first = room[order]
    if most_first.sum() < size:
        return None
    chosen[order] = np.clip(size - (np.cumsum(most_first) - most_first), 0, most_first)
    return tier, chosen
