"""Profile rules for tables of fitted models: they determine which application each job trains."""

from __future__ import annotations

from functools import cache

import numpy as np

from gpusched_env.errors import WorkloadError, unknown_name
from gpusched_env.problem.workload import Profiles, Workload
from gpusched_env.traces.profile_tables.fitted_files import load_fitted


def fitted_profiles(
    table: str, rng: np.random.Generator, workload: Workload, gpu_types: tuple[str, ...]
) -> tuple[Profiles, np.ndarray]:
    """Assign an application of the table to every job, with the application's initial batch on each GPU, as in Pollux.

    If the attribute ``model`` of a job names an application of the table, the job gets this application; otherwise it
    draws an application uniformly.
    """
    found = load_fitted(table)
    names = list(found.applications)
    drawn = rng.integers(len(names), size=len(workload)).tolist()
    told = workload.attributes.get("model", np.full(len(workload), "")).tolist()
    chosen = [str(name) if name in found.applications else names[k] for name, k in zip(told, drawn, strict=True)]
    gangs = workload.jobs["gpus"].astype(np.int64)
    batches = gangs * [found.applications[name].initial_batch for name in chosen]
    return found.for_jobs(chosen, batches, gangs, gpu_types)


def computed_profiles(
    table: str, rng: np.random.Generator, workload: Workload, gpu_types: tuple[str, ...]
) -> tuple[Profiles, np.ndarray]:
    """Assign an application of the table to every job, uniformly, and leave its communication to the network.

    The compute time is the fitted one of the application's initial batch on each GPU. Communication times were fitted
    on the authors' machines; here the network of the scenario determines them, from the size of the gradient.
    """
    profiles = _alone(table)
    unknown = [name for name in gpu_types if name not in profiles.gpu_types]
    if unknown:
        raise WorkloadError(f"profiles '{table}-computed': {unknown_name('GPU type', unknown[0], profiles.gpu_types)}")
    return profiles, rng.integers(len(profiles.rows), size=len(workload), dtype=np.int32)


@cache
def _alone(table: str) -> Profiles:
    found = load_fitted(table)
    gangs = [1] * len(found.applications)
    batches = [application.initial_batch for application in found.applications.values()]
    fitted, _ = found.for_jobs(list(found.applications), batches, gangs)
    return Profiles(fitted.rows, fitted.compute_s, fitted.gpu_types).read_only()
