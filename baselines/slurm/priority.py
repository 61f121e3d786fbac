"""The factors of Slurm's multifactor priority: numbers from 0 to 1 that do not change while a job waits."""

from __future__ import annotations

from typing import Final

import numpy as np

Array = np.ndarray
SIZE_FACTORS: Final = ("large", "small", "relative")
MINUTE_S: Final = 60.0  # [s]


def size(favor: str, nodes: Array, cpus: Array, all_nodes: int, all_cpus: int, limit_s: Array) -> Array:
    """float64: size factor of jobs, from the nodes and CPUs that they request and those of the cluster.

    ``favor`` "large": mean of the parts of the nodes and of the CPUs; "small": of those left over (PriorityFavorSmall);
    "relative": CPUs / minutes of the time limit / CPUs of the cluster (SMALL_RELATIVE_TO_TIME).
    """
    if favor == "relative":
        return cpus / np.maximum(limit_s / MINUTE_S, 1.0) / all_cpus
    large: Array = 0.5 * (nodes / all_nodes + cpus / all_cpus)
    return large if favor == "large" else 0.5 * ((all_nodes - nodes) / all_nodes + (all_cpus - cpus) / all_cpus)


def of_largest(values: Array) -> Array:
    """float64: each value / the largest value of all; 0 if that is 0 (association, partition, QOS)."""
    largest = values.max(initial=0.0)
    return values / largest if largest > 0.0 else np.zeros(len(values))
