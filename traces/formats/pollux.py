"""Pollux (Qiao et al., OSDI 2021) and Sia (Jayaram Subramanya et al., SOSP 2023): jobs that train an application."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Final

from gpusched_env.problem.workload import Workload
from gpusched_env.traces.parsing.bad_rows import skippable
from gpusched_env.traces.parsing.columns import JobColumns
from gpusched_env.traces.parsing.report import ReadReport
from gpusched_env.traces.parsing.streams import csv_rows
from gpusched_env.traces.profile_tables import load_fitted

COLUMNS: Final = ("name", "time", "application", "num_replicas", "batch_size")
NOT_MEASURED: Final = "no measurements of data-parallel training of this application (gpt_pmp has only others)"
NOT_TRAINED: Final = "batch size beyond those that were trained to completion"


def read_pollux(path: Path) -> tuple[Workload, ReadReport]:
    """Read a workload for Pollux's cluster of T4 GPUs; see :func:`read_applications`."""
    return read_applications(path, "pollux")


def read_sia(path: Path) -> tuple[Workload, ReadReport]:
    """Read a workload for Sia's cluster of A100, Quadro RTX 6000, RTX 2080 Ti and T4; see :func:`read_applications`."""
    return read_applications(path, "sia")


def read_pollux_sharing(path: Path) -> tuple[Workload, ReadReport]:
    """Read a workload of Pollux with the profiles of SJF-BSBF, whose jobs share GPUs by gradient accumulation."""
    return read_applications(path, "pollux-sharing", "bsbf")


def read_applications(path: Path, name: str, profiles: str = "") -> tuple[Workload, ReadReport]:
    """Read a job list with the columns ``name,time,application,num_replicas,batch_size``.

    ``time`` is in seconds, ``num_replicas`` is the number of GPUs, and ``batch_size`` counts the samples of the whole
    gang. Work is the number of iterations that the application needs at this batch size. Batch size and gang stay fixed
    while the job runs. Jobs are dropped and counted if their application was not measured, or if their batch size is
    outside the range that was trained. The job id is the row number from 0. Attributes: original_id, model (the
    application), batch_size.
    """
    table = load_fitted(profiles or name)
    jobs = JobColumns(ReadReport(name, str(path)), "original_id", "model", "batch_size")
    batches = []
    for place, (original, time, application, replicas, size) in csv_rows(path, COLUMNS):
        with skippable:
            jobs.refuse_duplicate(place, "name", original)
            when, gpus = place.seconds("time", time), place.gpus("num_replicas", replicas)
            batch = place.whole("batch_size", size, "samples")
            trained = table.applications.get(application)
            iterations = trained.iterations_at(batch) if trained else math.nan
            if gpus and math.isnan(iterations):
                jobs.drop(place, NOT_TRAINED if trained else NOT_MEASURED)
                continue
            jobs.add(place, when, gpus, iterations, original, application, size)
            if gpus:
                batches.append(batch)
    models = table.for_jobs(jobs.texts("model"), batches, jobs.gpus) if jobs.ids else None
    return jobs.workload(name, dated=False, models=models)
