"""Further metrics of this card: communication, tiers, percentiles of JCT, GPUs that leak, jobs that starve."""

from __future__ import annotations

from typing import Final

import numpy as np

from gpusched_env.baselines import make_scheduler
from gpusched_env.baselines.dally.run import DelayRun
from gpusched_env.baselines.dally.scheduler import Dally
from gpusched_env.event_log import EventLog
from gpusched_env.metrics import held_gpus, job_times, segments
from gpusched_env.problem.cluster import NETWORK, RACK
from gpusched_env.problem.instance import Instance

HOUR: Final = 3_600.0  # [s]
SAMPLES_H: Final = (1, 3, 6, 12, 24, 48, 96, 192, 384, 768, 1_536, 3_072, 6_144, 12_288)
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


def measure_leak(instance: Instance, log: EventLog, scheduler: str) -> dict[str, float]:
    """Measure the GPUs that are leased, and those of them that work, at SAMPLES_H.

    Returns
    -------
    leased_at_1h ..., working_at_1h ... : fractions of the cluster's GPUs

    Notes
    -----
    The event log does not show leaked GPUs. So the run is repeated, and leaked GPUs are read from the scheduler.
    """
    player = make_scheduler(scheduler)
    assert isinstance(player, Dally)
    run, working, found = DelayRun(instance, player), held_gpus(instance, log), {}
    for hours in SAMPLES_H:
        run.play(hours * HOUR)
        leaked = int((run.delay.leaker >= 0).sum())
        at_work = float(working.at(hours * HOUR))
        found[f"leased_at_{hours}h"] = (at_work + leaked) / instance.cluster.gpus
        found[f"working_at_{hours}h"] = at_work / instance.cluster.gpus
    return found


def measure_starving(instance: Instance, log: EventLog, scheduler: str) -> dict[str, float]:
    """Measure, for each model, how sensitive its jobs are to the network, and how long they wait.

    Returns
    -------
    nw_MODEL, queueing_MODEL : over the jobs of a model, computing / running time and queueing / running time
    """
    del scheduler
    times, profiles, found = job_times(instance, log), instance.workload.profiles.rows["name"], {}
    for row in np.unique(instance.workload.jobs["profile"]):
        own = times[instance.workload.jobs["profile"] == row]
        service_s = own["service_s"].sum()
        found[f"nw_{profiles[row]}"] = float(1 - own["communication_s"].sum() / service_s)
        found[f"queueing_{profiles[row]}"] = float(own["queueing_s"].sum() / service_s)
    return found
