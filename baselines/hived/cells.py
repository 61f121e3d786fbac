"""Buddy allocation of cells: parts of a cluster, each level of which divides into equal cells of the level below."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gpusched_env.errors import SchedulerError
from gpusched_env.problem.cluster import Cluster

Cell = tuple[int, int]  # level, number: cell i of a level of n GPUs has the GPUs n i to n (i + 1) - 1
Cost = Callable[[Cell], int]  # GPUs of a cell that low-priority jobs hold


def sizes_of(cluster: Cluster) -> tuple[int, ...]:
    """Return the GPUs of a cell of each level: GPU, pair, socket (slot), server and rack, as far as they differ."""
    nodes, racks = cluster.nodes["gpus"], cluster.racks["gpus"]
    if len(set(zip(nodes.tolist(), cluster.slots.tolist(), strict=True))) > 1 or (racks[:-1] != racks[0]).any():
        raise SchedulerError("hived: cells need equal servers, and equal racks but for a smaller last one")
    if racks[-1] > racks[0] or len(cluster.gpu_types) > 1:
        raise SchedulerError("hived: cells need one GPU type, and no rack larger than the first")
    server, rack = int(nodes[0]), int(racks[0])
    socket = server // int(cluster.slots[0])
    return tuple(sorted({1, 2 - socket % 2, socket, server, rack}))


def digits(gpus: int, sizes: Sequence[int]) -> list[int]:
    """Return how many cells of each level make up ``gpus`` GPUs, the largest ones first."""
    counts = [0] * len(sizes)
    for level in reversed(range(len(sizes))):
        counts[level], gpus = divmod(gpus, sizes[level])
    return counts


class Cells:
    """The free cells of a cluster, or of a tenant, who owns ``spare`` cells of each level of the cells ``above``."""

    def __init__(self, sizes: Sequence[int], spare: Sequence[int], above: Cells | None = None) -> None:
        self.sizes, self.spare, self.above = sizes, list(spare), above
        self.free: list[set[int]] = [set() for _ in sizes]
        self.bound: set[Cell] = set()

    @classmethod
    def whole(cls, sizes: Sequence[int], gpus: int) -> Cells:
        """Return a cluster of ``gpus`` GPUs that is free."""
        cells, begin = cls(sizes, [0] * len(sizes)), 0
        for level in reversed(range(len(sizes))):
            end = gpus // sizes[level]
            cells.free[level] = set(range(begin // sizes[level], end))
            begin = end * sizes[level]
        return cells

    def take(self, level: int, cost: Cost) -> Cell | None:
        """Take a free cell, or a part of one of the next level that has any; None = there is none.

        Of several cells, at each level: the one of least cost, then the first. A tenant's cell is bound to one of the
        cluster when it is first used.
        """
        if not self.free[level]:
            if self.spare[level] and self.above and (found := self.above.take(level, cost)):
                self.spare[level] -= 1
                self.bound.add(found)
                return found
            whole = self.take(level + 1, cost) if level + 1 < len(self.sizes) else None
            if whole is None:
                return None
            parts = self.sizes[level + 1] // self.sizes[level]
            self.free[level] = set(range(parts * whole[1], parts * (whole[1] + 1)))
        number = min(self.free[level], key=lambda number: (cost((level, number)), number))
        self.free[level].remove(number)
        return level, number

    def give(self, cell: Cell) -> None:
        """Give a cell back, and merge buddies that are all free; a bound cell returns to the cluster."""
        level, number = cell
        while level + 1 < len(self.sizes) and cell not in self.bound:
            parts = self.sizes[level + 1] // self.sizes[level]
            buddies = set(range(number // parts * parts, (number // parts + 1) * parts)) - {number}
            if not buddies <= self.free[level]:
                break
            self.free[level] -= buddies
            level, number = cell = (level + 1, number // parts)
        if cell in self.bound and self.above:
            self.bound.remove(cell)
            self.spare[level] += 1
            self.above.give(cell)
        else:
            self.free[level].add(number)
