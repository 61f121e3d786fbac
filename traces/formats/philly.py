"""Microsoft Philly (Jeon et al., USENIX ATC 2019): the original JSON log and the processed CSV files."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from gpusched_env.problem.workload import Workload
from gpusched_env.traces.formats.philly_json import read_philly_json
from gpusched_env.traces.parsing.bad_rows import skippable
from gpusched_env.traces.parsing.columns import JobColumns, since_epoch
from gpusched_env.traces.parsing.containers import first_bytes
from gpusched_env.traces.parsing.report import ReadReport
from gpusched_env.traces.parsing.streams import csv_header, csv_rows, other_header

PROCESSED: Final = ("timestamp", "duration", "num_gpus", "cluster")  # the Pollux artifact's philly.csv
FULL_LOG: Final = ("jobid", "submitted_time", "num_gpus", "duration_s")


def read_philly(path: Path) -> tuple[Workload, ReadReport]:
    """Read the JSON log or a processed CSV; a file that begins with ``[`` or ``{`` is read as JSON."""
    start = first_bytes(path).lstrip()
    return read_philly_json(path) if start[:1] in (b"[", b"{") else read_philly_csv(path)


def read_philly_csv(path: Path) -> tuple[Workload, ReadReport]:
    """Read a processed log.

    The columns are ``timestamp,duration,num_gpus,gpu_time,cluster`` or ``jobid,submitted_time,num_gpus,duration_s``.
    Times are local times of the log, and rows may be in any order. The duration [s] is the sum of the run times of all
    attempts. The job id is the row number from 0. Attributes: virtual_cluster in the first layout, original_id in the
    second.
    """
    header = csv_header(path)
    report = ReadReport("philly-csv", str(path))
    if "timestamp" in header:
        jobs = JobColumns(report, "virtual_cluster")
        for place, (submitted, duration, gpus, cluster) in csv_rows(path, PROCESSED):
            with skippable:
                when = since_epoch(place.when("timestamp", submitted))
                jobs.add(place, when, place.gpus("num_gpus", gpus), place.seconds("duration", duration), cluster)
    elif "jobid" in header:
        jobs = JobColumns(report, "original_id")
        for place, (original, submitted, gpus, duration) in csv_rows(path, FULL_LOG):
            with skippable:
                jobs.refuse_duplicate(place, "jobid", original)
                when = since_epoch(place.when("submitted_time", submitted))
                jobs.add(place, when, place.gpus("num_gpus", gpus), place.seconds("duration_s", duration), original)
    else:
        raise other_header(path, header, "a Philly CSV", PROCESSED, FULL_LOG)
    return jobs.workload("philly", dated=True)
