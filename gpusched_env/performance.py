"""The rate model: seconds of one iteration on a placement = overlap(compute, communication)."""

from __future__ import annotations

import numpy as np

from gpusched_env.cluster import TIERS, Cluster
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


def iteration_seconds(
    classes: np.ndarray, workload: Workload, cluster: Cluster, network: Network
) -> tuple[np.ndarray, np.ndarray]:
    """Seconds of one iteration of each job class on each tier, all GPUs of one type, and the compute among them.

    A gang on mixed types runs at the largest of its types' values: a synchronous gang waits for its slowest member.

    Returns
    -------
    iteration_s, compute_s : float64 [C, tiers, T]

    Raises
    ------
    WorkloadError : the profiles lack a GPU type of the cluster, or a gang cannot run on one
    """
    compute, communication = compute_and_communication_s(classes, workload, cluster, network)
    overlap = workload.profiles.rows["overlap"][classes[:, 0]]
    return overlapped(compute, communication, overlap[:, None, None]), compute


def compute_and_communication_s(
    classes: np.ndarray, workload: Workload, cluster: Cluster, network: Network
) -> tuple[np.ndarray, np.ndarray]:
    """Two float64 [C, tiers, T]: seconds of compute, and of communication on an idle network, of one iteration.

    Raises
    ------
    WorkloadError : the profiles lack a GPU type of the cluster, or a gang cannot run on one
    """
    profiles = workload.profiles
    missing = [name for name in cluster.gpu_types if name not in profiles.gpu_types]
    if missing:
        raise WorkloadError(
            f"workload {workload.name!r}: its profiles give no compute time for the cluster's GPU type {missing[0]!r}; "
            f"they know {', '.join(profiles.gpu_types)}; name such a type, as in --cluster 16x4@{profiles.gpu_types[0]}"
        )
    types = [profiles.gpu_types.index(name) for name in cluster.gpu_types]
    rows = profiles.rows[classes[:, 0]]
    shape = (len(classes), len(TIERS), len(types))
    compute = np.broadcast_to(profiles.compute_s[classes[:, 0]][:, None, types], shape).copy()
    formula = communication_s(network, classes[:, 1], rows["gradient_bytes"])
    communication = np.broadcast_to(formula[:, :, None], shape).copy()
    class_of = {(profile, gang): index for index, (profile, gang) in enumerate(classes.tolist())}
    for row in np.sort(profiles.measured, order="tier"):  # inner tiers first: an outer row replaces what they gave
        index = class_of.get((int(row["profile"]), int(row["gpus"])))
        if index is not None and row["gpu_type"] in types:
            place = (index, slice(int(row["tier"]), None), types.index(row["gpu_type"]))
            compute[place], communication[place] = row["compute_s"], row["communication_s"]
    if np.isinf(compute).any():
        index, _, column = np.argwhere(np.isinf(compute))[0].tolist()
        name, gpu_type = str(rows["name"][index]), cluster.gpu_types[column]
        raise WorkloadError(
            f"workload {workload.name!r}: {name!r} on {classes[index, 1]} GPUs cannot run on GPU type {gpu_type!r}; "
            "leave out these jobs, or the machines of that type"
        )
    return compute, communication


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
    for tier, slowest in np.ndindex(iteration_s.shape[1:]):
        as_fast = iteration_s[:, tier, :] <= iteration_s[:, tier, slowest, None]
        for used in np.unique(as_fast, axis=0):
            classes = (as_fast == used).all(axis=1)
            sizes = np.where(used[types], cluster.nodes["gpus"], 0)
            groups = (sizes, np.bincount(cluster.nodes["rack"], weights=sizes), np.array([sizes.sum()]))
            fitting = classes & (gangs <= groups[tier].max())
            if fitting.any():
                ideal[fitting] = np.minimum(ideal[fitting], iteration_s[fitting, tier, slowest])
    return ideal
