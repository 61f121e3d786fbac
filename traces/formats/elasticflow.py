"""ElasticFlow (Gu et al., ASPLOS 2023): Philly virtual clusters with a model and a deadline for every job."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from gpusched_env.problem.workload import Workload
from gpusched_env.traces.parsing.bad_rows import skippable
from gpusched_env.traces.parsing.columns import JobColumns
from gpusched_env.traces.parsing.report import ReadReport
from gpusched_env.traces.parsing.streams import csv_rows

COLUMNS: Final = ("job_id", "submit_time", "num_gpu", "duration", "ddl", "model_name", "batch_size")


def read_elasticflow(path: Path) -> tuple[Workload, ReadReport]:
    """Read a job list whose times are in seconds.

    ``duration`` is the run time. ``ddl`` is the deadline and has the same origin as ``submit_time``. The job id is the
    row number from 0. Attributes: original_id, model, batch_size, deadline_s (seconds after the submission).
    """
    jobs = JobColumns(
        ReadReport("elasticflow", str(path)), "original_id", "model", "batch_size", numbers={"deadline_s": "d"}
    )
    for place, (original, submitted, gpus, duration, deadline, model, batch) in csv_rows(path, COLUMNS):
        with skippable:
            jobs.refuse_duplicate(place, "job_id", original)
            when = place.seconds("submit_time", submitted)
            size, running = place.gpus("num_gpu", gpus), place.seconds("duration", duration)
            left = place.seconds("ddl", deadline) - when
            jobs.add(place, when, size, running, original, model, batch, deadline_s=left)
    return jobs.workload("elasticflow", dated=False)
