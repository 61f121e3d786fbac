"""Finish-time fairness: the JCT of a job / its run time on a private share of the cluster."""

from __future__ import annotations

import numpy as np

from gpusched_env.event_log import EventLog
from gpusched_env.metrics.dependencies import arrivals
from gpusched_env.metrics.series import jobs_in_system
from gpusched_env.problem.instance import Instance


def finish_time_fairness(instance: Instance, log: EventLog, finish_s: np.ndarray) -> np.ndarray:
    """Return the finish-time fairness rho of each job; float64 [J], NaN = unfinished.

    If rho is at most 1, the job was no slower than on a private share of the cluster. ``finish_s`` : float64 [J],
    completion times [s]; NaN = unfinished.

    Notes
    -----
    ``rho = JCT / T_id`` with ``T_id = d max(1, g N_avg / GPUs)``. d is the run time of the gang of g GPUs on the ideal
    placement, or its time limit if it is killed earlier. N_avg is the mean number of jobs in the system during the life
    of the job, including the job itself. So the private share of the job is ``GPUs / N_avg``. If this share is smaller
    than the gang, the run time is multiplied by gang size / share.

    References
    ----------
    Mahajan et al., "Themis: Fair and Efficient GPU Cluster Scheduling", NSDI 2020, section 3. The paper does not say
    how a share smaller than the gang affects the run time; the proportional growth is our interpretation.
    """
    jobs = instance.workload.jobs
    arrival = arrivals(instance, log)
    jct = finish_s - arrival
    population = jobs_in_system(log)
    job_seconds = population.integral(finish_s) - population.integral(arrival)
    with np.errstate(invalid="ignore", divide="ignore"):
        contenders = np.where(jct > 0, job_seconds / jct, 1.0)
    share = np.maximum(1.0, jobs["gpus"] * contenders / instance.cluster.gpus)
    rho: np.ndarray = jct / (instance.shortest_s * share)
    return rho
