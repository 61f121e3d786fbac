"""Acme (Hu et al., NSDI 2024): the logs of Seren and Kalos, in which the column ``duration`` has different meanings."""

from __future__ import annotations

from datetime import UTC, timedelta
from pathlib import Path
from typing import Final

from gpusched_env.problem.workload import Workload
from gpusched_env.traces.parsing.bad_rows import skippable
from gpusched_env.traces.parsing.columns import EPOCH, JobColumns
from gpusched_env.traces.parsing.fields import NO_TIME, Place
from gpusched_env.traces.parsing.report import ReadReport
from gpusched_env.traces.parsing.streams import csv_header, csv_rows, other_header

SHORT: Final = ("job_id", "gpu_num", "submit_time", "duration", "queue")  # columns of the excerpt of Kalos
ORIGINAL: Final = (*SHORT, "user", "type", "state", "start_time", "end_time")
ONLY_KALOS: Final = ("fail_time", "stop_time")


def read_acme(path: Path) -> tuple[Workload, ReadReport]:
    """Read ``trace_seren.csv`` (13 columns), ``trace_kalos.csv`` (17) or the five-column excerpt of Kalos.

    The run time [s] is ``duration`` in Seren and ``duration - queue`` in Kalos, where ``duration`` begins at
    submission. If the start and end of a job give another run time, the job is kept and the report notes it. Times have
    a time zone; the report gives the origin in the zone of the first row. The job id is the row number from 0.
    Attributes: original_id; from the two original layouts also user, type and status.
    """
    header = csv_header(path)
    original = set(ORIGINAL) <= set(header)
    kalos = set(ONLY_KALOS) <= set(header) if original else set(header) == set(SHORT)
    if not original and not kalos:
        raise other_header(path, header, "an Acme file", ORIGINAL, (*SHORT[:-1], f"{SHORT[-1]} and no other"))
    jobs = JobColumns(ReadReport("acme", str(path)), "original_id", *(("user", "type", "status") if original else ()))
    zone: timedelta | None = None
    for place, (job_id, gpus, submitted, duration, queue, *more) in csv_rows(path, ORIGINAL if original else SHORT):
        with skippable:
            jobs.refuse_duplicate(place, "job_id", job_id)
            when = place.zoned("submit_time", submitted)
            zone = (when.utcoffset() or timedelta()) if zone is None else zone
            size = place.gpus("gpu_num", gpus)
            user, kind, state, start, end = more or [""] * 5
            seconds, waited = place.seconds_or_none("duration", duration), place.seconds_or_none("queue", queue)
            measured = _between(place, start, end)
            reason = _unusable(state, seconds, waited, original and start in NO_TIME, kalos)
            if reason and size:
                jobs.drop(place, reason)
                continue
            running = (seconds or 0.0) - (waited or 0.0) * kalos
            if size and running and measured is not None and abs(measured - running) > 1:
                jobs.note(place, "jobs whose start and end do not give the run time; the duration column is used")
            labels = [job_id, user, kind, state] if original else [job_id]
            jobs.add(place, (when - EPOCH.replace(tzinfo=UTC) + zone).total_seconds(), size, running, *labels)
    return jobs.workload("acme-kalos" if kalos else "acme-seren", dated=True)


def _unusable(state: str, seconds: float | None, waited: float | None, no_start: bool, kalos: bool) -> str:
    """Say why the row has no run time; "" if it has one."""
    if state == "RUNNING":
        return "still running at the end of the log"
    if no_start or seconds is None or (kalos and waited is None):
        return "never started"
    return "duration shorter than the queue" if kalos and waited is not None and seconds < waited else ""


def _between(place: Place, start: str, end: str) -> float | None:
    """Return the time from start to end [s]; None if start or end is unknown."""
    begun, ended = place.zoned_or_none("start_time", start), place.zoned_or_none("end_time", end)
    return None if begun is None or ended is None else (ended - begun).total_seconds()
