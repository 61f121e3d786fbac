"""Chronus (Gao et al., SoCC 2021): Philly jobs with strict deadlines, soft deadlines or none; times in minutes."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Final

from gpusched_env.problem.workload import Workload
from gpusched_env.traces.parsing.bad_rows import skippable
from gpusched_env.traces.parsing.columns import JobColumns
from gpusched_env.traces.parsing.report import ReadReport
from gpusched_env.traces.parsing.streams import csv_rows

LABELS: Final = ("user", "model_name", "job_type", "expect_time_list", "expect_value_list")
DUE: Final = ("strict", "soft")  # types of jobs with deadlines
COLUMNS: Final = ("job_id", "submit_time", "num_gpu", "duration", *LABELS)


def read_chronus(path: Path) -> tuple[Workload, ReadReport]:
    """Read a job list whose ``submit_time`` and ``duration`` are in minutes.

    The authors do not state the unit. Minutes are inferred from the last ``submit_time``, 20,151, which is then 14 days
    after the first. The job id is the row number from 0. Attributes: original_id, user, model, job_type (strict, soft
    or best), expect_time_list (minutes joined by ``-``, as in the file), expect_value_list, deadline_s (seconds after
    the submission: the first expected time; inf = best effort) and value (the first of its list; 1 = best effort).
    """
    attributes = ("original_id", "user", "model", "job_type", "expect_time_list", "expect_value_list")
    numbers = {"deadline_s": "d", "value": "d"}
    jobs = JobColumns(ReadReport("chronus", str(path)), *attributes, numbers=numbers)
    for place, (original, submitted, gpus, duration, *labels) in csv_rows(path, COLUMNS):
        with skippable:
            jobs.refuse_duplicate(place, "job_id", original)
            when = place.seconds("submit_time", submitted, "minutes")
            size, running = place.gpus("num_gpu", gpus), place.seconds("duration", duration, "minutes")
            *_, kind, times, values = labels
            deadline_s, value = math.inf, 1.0
            if kind in DUE:
                deadline_s = place.seconds("expect_time_list", times.partition("-")[0], "minutes")
                value = place.amount("expect_value_list", values.partition("-")[0], "units")
            jobs.add(place, when, size, running, original, *labels, deadline_s=deadline_s, value=value)
    return jobs.workload("chronus", dated=False)
