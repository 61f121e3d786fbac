"""The generator of Gavel's continuous traces (Narayanan et al., OSDI 2020), with the random streams of its code."""

from __future__ import annotations

import bisect
import itertools
import math
import random
from typing import Final

import numpy as np

from gpusched_env.errors import WorkloadError
from gpusched_env.portable.elementary import log, power
from gpusched_env.problem.workload import Workload
from gpusched_env.traces.profile_tables import load_measured

SCALE_FACTORS: Final = (1, 2, 4, 8)  # [GPU]
SCALE_BOUNDS: Final = (0.7, 0.8, 0.95, 1.0)  # cumulative probability
LONG: Final = 0.8  # a uniform draw of at least this makes a long job
EXPONENTS: Final = {False: (1.5, 3.0), True: (3.0, 4.0)}  # long? -> bounds of the uniform x in minutes = 10 ** x
WEIGHT: Final = 5.0  # priority weight of a job with priority; other jobs have weight 1
WITH_PRIORITY: Final = 0.2  # share of jobs with priority
SLOS: Final = (1.2, 2.0, 10.0)
SLO_BOUNDS: Final = (0.33, 0.67)


def gavel_jobs(
    seed: int,
    jobs: int,
    max_gpus: int | None = None,
    mean_gap_s: float = 900.0,
    multi_gpu: bool = False,
    priorities: bool = False,
    slos: bool = False,
    ignore_placement: bool = False,
) -> Workload:
    """Draw the same jobs as Gavel's simulator from this seed: arrivals, job types, gangs and steps are equal.

    The gang's run time on V100 is 10**x minutes: x is uniform in [1.5, 3], or in [3, 4] for a fifth of the jobs. The
    job has as many steps as its job type completes on V100 in this time. Profiles are for V100, P100 and K80.
    Attributes: model (the job type), and priority_weight and slo if they are drawn.

    Parameters
    ----------
    seed : Gavel's random streams have the seeds ``seed`` + 2 for jobs, + 3 for arrivals and + 6 for ``slos``
    max_gpus : largest gang size that is drawn [GPU]; if it is below 8, the multi-GPU jobs differ from Gavel's
    multi_gpu : True = gangs of 1, 2, 4 and 8 GPUs, with job types that were measured on them; False = one GPU
    priorities : True = each job has priority weight 5 with probability 0.2, otherwise 1
    slos : True = every job has a deadline of 1.2, 2 or 10 times its run time on V100 after its arrival

    References
    ----------
    stanford-futuredata/gavel, scheduler/utils.py (generate_job) and scheduler/scheduler.py (simulate).
    """
    if not 0 <= mean_gap_s < math.inf:
        raise WorkloadError(f"mean_gap_s is {mean_gap_s!r}: it must be a finite number of seconds >= 0")
    allowed = [size for size in SCALE_FACTORS if max_gpus is None or size <= max_gpus]
    table = load_measured("gavel")
    job_stream, gap_stream, slo_stream = (random.Random(int(seed) + stream) for stream in (2, 3, 6))
    rates = {name: model.rates["V100"] for name, model in table.models.items()}
    names = list(rates)
    models, gangs, steps, weights = [], [], [], []
    for _ in range(jobs):
        # Drawn even if every job has one GPU, because Gavel draws it too: later draws must stay equal to Gavel's
        drawn = job_stream.uniform(0, 1) * SCALE_BOUNDS[len(allowed) - 1]
        gpus = SCALE_FACTORS[bisect.bisect_left(SCALE_BOUNDS, drawn)] if multi_gpu else 1
        seconds = 60 * power(10.0, job_stream.uniform(*EXPONENTS[job_stream.random() >= LONG]))
        model = job_stream.choice(names)
        while gpus not in rates[model]:
            model = job_stream.choice(names)
        if priorities:
            weights.append(WEIGHT if job_stream.uniform(0, 1) <= WITH_PRIORITY else 1.0)
        models.append(model)
        gangs.append(gpus)
        steps.append(seconds * rates[model][gpus][0])
    gaps = (-log(1.0 - gap_stream.random()) * mean_gap_s for _ in range(jobs - 1))
    attributes = {"model": np.array(models)}
    if priorities:
        attributes["priority_weight"] = np.array(weights)
    if slos:
        attributes["slo"] = np.array([SLOS[bisect.bisect_right(SLO_BOUNDS, slo_stream.random())] for _ in range(jobs)])
    profiles, profile = table.for_jobs(models, gangs, ignore_placement=ignore_placement)
    arrival_s = np.fromiter(itertools.accumulate(gaps, initial=0.0), float, jobs)
    return Workload.from_columns(
        arrival_s, gangs, iterations=steps, profiles=profiles, profile=profile, attributes=attributes
    )
