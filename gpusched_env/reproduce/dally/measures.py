"""Further metrics of this card: communication in seconds, tiers at which gangs ran, percentiles of JCT."""

from __future__ import annotations

from typing import Final

import numpy as np

from gpusched_env.event_log import EventLog
from gpusched_env.metrics import job_times, segments
from gpusched_env.problem.cluster import NETWORK, RACK
from gpusched_env.problem.instance import Instance

PERCENTILES: Final = (1, 5, 10, 20, 30, 40, 50, 60, 70, 80, 90, 95, 99)


def measure(instance: Instance, log: EventLog) -> dict[str, float]:
    """Measure one run.

    Returns
    -------
    mean_communication_s : communication that does not overlap with compute, mean over jobs [s]; a second of a gang
        counts once, and not once per GPU
    rack_share, network_share : fraction of the GPU time held by gangs on several machines of one rack, and on several
        racks
    jct_p01_s ... : percentiles of JCT [s]
    """
    times, held = job_times(instance, log), segments(instance, log)
    gpu_seconds = held["gpus"] * (held["free_s"] - held["hold_s"])
    by_tier = {tier: float(gpu_seconds[held["tier"] == tier].sum() / gpu_seconds.sum()) for tier in (RACK, NETWORK)}
    jcts = np.nanpercentile(times["jct_s"], PERCENTILES)
    return {
        "mean_communication_s": float(times["communication_s"].mean()),
        "rack_share": by_tier[RACK],
        "network_share": by_tier[NETWORK],
    } | {name: float(value) for name, value in zip(map(percentile, PERCENTILES), jcts, strict=True)}


def percentile(percent: int) -> str:
    """Return the name of the metric of a percentile."""
    return f"jct_p{percent:02}_s"
