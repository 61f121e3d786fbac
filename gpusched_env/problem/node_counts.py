"""The number of nodes over which a gang must be spread, as in ``sbatch --nodes=MIN-MAX`` or in pods of a few GPUs.

A job with node counts consists of ``max_nodes`` equal parts. A part is never split over nodes, and one node holds at
most ``(max_nodes - 1) // (min_nodes - 1)`` parts: with more, the gang might be on fewer than ``min_nodes`` nodes. With
both numbers equal to n, a gang has an equal share of its GPUs on each of n nodes. With 1 and p, its p parts, such as
pods, go wherever there is room for one.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from gpusched_env.errors import ScenarioError, WorkloadError
from gpusched_env.problem.cluster import Cluster
from gpusched_env.problem.workload import MAX_NODES, MIN_NODES, Workload

NO_DEMAND: Final = 0


class NodeCounts(NamedTuple):
    """What jobs demand of nodes; D = number of different demands, of which the first is none."""

    of_job: np.ndarray  # int32 [J], demand of each job
    part: np.ndarray  # int64 [D] [GPU] of a part; 0 = the gang may be split in any way
    most: np.ndarray  # int64 [D] [GPU] on one node at most


def node_counts(workload: Workload, cluster: Cluster) -> NodeCounts | None:
    """Return what the jobs demand of nodes on a cluster; None = nothing that could matter there."""
    counts = demands_of(workload, cluster)
    if counts is not None:
        _refuse_beyond(counts, workload, cluster)
    return counts


def demands_of(workload: Workload, cluster: Cluster) -> NodeCounts | None:
    """Return the same, also of jobs that the cluster can never hold."""
    if MAX_NODES not in workload.attributes:
        return None
    least, most = (workload.told(name).astype(np.int64) for name in (MIN_NODES, MAX_NODES))
    gpus = workload.jobs["gpus"].astype(np.int64)
    part = np.where(most > 0, gpus // np.maximum(most, 1), 0)
    most_gpus = part * np.where(least > 1, (most - 1) // np.maximum(least - 1, 1), most)
    largest = int(cluster.nodes["gpus"].max())
    free = (part == 0) | (gpus == 1) | ((part == 1) & (most_gpus >= np.minimum(gpus, largest)))
    if free.all():
        return None
    if workload.sizes is not None and (workload.sizes.group[~free] >= 0).any():
        raise ScenarioError(
            f"workload: {MAX_NODES} of jobs with several sizes is unknown; give each one size, or set ignore_nodes"
        )
    demands = np.stack([np.where(free, NO_DEMAND, part), np.where(free, NO_DEMAND, most_gpus)], axis=1)
    found, of_job = np.unique(np.append(demands, [[0, 0]], axis=0), axis=0, return_inverse=True)
    return NodeCounts(of_job.reshape(-1)[:-1].astype(np.int32), found[:, 0], found[:, 1])


def rooms(counts: NodeCounts, cluster: Cluster) -> np.ndarray:
    """int64 [D, N] [GPU]: what a gang with each demand may use of each node of the empty cluster."""
    gpus = cluster.nodes["gpus"].astype(np.int64)
    part = counts.part[:, None]
    room = np.minimum(gpus // np.maximum(part, 1) * part, counts.most[:, None])
    return np.where(part == NO_DEMAND, gpus, room)


def usable_rooms(workload: Workload, cluster: Cluster) -> tuple[np.ndarray, np.ndarray]:
    """Return int64 [D, N] [GPU], the :func:`rooms` of the jobs' demands, and int32 [J], the demand of each job."""
    counts = demands_of(workload, cluster)
    if counts is None:
        return cluster.nodes["gpus"].astype(np.int64)[None], np.zeros(len(workload), np.int32)
    return rooms(counts, cluster), counts.of_job


def room_in(sets: np.ndarray, usable: np.ndarray) -> np.ndarray:
    """int64 [..., D] [GPU]: what gangs may use of sets of nodes, Boolean [..., N], by the rows of :func:`rooms`."""
    return np.stack([(sets * row).sum(axis=-1) for row in usable], axis=-1)  # whole numbers, without BLAS


def _refuse_beyond(counts: NodeCounts, workload: Workload, cluster: Cluster) -> None:
    held = rooms(counts, cluster).sum(axis=1)[counts.of_job]
    bad = workload.jobs["gpus"] > held
    if bad.any():
        row = int(np.argmax(bad))
        job, part = workload.jobs[row], counts.part[counts.of_job[row]]
        raise WorkloadError(
            f"workload {workload.name!r}, job {job['id']}: demands {job['gpus'] // part} parts of {part} GPUs, none of "
            f"them split over nodes, and the nodes of the empty cluster have room for "
            f"{held[row] // part}: enlarge the cluster, or set ignore_nodes"
        )
