"""Mixes of a few one-GPU jobs for nodes of different speed, after the set-up of HadarE's evaluation."""

from __future__ import annotations

from typing import Final

import numpy as np

from gpusched_env.portable import draws
from gpusched_env.problem.workload import Profiles, Workload

# Speeds of the GPU types relative to the fastest; each node has one type. The numbers of nodes are quoted from memory
# and were not checked against the paper; the speeds are choices.
AWS_SPEEDS: Final = (1.0, 0.65, 0.2)
LAB_SPEEDS: Final = (1.0, 0.8, 0.6, 0.45, 0.12)
ITERATIONS_PER_S: Final = 10.0  # at speed 1 (choice; without effect)
VARIATION: Final = (0.8, 1.25)  # bounds of the uniform factor on the speed of a job on a GPU type (choice)
HOURS: Final = (0.3, 3.0)  # [h] bounds of the run time on the GPU type that is fastest for the job, drawn uniformly


def type_names(speeds: tuple[float, ...]) -> tuple[str, ...]:
    """Return a name for each GPU type that gives its speed in percent, such as "speed-65"."""
    return tuple(f"speed-{round(100 * speed)}" for speed in speeds)


def hadare_jobs(
    rng: np.random.Generator, jobs: int, max_gpus: int | None = None, lab: bool = False, varied: bool = False
) -> Workload:
    """Draw one-GPU jobs that all arrive at time 0. Each has its own model, and its work is given by iterations.

    Parameters
    ----------
    lab : True = the five GPU types of LAB_SPEEDS; False = the three GPU types of AWS_SPEEDS
    varied : True = the speed of each job on each GPU type is multiplied by a factor drawn uniformly from VARIATION

    References
    ----------
    Sultana et al., arXiv 2503.10918: numbers of nodes and jobs, quoted from memory. Sizes and speeds are choices.
    """
    speeds = LAB_SPEEDS if lab else AWS_SPEEDS
    hours = draws.uniform(rng, *HOURS, jobs)
    factors = draws.uniform(rng, *VARIATION, (jobs, len(speeds)))
    rates = ITERATIONS_PER_S * np.array(speeds) * (factors if varied else 1.0) * np.ones((jobs, 1))
    plain = dict(batch=1, gradient_bytes=0.0, memory_bytes=0.0, skew=0.0, overlap=1.0)
    rows = [dict(plain, name=f"model-{i}", compute_s=tuple(1.0 / each)) for i, each in enumerate(rates)]
    return Workload.from_columns(
        np.zeros(jobs),
        np.ones(jobs, np.int64),
        iterations=hours * 3_600.0 * rates.max(axis=1),
        profiles=Profiles.from_rows(rows, type_names(speeds)),
        profile=np.arange(jobs),
        attributes={"ideal_h": hours},
    )
