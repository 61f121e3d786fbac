"""The job list with four columns, in which excerpts of several logs are published."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from gpusched_env.traces.parsing.bad_rows import skippable
from gpusched_env.traces.parsing.columns import JobColumns
from gpusched_env.traces.parsing.streams import csv_rows

JOB_LIST: Final = ("job_id", "arrival_s", "service_sec", "gpu_count")


def add_job_list(jobs: JobColumns, path: Path) -> None:
    """Add every row of a file with the columns ``job_id,arrival_s,service_sec,gpu_count`` to ``jobs``.

    ``jobs`` must have original_id as its only attribute.
    """
    for place, (original, arrival, service, gpus) in csv_rows(path, JOB_LIST):
        with skippable:
            jobs.refuse_duplicate(place, "job_id", original)
            when, seconds = place.seconds("arrival_s", arrival), place.seconds("service_sec", service)
            jobs.add(place, when, place.gpus("gpu_count", gpus), seconds, original)
