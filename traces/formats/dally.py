"""Dally (Sharma et al., arXiv 2401.16492): the job lists of its simulator."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from gpusched_env.problem.workload import Workload
from gpusched_env.traces.parsing.bad_rows import skippable
from gpusched_env.traces.parsing.columns import JobColumns
from gpusched_env.traces.parsing.report import ReadReport
from gpusched_env.traces.parsing.streams import csv_rows

COLUMNS: Final = (
    "job_id",
    "arrival_time",
    "max_parallelism",
    "model",
    "batchsize",
    "duration",
    "total_iterations",
    "time_per_iteration",
    "job_group_id",
)


def read_dally(path: Path) -> tuple[Workload, ReadReport]:
    """Read a job list as CSV with the columns COLUMNS; all times are in seconds, and rows may be in any order.

    Work is ``duration / max_parallelism`` [s]. In the authors' simulator, ``duration`` (= ``total_iterations`` x
    ``time_per_iteration``) is the time on one GPU, and a gang of g GPUs without communication takes ``duration`` / g
    (class IntraJobScheduler). In the log of Helios Venus, from which the jobs come, the job held its g GPUs for the
    whole ``duration``. The job id is that of the file, because the authors' simulator breaks ties by it. Attributes:
    original_id, model, group, batch_size (samples), total_iterations, time_per_iteration_s (on one GPU).
    """
    numbers = {"batch_size": "q", "total_iterations": "d", "time_per_iteration_s": "d"}
    jobs = JobColumns(ReadReport("dally", str(path)), "original_id", "model", "group", numbers=numbers)
    for place, (original, arrival, parallelism, model, batch, duration, count, each, group) in csv_rows(path, COLUMNS):
        with skippable:
            jobs.refuse_duplicate(place, "job_id", original)
            when, gpus = place.seconds("arrival_time", arrival), place.gpus("max_parallelism", parallelism)
            jobs.add(
                place,
                when,
                gpus,
                place.seconds("duration", duration) / max(gpus, 1),  # add() drops jobs with 0 GPUs
                original,
                model,
                group,
                job_id=place.whole("job_id", original, "a job's number"),
                batch_size=place.whole("batchsize", batch, "samples"),
                total_iterations=place.amount("total_iterations", count, "iterations"),
                time_per_iteration_s=place.seconds("time_per_iteration", each),
            )
    return jobs.workload("dally", dated=False)
