"""Gavel (Narayanan et al., OSDI 2020): jobs given by a number of steps of a job type whose throughput was measured."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Final

from gpusched_env.problem.workload import Workload
from gpusched_env.traces.formats.gavel_rows import SHOCKWAVE_FIELDS, gavel_rows
from gpusched_env.traces.formats.shockwave import read_shockwave
from gpusched_env.traces.parsing.bad_rows import skippable, skipped_rows
from gpusched_env.traces.parsing.columns import JobColumns
from gpusched_env.traces.parsing.report import ReadReport
from gpusched_env.traces.profile_tables import load_measured

NOT_MEASURED: Final = "no throughput was measured for this job type on this number of GPUs"
TOLD: Final = ("priority weight", "slo")  # only rows with 10 fields have these


def read_gavel(path: Path) -> tuple[Workload, ReadReport]:
    """Read a ``.trace`` whose rows have 7 or 10 fields, separated by tabs, without a header.

    A file with 12 fields is read by :func:`~gpusched_env.traces.formats.shockwave.read_shockwave`. Work is ``steps``.
    The rates of the job type on V100, P100 and K80, in one machine and spread over machines, come from the table
    ``gavel``. If the table has no rate for a job type on the job's number of GPUs, the job is dropped and counted.
    Commands in the file are never executed. The job id is the row number from 0. Attributes: model (the job type), and
    with 10 fields also priority_weight and slo (deadline after arrival as a multiple of the run time on V100; below 0 =
    none).
    """
    table = load_measured("gavel")
    runs_on = functools.cache(table.gpu_types_of)
    jobs: JobColumns | None = None
    for place, row in gavel_rows(path):
        with skippable:
            if len(row) == SHOCKWAVE_FIELDS:
                if (skipped := skipped_rows()) is not None:
                    skipped.forget()  # read_shockwave reads the rows again
                return read_shockwave(path)
            told = [name for name in TOLD if name in row]
            jobs = jobs or JobColumns(
                ReadReport("gavel", str(path)), "model", *(name.replace(" ", "_") for name in told)
            )
            model = row["job type"][1]
            when, steps = place.seconds(*row["arrival"]), place.amount(*row["steps"], "steps")
            gpus = place.gpus(*row["scale factor"])
            if gpus and not runs_on(model, gpus):
                jobs.drop(place, NOT_MEASURED)
            else:
                jobs.add(place, when, gpus, steps, model, *(row[name][1] for name in told))
    jobs = jobs or JobColumns(ReadReport("gavel", str(path)), "model")
    models = table.for_jobs(jobs.texts("model"), jobs.gpus) if jobs.ids else None
    return jobs.workload("gavel", dated=False, models=models)
