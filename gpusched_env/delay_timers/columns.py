"""Observation columns of ``gpusched/DelayTimers-v0``, shared by the observer, the spaces and the documentation."""

from __future__ import annotations

from typing import Final

import numpy as np

from gpusched_env.envs.observation.column import LONGEST_S, SHARE, TIME, Column, indices
from gpusched_env.portable import arrays
from gpusched_env.portable.elementary import log1p

MINUTE_S: Final = 60.0  # [s] below this the scale of times is nearly linear, above it logarithmic
MACHINE_SIZES: Final = (1, 2, 4, 8)  # [GPU] thresholds of free GPUs on a machine

COUNT: Final = "x / (8 + x)"
_SPREADS: Final = ("machine", "rack", "network")

CLASS_COLUMNS: Final = (
    Column("smallest", "smallest demand of the class", "log2(x) / 10, at most 1"),
    Column("beyond_machine", "fraction of the class's demands that exceed a machine", SHARE),
    Column("beyond_rack", "fraction of the class's demands that exceed a rack", SHARE),
    *(
        Column(f"{what}_{tier}", f"{meaning} of gangs placed on tier {tier} in the last 24 h", scale)
        for tier in _SPREADS
        for what, meaning, scale in (
            ("wait_mean", "mean wait", TIME),
            ("wait_sigma", "standard deviation of the waits", TIME),
            ("wait_count", "number", COUNT),
        )
    ),
    Column("expired_machine", "fraction of placements in 24 h beyond a machine x (1 - `beyond_machine`)", SHARE),
    Column("expired_rack", "fraction of placements in 24 h beyond a rack x (1 - `beyond_rack`)", SHARE),
    Column("timer_rack", "rack timer now, mean over the class's demands", TIME),
    Column("timer_network", "network timer now, mean over the class's demands", TIME),
    Column("queued", "waiting jobs", COUNT),
    Column("queued_gpus", "x = GPUs that the waiting jobs demand", "x / (GPUs of the cluster + x)"),
    Column("waited_mean", "mean time since the waiting jobs last held GPUs", TIME),
    Column("waited_max", "longest time since a waiting job last held GPUs", TIME),
    Column("refusing_rack", "jobs that wait although a rack has enough free GPUs", COUNT),
    Column("refusing_network", "jobs that wait although the cluster, but no rack, has enough free GPUs", COUNT),
    Column("arrivals", "arrivals in the last interval", COUNT),
    Column("completions", "completions in the last interval", COUNT),
)
CLUSTER_COLUMNS: Final = (
    Column("free", "free GPUs / GPUs of the cluster", SHARE),
    *(
        Column(f"machines_{size}", f"fraction of machines with at least {size} free GPUs", SHARE)
        for size in MACHINE_SIZES
    ),
    Column("largest_rack", "most free GPUs in one rack / GPUs of the largest rack", SHARE),
    Column("fragmentation", "1 - GPUs free on fully free machines / free GPUs; 0 if none is free", SHARE),
    Column("leases_ending", "GPUs of multi-GPU gangs whose lease ends in the interval / GPUs of the cluster", SHARE),
    *(
        Column(f"running_{tier}", f"GPUs of multi-GPU gangs on tier {tier} / GPUs of the cluster", SHARE)
        for tier in _SPREADS
    ),
    Column("running_worse", "GPUs of multi-GPU gangs that fit a tighter tier / GPUs of the cluster", SHARE),
    Column("efficiency", "mean of compute / iteration time over GPUs of multi-GPU gangs; 1 if none run", SHARE),
    Column("efficiency_of_best", "mean of best iteration time / iteration time over the same GPUs", "as is, at most 1"),
    Column("queued_gpus", "x = GPUs that waiting jobs demand", "x / (GPUs of the cluster + x)"),
    Column("day_sin", "sine of the time of day", SHARE),
    Column("day_cos", "cosine of the time of day", SHARE),
)
COST_COLUMNS: Final = (
    Column("slowdown_rack", "x = time of an iteration in a rack / in a machine", "1 - 1 / x"),
    Column(
        "slowdown_network",
        "x = time of an iteration across racks, if all machines load the uplinks / on the tightest tier that fits",
        "1 - 1 / x",
    ),
    Column("communication", "1 - compute / time of an iteration in a rack, or across racks if no rack fits", SHARE),
    Column("idle_machine", "share of a machine that is left if it holds only gangs of this size", SHARE),
    Column("idle_rack", "share of a rack that is left if it holds only gangs of this size", SHARE),
    Column("demand_beyond_rack", "demand of gangs larger than a rack / demand of all gangs; of all classes", SHARE),
)
CLASS: Final = indices(CLASS_COLUMNS)
CLUSTER: Final = indices(CLUSTER_COLUMNS)


def scaled_time(seconds: np.ndarray) -> np.ndarray:
    """float64, same shape, in [0, 1]: scaled times [s]; 30 d and more, and inf, give 1."""
    return np.minimum(arrays.log1p(np.minimum(seconds, LONGEST_S) / MINUTE_S) / log1p(LONGEST_S / MINUTE_S), 1.0)


def scaled_count(count: np.ndarray) -> np.ndarray:
    """float64, same shape, in [0, 1]: scaled numbers of jobs."""
    return count / (8.0 + count)
