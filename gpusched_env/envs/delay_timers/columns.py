"""The columns of what ``gpusched/DelayTimers-v0`` shows: one table that observer, spaces and docs share."""

from __future__ import annotations

from typing import Final

import numpy as np

from gpusched_env.envs.observation.columns import LONGEST_S, Column
from gpusched_env.portable import arrays
from gpusched_env.portable.elementary import log1p

MINUTE_S: Final = 60.0  # [s] where the logarithm of a time bends
MACHINE_SIZES: Final = (1, 2, 4, 8)  # [GPU] free on a machine

_TIME: Final = "log: ln(1 + x/60 s) / ln(1 + 30 d/60 s), at most 1"
_SHARE: Final = "as is"
_COUNT: Final = "x / (8 + x)"
_SPREADS: Final = ("machine", "rack", "network")

CLASS_COLUMNS: Final = (
    Column("smallest", "smallest demand of the class", "log2(x) / 10, at most 1"),
    Column("beyond_machine", "share of the class's demands that exceed a machine", _SHARE),
    Column("beyond_rack", "share of the class's demands that exceed a rack", _SHARE),
    *(
        Column(f"{what}_{tier}", f"{meaning} of gangs placed within a {tier} in the last 24 h", scale)
        for tier in _SPREADS
        for what, meaning, scale in (
            ("wait_mean", "mean wait", _TIME),
            ("wait_sigma", "standard deviation of the waits", _TIME),
            ("wait_count", "number", _COUNT),
        )
    ),
    Column(
        "expired_machine", "share of the placements of the last 24 h that a machine could hold but none did", _SHARE
    ),
    Column("expired_rack", "share of the placements of the last 24 h that a rack could hold but none did", _SHARE),
    Column("timer_rack", "rack timer now, mean over the class's demands", _TIME),
    Column("timer_network", "network timer now, mean over the class's demands", _TIME),
    Column("queued", "jobs that wait", _COUNT),
    Column("queued_gpus", "GPUs that they demand, x", "x / (GPUs of the cluster + x)"),
    Column("waited_mean", "mean time since they last held GPUs", _TIME),
    Column("waited_max", "longest time since one last held GPUs", _TIME),
    Column("refusing_rack", "jobs that wait though some rack has GPUs enough", _COUNT),
    Column("refusing_network", "jobs that wait though the cluster has GPUs enough, but no rack", _COUNT),
    Column("arrivals", "arrivals in the last interval", _COUNT),
    Column("completions", "completions in the last interval", _COUNT),
)
CLUSTER_COLUMNS: Final = (
    Column("free", "free GPUs / GPUs of the cluster", _SHARE),
    *(
        Column(f"machines_{size}", f"share of machines with at least {size} free GPUs", _SHARE)
        for size in MACHINE_SIZES
    ),
    Column("largest_rack", "most free GPUs in one rack / GPUs of the largest rack", _SHARE),
    Column("fragmentation", "1 - GPUs free on fully free machines / free GPUs; 0 if none is free", _SHARE),
    Column("leases_ending", "GPUs whose lease ends within the interval / GPUs of the cluster", _SHARE),
    *(
        Column(f"running_{tier}", f"GPUs of gangs placed within a {tier} / GPUs of the cluster", _SHARE)
        for tier in _SPREADS
    ),
    Column("running_worse", "GPUs of gangs that a nearer tier could hold / GPUs of the cluster", _SHARE),
    Column("efficiency", "mean of compute / iteration time over GPUs of gangs that run; 1 if none does", _SHARE),
    Column("efficiency_of_best", "the same of best iteration time / iteration time", "as is, at most 1"),
    Column("queued_gpus", "GPUs that waiting jobs demand, x", "x / (GPUs of the cluster + x)"),
    Column("day_sin", "sine of the time of day", _SHARE),
    Column("day_cos", "cosine of the time of day", _SHARE),
)
CLASS_INDEX: Final = {column.name: i for i, column in enumerate(CLASS_COLUMNS)}
CLUSTER_INDEX: Final = {column.name: i for i, column in enumerate(CLUSTER_COLUMNS)}


def scaled_time(seconds: np.ndarray) -> np.ndarray:
    """float64, same shape, in [0, 1]: a time [s]; 30 d and more, and inf, read as 1."""
    return np.minimum(arrays.log1p(np.minimum(seconds, LONGEST_S) / MINUTE_S) / log1p(LONGEST_S / MINUTE_S), 1.0)


def scaled_count(count: np.ndarray) -> np.ndarray:
    """float64, same shape, in [0, 1]: a number of jobs."""
    return count / (8.0 + count)
