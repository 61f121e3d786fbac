"""Muri (Zhao et al., SIGCOMM 2022) and SJF-BSBF, which shares its layout: job lists in milliseconds."""

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
    "num_gpu",
    "submit_time",
    "iterations",
    "model_name",
    "batch_size",
    "duration",
    "iteration_time",
    "priority",
)
STALE: Final = "duration differs by more than a factor of 2 from iterations x iteration_time, which is used"


def read_muri(path: Path) -> tuple[Workload, ReadReport]:
    """Read a job list of Muri; see :func:`read_milliseconds`."""
    return read_milliseconds(path, "muri")


def read_bsbf(path: Path) -> tuple[Workload, ReadReport]:
    """Read a job list of SJF-BSBF; see :func:`read_milliseconds`."""
    return read_milliseconds(path, "bsbf")


def read_milliseconds(path: Path, name: str) -> tuple[Workload, ReadReport]:
    """Read a job list with the columns COLUMNS, whose times are all in milliseconds.

    Work is ``iterations`` x ``iteration_time``, converted to seconds, because the runs that Muri measured took this
    time. The column ``duration`` is not used: it is the run time in the log from which the job was drawn, or the run
    time before the authors reduced ``iterations``. The report notes the jobs whose ``duration`` differs from the
    product by more than a factor of 2. The job id is the row number from 0. Attributes: original_id, model, batch_size,
    priority (0 = guaranteed, 1 = opportunistic).
    """
    jobs = JobColumns(ReadReport(name, str(path)), "original_id", "model", "batch_size", "priority")
    for place, row in csv_rows(path, COLUMNS):
        with skippable:
            original, gpus, submitted, iterations, model, batch, duration, iteration_time, priority = row
            jobs.refuse_duplicate(place, "job_id", original)
            when = place.amount("submit_time", submitted, "milliseconds") / 1000
            size, count = place.gpus("num_gpu", gpus), place.amount("iterations", iterations, "iterations")
            work = count * place.amount("iteration_time", iteration_time, "milliseconds") / 1000
            claimed = place.amount("duration", duration, "milliseconds") / 1000
            if size and work and not claimed / 2 <= work <= claimed * 2:
                jobs.note(place, STALE)
            jobs.add(place, when, size, work, original, model, batch, priority)
    return jobs.workload(name, dated=False)
