"""What is measured beyond the usual: small and large jobs apart, and how much is shared."""

from __future__ import annotations

from typing import Final

import numpy as np

from gpusched_env.event_log import COMPLETE, RELEASE, RESUME, START, EventLog
from gpusched_env.instance import Instance
from gpusched_env.metrics import job_times

SMALL_GPUS: Final = 4  # [GPU] the largest gang of a small job, in the paper's tables


def measure(instance: Instance, log: EventLog) -> dict[str, float]:
    """Measure mean JCT and queueing of small and large jobs [s], and what sharing took place.

    Returns
    -------
    small_jct_s, large_jct_s, small_queueing_s, large_queueing_s : 0 where there are no such jobs
    company_share : of the jobs, those that started beside another one
    accumulating_share : of the jobs, those that started with more sub-steps than they take alone
    """
    times, small = job_times(instance, log), instance.workload.jobs["gpus"] <= SMALL_GPUS
    found: dict[str, float] = {}
    for size, rows in (("small", small), ("large", ~small)):
        for name in ("jct_s", "queueing_s"):
            found[f"{size}_{name}"] = float(times[name][rows].mean()) if rows.any() else 0.0
    jobs = len(instance.workload)
    starts = log.events[np.isin(log.events["kind"], (START, RESUME))]
    more = starts["sub_steps"] > instance.passes[instance.job_class[starts["job"]]]
    found["company_share"] = len(joined(instance, log)) / jobs
    found["accumulating_share"] = len(np.unique(starts["job"][more])) / jobs
    return found


def joined(instance: Instance, log: EventLog) -> set[int]:
    """Rows of the jobs that took a GPU which another one held."""
    holders = np.zeros(instance.cluster.gpus, np.int64)
    gangs: dict[int, np.ndarray] = {}
    found = set()
    for number in np.flatnonzero(np.isin(log.events["kind"], (START, RESUME, COMPLETE, RELEASE))).tolist():
        job = int(log.events["job"][number])
        if log.events["kind"][number] in (START, RESUME):
            gang = gangs[job] = log.gang(number)
            if holders[gang].any():
                found.add(job)
            holders[gang] += 1
        else:
            holders[gangs.pop(job)] -= 1
    return found
