"""Profile rules for efficiency tables: they determine which model each job trains and how much work it has."""

from __future__ import annotations

import dataclasses
from typing import Final

import numpy as np

from gpusched_env.problem.workload import Workload
from gpusched_env.traces.profile_tables.dimension_links import DIMENSION_LINKS
from gpusched_env.traces.profile_tables.efficiency_files import load_efficiency

# Rule -> (table, network); the rule for the first network has the name of the table.
EFFICIENCY_RULES: Final[dict[str, tuple[str, str]]] = {
    "dally": ("dally", "nvswitch"),
    **{f"dally-{network}": ("dally", network) for network in DIMENSION_LINKS if network != "nvswitch"},
}
ITERATIONS, ITERATION_S = "total_iterations", "time_per_iteration_s"  # attributes of a job, both given for one GPU


def efficiency_profiles(
    table: str, network: str, rng: np.random.Generator, workload: Workload, gpu_types: tuple[str, ...]
) -> Workload:
    """Assign a model of the table to every job; its iteration time depends on the shape of the gang's placement.

    If the attribute ``model`` of a job names a model of the table, the job gets this model; otherwise it draws a model
    uniformly. All GPU types are assumed to be equally fast.

    If the workload has the attributes ``total_iterations`` and ``time_per_iteration_s``, these are iterations of one
    GPU. In one iteration of a gang, each GPU performs one of them. So a job has ``total_iterations`` / gang size
    iterations, each with a compute time of ``time_per_iteration_s``. Otherwise jobs keep their work, and an iteration
    has the compute time of the table.
    """
    found = load_efficiency(table)
    names = list(found.models)
    drawn = rng.integers(len(names), size=len(workload)).tolist()
    told = workload.attributes.get("model", np.full(len(workload), "")).tolist()
    models = [str(name) if name in found.models else names[k] for name, k in zip(told, drawn, strict=True)]
    jobs = workload.jobs.copy()
    seconds = np.full(len(jobs), np.nan)
    if ITERATIONS in workload.attributes and ITERATION_S in workload.attributes:
        seconds = np.asarray(workload.attributes[ITERATION_S], float)
        jobs["iterations"] = np.asarray(workload.attributes[ITERATIONS], float) / jobs["gpus"]
        jobs["duration_s"] = np.nan
    profiles, jobs["profile"] = found.for_jobs(network, models, seconds.tolist(), jobs["gpus"], gpu_types)
    return dataclasses.replace(workload, jobs=jobs, profiles=profiles)
