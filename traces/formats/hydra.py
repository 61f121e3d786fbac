"""Hydra (Yang et al., IEEE Transactions on Computers 2023): jobs whose run time depends on the GPU type."""

from __future__ import annotations

import math
from array import array
from pathlib import Path
from typing import Final

import numpy as np

from gpusched_env.problem.workload import PROFILE_DTYPE, Profiles, Workload
from gpusched_env.traces.parsing.bad_rows import skippable
from gpusched_env.traces.parsing.columns import JobColumns
from gpusched_env.traces.parsing.report import ReadReport
from gpusched_env.traces.parsing.streams import csv_rows

GPU_TYPES: Final = ("A100", "V100", "GTX2080Ti")
COLUMNS: Final = ("job_name", "norm_job_submit_time", "ddl", *GPU_TYPES)


def read_hydra(path: Path) -> tuple[Workload, ReadReport]:
    """Read a job list with the columns ``job_name,norm_job_submit_time,ddl,A100,V100,GTX2080Ti``.

    The last three columns are the run times in seconds on these GPU types. For each job, one of the three was measured
    in PAI, on a T4, P100 or V100; the authors drew the other two at random and renamed the GPU types
    (preprocess.ipynb). Every job takes one GPU, because the jobs are PAI tasks with one instance on one whole GPU. An
    iteration takes one second on an A100. Each job has its own profile, because no two jobs have the same ratios of run
    times. Memory, gradients and batch are unknown. The job id is the row number from 0. Attributes: original_id,
    deadline_s (seconds after the submission, inf = none).
    """
    jobs = JobColumns(ReadReport("hydra", str(path)), "original_id", numbers={"deadline_s": "d"})
    run_times = array("d")  # [s] for each kept job, one value per GPU type
    for place, (original, submitted, deadline, *texts) in csv_rows(path, COLUMNS):
        with skippable:
            jobs.refuse_duplicate(place, "job_name", original)
            when = place.seconds("norm_job_submit_time", submitted)
            left = math.inf if deadline == "inf" else place.seconds("ddl", deadline) - when
            seconds = [place.seconds(name, text) for name, text in zip(GPU_TYPES, texts, strict=True)]
            if 0 in seconds:
                jobs.drop(place, "zero run time")
                continue
            if not all(0 < other / seconds[0] < math.inf for other in seconds):
                place.refuse(
                    GPU_TYPES[0], texts[0], "cannot be compared with the other run times; correct or remove the row"
                )
            jobs.add(place, when, 1, seconds[0], original, deadline_s=left)
            run_times.extend(seconds)
    return jobs.workload("hydra", dated=False, models=_models(jobs, run_times) if run_times else None)


def _models(jobs: JobColumns, run_times_s: array[float]) -> tuple[Profiles, np.ndarray]:
    """Make one profile for each job; an iteration takes one second on the first GPU type."""
    rows = np.zeros(len(jobs.ids), PROFILE_DTYPE)
    rows["name"] = [f"job {number}" for number in jobs.ids]
    rows["batch"] = rows["overlap"] = 1
    times = np.array(run_times_s).reshape(-1, len(GPU_TYPES))
    return Profiles(rows, times / times[:, :1], GPU_TYPES), np.arange(len(rows))
