"""Shockwave (Zheng et al., NSDI 2023): Gavel's trace layout with a mode and a run time."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from gpusched_env.errors import TraceError
from gpusched_env.traces.columns import JobColumns
from gpusched_env.traces.report import ReadReport
from gpusched_env.traces.streams import tab_rows
from gpusched_env.workload import Workload

FIELDS: Final = 12
GAVEL_FIELDS: Final = (7, 10)
MODES: Final = ("static", "accordion", "gns")


def read_shockwave(path: Path) -> tuple[Workload, ReadReport]:
    """Read a ``.trace`` of 12 fields, separated by tabs, without a header.

    Fields: job type, command, directory, steps option, needs data directory, steps, scale factor (GPUs), mode,
    priority weight, service level objective, duration [s], arrival [s]. Work is ``duration``, the steps at the rate of
    the batch size that the job begins with; ``accordion`` and ``gns`` jobs change it while they run, which is not
    simulated. Commands are text and are never run. The job id is the row number from 0. Attributes: model (the job
    type), mode, priority_weight.

    Raises
    ------
    TraceError : a malformed row, or one of Gavel's own traces, which give steps and no run time
    """
    jobs = JobColumns(ReadReport("shockwave", str(path)), "model", "mode", "priority_weight")
    for place, row in tab_rows(path):
        if len(row) != FIELDS:
            remedy = "the row is cut or has a stray tab: correct or remove it"
            if len(row) in GAVEL_FIELDS:
                remedy = "a Gavel trace gives steps and no run time, so it cannot be read without throughput tables"
            raise TraceError(
                f"{place.path}, line {place.number}: {len(row)} fields, separated by tabs, "
                f"where Shockwave has {FIELDS}; {remedy}"
            )
        model, gpus, mode, weight, duration, arrival = row[0], row[6], row[7], row[8], row[10], row[11]
        if mode not in MODES:
            place.refuse("mode (8)", mode, f"expected one of {', '.join(MODES)}; correct or remove the row")
        when, seconds = place.seconds("arrival (12)", arrival), place.seconds("duration (11)", duration)
        jobs.add(place, when, place.gpus("scale factor (7)", gpus), seconds, model, mode, weight)
    return jobs.workload("shockwave", dated=False)
