"""Shockwave (Zheng et al., NSDI 2023): Gavel's trace layout, to which each job adds a mode and a run time."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from gpusched_env.problem.workload import Workload
from gpusched_env.traces.formats.gavel_rows import SHOCKWAVE_FIELDS, gavel_rows
from gpusched_env.traces.parsing.bad_rows import skippable
from gpusched_env.traces.parsing.columns import JobColumns
from gpusched_env.traces.parsing.report import ReadReport

MODES: Final = ("static", "accordion", "gns")


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
