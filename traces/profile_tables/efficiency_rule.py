"""The rules of assign_profiles behind efficiency tables: who trains which model, and how much work that is."""

from __future__ import annotations

import dataclasses
from typing import Final

import numpy as np

from gpusched_env.traces.profile_tables.dimension_links import DIMENSION_LINKS
from gpusched_env.traces.profile_tables.efficiency_files import load_efficiency
from gpusched_env.workload import Workload

# Rule -> table and network: the first network has the table's name alone.
EFFICIENCY_RULES: Final[dict[str, tuple[str, str]]] = {
    "dally": ("dally", "nvswitch"),
    **{f"dally-{network}": ("dally", network) for network in DIMENSION_LINKS if network != "nvswitch"},
}
ITERATIONS, ITERATION_S = "total_iterations", "time_per_iteration_s"  # attributes of a job, on one GPU


def efficiency_profiles(
    table: str, network: str, rng: np.random.Generator, workload: Workload, gpu_types: tuple[str, ...]
) -> Workload:
    """Give every job a model of the table, priced by the shape of its gang's placement on a network.

    A job whose attribute ``model`` names one of the table's models gets that one, any other job draws uniformly. Where
    jobs also tell ``total_iterations`` and ``time_per_iteration_s``, an iteration of a gang is one on each of its GPUs:
    it computes for those seconds, and there are total_iterations / gang of them. Other jobs keep the work they have,
    and an iteration computes as long as the table's. GPUs of all types are taken for equally fast.
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
