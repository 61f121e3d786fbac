"""Further metrics of this card: metrics of small and of large jobs, and the fractions of jobs that share GPUs."""

from __future__ import annotations

from typing import Final

import numpy as np

from gpusched_env.event_log import COMPLETE, RELEASE, RESUME, START, EventLog
from gpusched_env.metrics import job_times
from gpusched_env.problem.instance import Instance

SMALL_GPUS: Final = 4  # [GPU] the largest gang of a small job, in the paper's tables


def measure(instance: Instance, log: EventLog) -> dict[str, float]:
    """Measure mean JCT and queueing of small and large jobs [s], and how many jobs shared GPUs.

    Returns
    -------
    small_jct_s, large_jct_s, small_queueing_s, large_queueing_s : means [s]; 0 if there are no such jobs
    company_share : fraction of jobs that started on a GPU that another job held
    accumulating_share : fraction of jobs that started with more sub-steps than they need alone
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
    """Return the rows of the jobs that took a GPU that another job held."""
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
