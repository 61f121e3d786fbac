"""SenseTime Helios (Hu et al., SC 2021): the 12-column cluster log and the four-column job list."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from gpusched_env.problem.workload import Workload
from gpusched_env.traces.formats.job_list import JOB_LIST, add_job_list
from gpusched_env.traces.parsing.bad_rows import skippable
from gpusched_env.traces.parsing.columns import JobColumns, since_epoch
from gpusched_env.traces.parsing.report import ReadReport
from gpusched_env.traces.parsing.streams import csv_header, csv_rows, other_header

ORIGINAL: Final = ("job_id", "user", "vc", "gpu_num", "state", "submit_time", "duration")


def read_helios(path: Path) -> tuple[Workload, ReadReport]:
    """Read ``cluster_log.csv``, or a job list with the columns ``job_id,arrival_s,service_sec,gpu_count``.

    The header determines which of the two a file is. The run time [s] is the column ``duration`` of the cluster log,
    which is end minus start without the time in the queue. The job id is the row number from 0. Attributes:
    original_id; from the cluster log also user, virtual_cluster and status.
    """
    header = csv_header(path)
    report = ReadReport("helios", str(path))
    if "submit_time" in header:
        jobs = JobColumns(report, "original_id", "user", "virtual_cluster", "status")
        for place, (original, user, vc, gpus, state, submitted, duration) in csv_rows(path, ORIGINAL):
            with skippable:
                jobs.refuse_duplicate(place, "job_id", original)
                when = since_epoch(place.when("submit_time", submitted))
                size, seconds = place.gpus("gpu_num", gpus), place.seconds("duration", duration)
                jobs.add(place, when, size, seconds, original, user, vc, state)
    elif "arrival_s" in header:
        jobs = JobColumns(report, "original_id")
        add_job_list(jobs, path)
    else:
        raise other_header(path, header, "a Helios file", ORIGINAL, JOB_LIST)
    return jobs.workload("helios", dated="submit_time" in header)
