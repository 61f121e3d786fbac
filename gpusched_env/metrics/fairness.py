"""Finish-time fairness: a job's JCT / its run time on a private share of the cluster."""

from __future__ import annotations

import numpy as np

from gpusched_env.event_log import EventLog
from gpusched_env.instance import Instance
from gpusched_env.metrics.series import jobs_in_system


def finish_time_fairness(instance: Instance, log: EventLog, finish_s: np.ndarray) -> np.ndarray:
    """float64 [J]: rho of each job, NaN if unfinished; at most 1 = no slower than on a private share of the cluster.

    Parameters
    ----------
    instance : the problem that was played
    log : a valid log
    finish_s : float64 [J], completion times [s], NaN = unfinished

    Notes
    -----
    ``rho = JCT / T_id`` with ``T_id = d max(1, g N_avg / GPUs)``. d is the run time of the gang of g GPUs on the ideal
    placement; it is stretched if the job's private share, ``GPUs / N_avg``, is smaller than the gang. N_avg is the mean
    number of jobs in the system over the job's life, the job included.

    References
    ----------
    Mahajan et al., "Themis: Fair and Efficient GPU Cluster Scheduling", NSDI 2020, section 3. It is our reading that a
    share smaller than the gang stretches the run time in proportion.
    """
    jobs = instance.workload.jobs
    arrival = jobs["arrival_s"]
    jct = finish_s - arrival
    population = jobs_in_system(log)
    job_seconds = population.integral(finish_s) - population.integral(arrival)
    with np.errstate(invalid="ignore", divide="ignore"):
        contenders = np.where(jct > 0, job_seconds / jct, 1.0)
    share = np.maximum(1.0, jobs["gpus"] * contenders / instance.cluster.gpus)
    rho: np.ndarray = jct / (instance.ideal_s * share)
    return rho
