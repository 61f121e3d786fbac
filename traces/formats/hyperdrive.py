"""HyperDrive experiments of Philly, published with the simulators of Themis and Dally: sweeps of many small jobs."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from gpusched_env.problem.workload import Workload
from gpusched_env.traces.parsing.bad_rows import skippable
from gpusched_env.traces.parsing.columns import JobColumns, since_epoch
from gpusched_env.traces.parsing.report import ReadReport
from gpusched_env.traces.parsing.streams import csv_header, csv_rows, other_header

DATED: Final = ("experiment-id", "job-id", "start-time", "run-time", "num-gpus")
PROCESSED: Final = ("", "experiment_id", "start_time", "running_time", "num_gpus")  # the job id has no name


def read_hyperdrive(path: Path) -> tuple[Workload, ReadReport]:
    """Read ``philly_hyperdrive_workload.csv`` or ``processed_data.csv``; the header determines which file it is.

    The start of a job is taken as its arrival, because the files have no submission times. Starts are local times of
    the log in the first file and seconds in the second. Run times are in seconds. Blanks around values are ignored. The
    job id is the row number from 0. Attributes: original_id, experiment.
    """
    header = csv_header(path)
    dated = "job-id" in header
    if not dated and "experiment_id" not in header:
        raise other_header(path, header, "a HyperDrive file", DATED, PROCESSED)
    jobs = JobColumns(ReadReport("hyperdrive", str(path)), "original_id", "experiment")
    for place, row in csv_rows(path, DATED if dated else PROCESSED):
        with skippable:
            values = [text.strip() for text in row]
            if dated:
                experiment, original, start, running, gpus = values
                when = since_epoch(place.when("start-time", start))
            else:
                original, experiment, start, running, gpus = values
                when = place.seconds("start_time", start)
            jobs.refuse_duplicate(place, "job-id" if dated else "", original)
            seconds = place.seconds("run-time" if dated else "running_time", running)
            jobs.add(place, when, place.gpus("num-gpus" if dated else "num_gpus", gpus), seconds, original, experiment)
    return jobs.workload("hyperdrive", dated=dated)
