"""Jobs that arrive as a Poisson process and have log-normal run times.

``commits.py`` loads this file in processes of other commits, so it takes from the package only names of its top level.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from gpusched_env import Cluster, Instance, Semantics, Workload

GANGS, SHARES = (1, 2, 4, 8), (0.7, 0.1, 0.15, 0.05)
LOAD: Final = 0.95
MACHINE: Final = 8  # [GPU]
RACK: Final = 25  # [machine]
FREE: Final = Semantics(checkpoint_s=0.0, restore_s=0.0)


def columns(
    jobs: int, gpus: int, seed: int, load: float, shares: dict[int, float]
) -> tuple[np.random.Generator, Workload, Cluster]:
    """Draw jobs with a demand of ``load`` x the GPUs of a cluster; return the generator, the jobs and the cluster."""
    rng = np.random.default_rng(seed)
    gangs = rng.choice(list(shares), jobs, p=list(shares.values()))
    duration_s = np.ceil(rng.lognormal(7.0, 1.5, jobs))
    gap_s = (gangs * duration_s).mean() / (load * gpus)
    workload = Workload.from_columns(np.cumsum(rng.exponential(gap_s, jobs)), gangs, duration_s)
    return rng, workload, Cluster.homogeneous(gpus // MACHINE, MACHINE, RACK)


def poisson(jobs: int, gpus: int, seed: int, load: float = LOAD, sharing: Any = None) -> Instance:
    """Draw jobs of log-normal length with a demand of ``load`` x the cluster's GPUs; all gangs fit into a machine."""
    _, workload, cluster = columns(jobs, gpus, seed, load, dict(zip(GANGS, SHARES, strict=True)))
    return Instance(cluster, workload, None, FREE, sharing)
