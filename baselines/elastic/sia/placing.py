"""Sia's placement: GPUs of nodes of one kind for jobs whose numbers of GPUs are decided."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

Wanted = Sequence[tuple[int, int]]  # (job, number of GPUs)


def place(free: np.ndarray, capacity: int, wanted: Wanted, held: Mapping[int, np.ndarray]) -> dict[int, np.ndarray]:
    """Return the GPUs of each node for each job: on the fewest nodes if possible.

    Jobs whose number of GPUs stays keep them, unless placing all jobs afresh leaves fewer jobs on too many nodes.
    """
    largest_first = sorted(wanted, key=lambda each: -each[1])
    kept = {job: held[job] for job, gpus in wanted if job in held and held[job].sum() == gpus}
    first, apart = _fill(free, capacity, largest_first, held, kept)
    if apart:
        again, fewer = _fill(free, capacity, largest_first, held, {})
        if fewer < apart:
            return again
    return first


def _fill(
    free: np.ndarray, capacity: int, wanted: Wanted, held: Mapping[int, np.ndarray], kept: Mapping[int, np.ndarray]
) -> tuple[dict[int, np.ndarray], int]:
    """Place the jobs that are not ``kept``; return all placements, and the jobs on more nodes than necessary."""
    free = free - sum(kept.values(), np.zeros_like(free))
    placed, apart = dict(kept), 0
    for job, gpus in wanted:
        if job in kept:
            continue
        nodes, left = np.zeros_like(free), gpus
        own: list[int] = held.get(job, nodes).tolist()
        whole = sorted(np.flatnonzero(free == capacity).tolist(), key=lambda node: (-own[node], node))
        for node in whole[: left // capacity]:
            nodes[node] = capacity
            left -= capacity
        rest = free - nodes
        fitting = np.flatnonzero(rest >= left).tolist() if 0 < left < capacity else []
        if fitting:  # a node that it holds, then the one with the fewest free GPUs
            nodes[min(fitting, key=lambda node: (-min(own[node], left), rest[node], node))] += left
            left = 0
        if left:
            apart += 1
            for node in range(len(free)):  # free GPUs in turn
                taken = min(left, int(free[node] - nodes[node]))
                nodes[node] += taken
                left -= taken
        placed[job] = nodes
        free = free - nodes
    return placed, apart
