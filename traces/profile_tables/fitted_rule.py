"""Profile rule for tables of fitted models: it determines which application each job trains."""

from __future__ import annotations

import numpy as np

from gpusched_env.traces.profile_tables.fitted_files import load_fitted
from gpusched_env.workload import Profiles, Workload


def fitted_profiles(
    table: str, rng: np.random.Generator, workload: Workload, gpu_types: tuple[str, ...]
) -> tuple[Profiles, np.ndarray]:
    """Assign an application of the table to every job, with the application's initial batch on each GPU, as in Pollux.

    If the attribute ``model`` of a job names an application of the table, the job gets this application; otherwise it
    draws an application uniformly.

    Raises
    ------
    WorkloadError : a GPU type that was not measured
    """
    found = load_fitted(table)
    names = list(found.applications)
    drawn = rng.integers(len(names), size=len(workload)).tolist()
    told = workload.attributes.get("model", np.full(len(workload), "")).tolist()
    chosen = [str(name) if name in found.applications else names[k] for name, k in zip(told, drawn, strict=True)]
    gangs = workload.jobs["gpus"].astype(np.int64)
    batches = gangs * [found.applications[name].initial_batch for name in chosen]
    return found.for_jobs(chosen, batches, gangs, gpu_types)
