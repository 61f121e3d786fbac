"""The rate model: seconds of one iteration on a placement = overlap(compute, communication)."""

from __future__ import annotations

import numpy as np

from gpusched_env.cluster import Cluster
from gpusched_env.errors import WorkloadError
from gpusched_env.network import Network, communication_s
from gpusched_env.workload import Workload


def overlapped(compute_s: np.ndarray, communication_s: np.ndarray, overlap: np.ndarray) -> np.ndarray:
    """p-norm of compute and communication [s]: p = 1 adds them, p = inf hides the shorter (Pollux, OSDI 2021)."""
    longer = np.maximum(compute_s, communication_s)
    ratio = np.minimum(compute_s, communication_s) / longer
    with np.errstate(divide="ignore"):
        norm = longer * (1.0 + ratio**overlap) ** (1.0 / overlap)
    return np.where(np.isinf(overlap), longer, norm)


def job_classes(workload: Workload) -> tuple[np.ndarray, np.ndarray]:
    """Group jobs that share profile and gang size, so that rates are tabulated once.

    Returns
    -------
    classes : int64 [C, 2], profile row and gang size of each class
    of_job : int32 [J], class of each job
    """
    pairs = np.stack([workload.jobs["profile"], workload.jobs["gpus"]], axis=1).astype(np.int64)
    classes, of_job = np.unique(pairs, axis=0, return_inverse=True)
    return classes, of_job.reshape(-1).astype(np.int32)


def iteration_seconds(classes: np.ndarray, workload: Workload, cluster: Cluster, network: Network) -> np.ndarray:
    """float64 [C, tiers, T]: seconds of one iteration of each job class on each tier, all GPUs of one type.

    A gang on mixed types runs at the largest of its types' values: a synchronous gang waits for its slowest member.

    Raises
    ------
    WorkloadError : the profiles lack a GPU type of the cluster
    """
    profiles = workload.profiles
    missing = [name for name in cluster.gpu_types if name not in profiles.gpu_types]
    if missing:
        raise WorkloadError(
            f"workload {workload.name!r}: its profiles give no compute time for the cluster's GPU type {missing[0]!r}; "
            f"they know {', '.join(profiles.gpu_types)}"
        )
    rows = profiles.rows[classes[:, 0]]
    compute = profiles.compute_s[classes[:, 0]][:, [profiles.gpu_types.index(name) for name in cluster.gpu_types]]
    communication = communication_s(network, classes[:, 1], rows["gradient_bytes"])
    return overlapped(compute[:, None, :], communication[:, :, None], rows["overlap"][:, None, None])


def ideal_iteration_seconds(gangs: np.ndarray, iteration_s: np.ndarray, cluster: Cluster) -> np.ndarray:
    """float64 [C]: seconds of one iteration on the best placement that the empty cluster offers each job class.

    For each GPU type: use this type and all that are faster for the job, on the tightest tier where they are enough;
    the slowest of them sets the pace. The ideal is the best of these.

    Parameters
    ----------
    gangs : int [C], gang sizes
    iteration_s : float64 [C, tiers, T], see :func:`iteration_seconds`
    """
    ideal = np.full(len(gangs), np.inf)
    types = cluster.nodes["gpu_type"]
    for slowest in range(iteration_s.shape[2]):
        # Compute time alone orders the types, so any tier tells which ones are at least as fast.
        as_fast = iteration_s[:, 0, :] <= iteration_s[:, 0, slowest, None]
        for used in np.unique(as_fast, axis=0):
            classes = (as_fast == used).all(axis=1)
            sizes = np.where(used[types], cluster.nodes["gpus"], 0)
            by_rack = np.bincount(cluster.nodes["rack"], weights=sizes)
            for tier, room in enumerate((sizes.max(), by_rack.max(), sizes.sum())):
                fitting = classes & (gangs <= room)
                ideal[fitting] = np.minimum(ideal[fitting], iteration_s[fitting, tier, slowest])
    return ideal
