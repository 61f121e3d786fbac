"""Tiresias (Gu et al., NSDI 2019): the job list of its simulator."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from gpusched_env.problem.workload import Workload
from gpusched_env.traces.parsing.bad_rows import skippable
from gpusched_env.traces.parsing.columns import JobColumns
from gpusched_env.traces.parsing.report import ReadReport
from gpusched_env.traces.parsing.streams import csv_rows

COLUMNS: Final = ("job_id", "num_gpu", "submit_time", "model_name", "duration")


def read_tiresias(path: Path) -> tuple[Workload, ReadReport]:
    """Read a job list with the columns ``job_id,num_gpu,submit_time,iterations,model_name,duration,interval``.

    All times are in seconds. Work is ``duration``; ``iterations`` and ``interval`` (time to the next job) are not read.
    The job id is the row number from 0. Attributes: original_id, model.
    """
    jobs = JobColumns(ReadReport("tiresias", str(path)), "original_id", "model")
    for place, (original, gpus, submitted, model, duration) in csv_rows(path, COLUMNS):
        with skippable:
            jobs.refuse_duplicate(place, "job_id", original)
            when, seconds = place.seconds("submit_time", submitted), place.seconds("duration", duration)
            jobs.add(place, when, place.gpus("num_gpu", gpus), seconds, original, model)
    return jobs.workload("tiresias", dated=False)
