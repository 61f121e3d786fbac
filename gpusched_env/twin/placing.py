"""GPUs of the running jobs of a snapshot, of which at most the nodes are known."""

from __future__ import annotations

import numpy as np

from gpusched_env.errors import GpuschedError
from gpusched_env.problem.cluster import Cluster
from gpusched_env.twin.model import Pool
from gpusched_env.twin.snapshot import PresentJob, Snapshot


class Places:
    """Hand out the free GPUs of a cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        ends = np.cumsum(cluster.nodes["gpus"])
        self.free = [
            list(range(int(end - size), int(end))) for end, size in zip(ends, cluster.nodes["gpus"], strict=True)
        ]

    def take(self, nodes: dict[int, int]) -> tuple[int, ...] | None:
        """Take these numbers of GPUs of these nodes, the lowest ones; None = a node has too few."""
        if any(len(self.free[node]) < count for node, count in nodes.items()):
            return None
        taken: list[int] = []
        for node, count in nodes.items():
            taken += self.free[node][:count]
            del self.free[node][:count]
        return tuple(taken)

    def fit(self, gpus: int, types: str = "") -> tuple[int, ...] | None:
        """Take GPUs for a gang by best fit: in the node that then has fewest left, else in the emptiest nodes.

        ``types`` : GPU types, with ``|`` between them; "" = any.
        """
        names = {part.strip().casefold() for part in types.split("|")}
        ours = [not types or name.casefold() in names for name in self.cluster.gpu_types]
        kinds = self.cluster.nodes["gpu_type"].tolist()
        left = [len(free) if ours[kind] else 0 for free, kind in zip(self.free, kinds, strict=True)]
        able = [node for node, count in enumerate(left) if count >= gpus]
        if able:
            return self.take({min(able, key=lambda node: (left[node], node)): gpus})
        nodes: dict[int, int] = {}
        for node in sorted(range(len(left)), key=lambda node: (-left[node], node)):
            count = min(left[node], gpus - sum(nodes.values()))
            if count:
                nodes[node] = count
        return self.take(nodes) if sum(nodes.values()) == gpus else None


def names_in(pool: Pool, snapshot: Snapshot) -> tuple[str, ...]:
    """Return the names of the nodes of a pool: its own, or else all those of the snapshot, or numbers; empty = some."""
    nodes = sum(group.count for group in pool.groups)
    if pool.node_names:
        return pool.node_names
    names = snapshot.node_names or tuple(map(str, range(nodes)))
    return names if len(names) == nodes else ()


def gpus_of_running(pool: Pool, snapshot: Snapshot, jobs: list[PresentJob]) -> list[tuple[int, ...]]:
    """Return GPUs for each of these running jobs.

    Jobs that tell their nodes come first, then the others, largest first. If the names of all nodes of the pool are not
    known, each named node, by the GPUs that jobs hold on
    it, becomes the node with the fewest GPUs that are enough. A job whose nodes do not suffice is placed like one
    without nodes.
    """
    cluster = pool.cluster
    number = _numbers(pool, snapshot, jobs)
    places = Places(cluster)
    found: dict[int, tuple[int, ...]] = {}
    for i, job in enumerate(jobs):
        if job.nodes and all(node in number for node in job.nodes):
            gpus = places.take({number[node]: count for node, count in job.nodes.items()})
            if gpus is not None:
                found[i] = gpus
    for i in sorted(range(len(jobs)), key=lambda i: (-jobs[i].gpus, i)):
        if i not in found:
            gpus = places.fit(jobs[i].gpus, jobs[i].gpu_types) or places.fit(jobs[i].gpus)
            if gpus is None:
                held = sum(job.gpus for job in jobs)
                raise GpuschedError(
                    f"snapshot: running jobs hold {held:,} GPUs, but these machines have {cluster.gpus:,}: correct the "
                    "cluster, or the GPUs of the jobs"
                )
            found[i] = gpus
    return [found[i] for i in range(len(jobs))]


def _numbers(pool: Pool, snapshot: Snapshot, jobs: list[PresentJob]) -> dict[str, int]:
    """Return the number of the pool's node for each node that the jobs name."""
    sizes = pool.cluster.nodes["gpus"]
    if names := names_in(pool, snapshot):
        return {name: i for i, name in enumerate(names)}
    held: dict[str, int] = {}
    for job in jobs:
        for node, count in job.nodes.items():
            held[node] = held.get(node, 0) + count
    number: dict[str, int] = {}
    free = sorted(range(len(sizes)), key=lambda node: (int(sizes[node]), node))
    for name in sorted(held, key=lambda name: (-held[name], name)):
        fits = next((node for node in free if sizes[node] >= held[name]), None)
        if fits is not None:
            number[name] = fits
            free.remove(fits)
    return number
