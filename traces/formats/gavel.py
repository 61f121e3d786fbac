"""Gavel (Narayanan et al., OSDI 2020), and Shockwave (Zheng et al., NSDI 2023), which adds a mode and a run time.

A ``.trace`` has fields separated by tabs, without a header; the number of fields gives the layout.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Final

from gpusched_env.errors import TraceError
from gpusched_env.problem.workload import Workload
from gpusched_env.traces.parsing.bad_rows import BadRowError, refuse_row, skippable, skipped_rows
from gpusched_env.traces.parsing.columns import JobColumns
from gpusched_env.traces.parsing.fields import Place
from gpusched_env.traces.parsing.report import ReadReport
from gpusched_env.traces.parsing.streams import tab_rows
from gpusched_env.traces.profile_tables import load_measured

NOT_MEASURED: Final = "no throughput was measured for this job type on this number of GPUs"
TOLD: Final = ("priority weight", "slo")  # only rows with 10 fields have these
MODES: Final = ("static", "accordion", "gns")
_COMMON: Final = ("job type", "command", "directory", "steps option", "needs data directory", "steps", "scale factor")
# Number of fields -> field names. The layout with 7 fields is that of Philly's virtual clusters. It has no directory,
# and its last field is the scale factor.
LAYOUTS: Final[dict[int, tuple[str, ...]]] = {
    7: ("job type", "command", "steps option", "needs data directory", "steps", "arrival", "scale factor"),
    10: (*_COMMON, "priority weight", "slo", "arrival"),
    12: (*_COMMON, "mode", "priority weight", "slo", "duration", "arrival"),
}
SHOCKWAVE_FIELDS: Final = 12

Row = dict[str, tuple[str, str]]  # field name -> (name with position, for errors; text)


def read_gavel(path: Path) -> tuple[Workload, ReadReport]:
    """Read a ``.trace`` whose rows have 7 or 10 fields, separated by tabs, without a header.

    A file with 12 fields is read by :func:`read_shockwave`. Work is ``steps``.
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


def read_shockwave(path: Path) -> tuple[Workload, ReadReport]:
    """Read a ``.trace`` of 12 fields, separated by tabs, without a header.

    Fields: job type, command, directory, steps option, needs data directory, steps, scale factor (GPUs), mode,
    priority weight, service level objective, duration [s], arrival [s]. Work is ``duration``, the time of the steps at
    the initial batch size. Jobs in the modes ``accordion`` and ``gns`` change their batch size while they run; this
    change is not simulated. Commands in the file are never executed. The job id is the row number from 0. Attributes:
    model (the job type), mode, priority_weight.
    """
    jobs = JobColumns(ReadReport("shockwave", str(path)), "model", "mode", "priority_weight")
    remedy = "a Gavel trace gives steps and no run time: read it as gavel:PATH"
    for place, row in gavel_rows(path, (SHOCKWAVE_FIELDS,), remedy):
        with skippable:
            model, mode, weight = (row[name][1] for name in ("job type", "mode", "priority weight"))
            if mode not in MODES:
                place.refuse(*row["mode"], f"expected one of {', '.join(MODES)}; correct or remove the row")
            when, seconds = place.seconds(*row["arrival"]), place.seconds(*row["duration"])
            jobs.add(place, when, place.gpus(*row["scale factor"]), seconds, model, mode, weight)
    return jobs.workload("shockwave", dated=False)


def gavel_rows(path: Path, widths: Collection[int] = tuple(LAYOUTS), refusal: str = "") -> Iterator[tuple[Place, Row]]:
    """Yield the place and the fields of every row of a ``.trace``, whose first row determines the layout.

    ``refusal`` is the remedy in the error message if the number of fields is another one of LAYOUTS than ``widths``.
    """
    width = 0
    for place, row in tab_rows(path):
        if len(row) not in (widths if not width else (width,)):
            wanted = width or " or ".join(map(str, widths))
            remedy = "the row is cut or has a stray tab: correct or remove it"
            if not width and len(row) in LAYOUTS:
                remedy = refusal
            found = f"{len(row)} fields, separated by tabs, where {wanted} are expected"
            complaint = f"{place.path}, line {place.number}: {found}; {remedy}"
            if not width:  # the first row determines the layout, so it cannot be skipped
                raise TraceError(complaint)
            refuse_row(BadRowError(complaint, (place.number,), found))
            continue
        if not width:
            width = len(row)
            names = LAYOUTS[width]
            shown = [f"{name} ({position})" for position, name in enumerate(names, 1)]
        yield place, dict(zip(names, zip(shown, row, strict=True), strict=True))
