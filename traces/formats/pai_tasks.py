"""Alibaba PAI 2020: GPU demands and run times of the GPU tasks of each job."""

from __future__ import annotations

import math
import sys
from array import array
from pathlib import Path
from typing import Final

from gpusched_env.traces.parsing.bad_rows import skippable
from gpusched_env.traces.parsing.fields import MAX_WHOLE, Place
from gpusched_env.traces.parsing.streams import csv_rows
from gpusched_env.traces.parsing.texts import check_text

# Names of all columns, from the published .header files; the tables themselves have no header line.
TASK: Final = (
    *("job_name", "task_name", "inst_num", "status", "start_time", "end_time"),
    *("plan_cpu", "plan_mem", "plan_gpu", "gpu_type"),
)
INSTANCE: Final = (
    *("job_name", "task_name", "inst_name", "worker_name", "inst_id"),
    *("status", "start_time", "end_time", "machine"),
)
WHOLE: Final = 100  # [%] plan_gpu of a whole GPU
UNKNOWN: Final = -1  # the value of ``gpus`` for a job with a task whose number of instances is missing


class GpuTasks:
    """Columns with one row for each job that has GPU tasks; tasks on CPUs, such as parameter servers, are ignored."""

    def __init__(self) -> None:
        self.row: dict[str, int] = {}  # job name -> row of the columns
        self.names: list[str] = []  # names of the tasks, joined by |
        self.gpu_types: list[str] = []  # assigned types, joined by |
        self.gpus = array("q")  # [GPU] or UNKNOWN
        self.percent = array("d")  # [% of a GPU] before rounding
        self.start_s = array("d")  # [s] inf = unknown
        self.end_s = array("d")  # [s] -inf = unknown
        self.damaged: set[str] = set()  # jobs with a malformed row that was skipped

    def read_tasks(self, table: Path, with_times: bool) -> None:
        """Add the tasks with GPUs; add their start and end only if ``with_times``."""
        columns = ("job_name", "task_name", "inst_num", "start_time", "end_time", "plan_gpu", "gpu_type")
        for place, (job, name, instances, start, end, plan, gpu_type) in csv_rows(table, columns, TASK):
            with skippable:
                percent = place.amount("plan_gpu", plan, "percent of a GPU") if plan else 0.0
                if percent:
                    check_text(place, "gpu_type", gpu_type)  # checked here, where the line number is known
                    row = self._row(job)
                    self.names[row] = _joined(self.names[row], name)
                    self.gpu_types[row] = _joined(self.gpu_types[row], gpu_type)
                    self._demand(place, row, instances, percent)
                    if with_times:
                        self._ran(place, row, start, end)
                continue
            self.damaged.add(job)  # reached only after a row that was skipped

    def read_instances(self, table: Path) -> None:
        """Add the start and end of the instances of the tasks that :meth:`read_tasks` added."""
        for place, (job, name, start, end) in csv_rows(
            table, ("job_name", "task_name", "start_time", "end_time"), INSTANCE
        ):
            with skippable:
                row = self.row.get(job)
                if row is not None and name in self.names[row].split("|"):
                    self._ran(place, row, start, end)
                continue
            self.damaged.add(job)

    def _row(self, job: str) -> int:
        row = self.row.setdefault(job, len(self.row))
        if row == len(self.gpus):
            self.names.append("")
            self.gpu_types.append("")
            self.gpus.append(0)
            self.percent.append(0.0)
            self.start_s.append(math.inf)
            self.end_s.append(-math.inf)
        return row

    def _demand(self, place: Place, row: int, instances: str, percent: float) -> None:
        if not instances or self.gpus[row] == UNKNOWN:
            self.gpus[row] = UNKNOWN
            return
        count = place.whole("inst_num", instances, "instances")
        gpus = self.gpus[row] + count * math.ceil(percent / WHOLE)
        if gpus > MAX_WHOLE:
            place.refuse("inst_num", instances, f"the job demands over {MAX_WHOLE} GPUs; correct or remove the row")
        self.gpus[row] = gpus
        self.percent[row] += count * percent

    def _ran(self, place: Place, row: int, start: str, end: str) -> None:
        self.start_s[row] = min(self.start_s[row], known_s(place, "start_time", start) or math.inf)
        self.end_s[row] = max(self.end_s[row], known_s(place, "end_time", end) or -math.inf)


def known_s(place: Place, field: str, text: str) -> float | None:
    """Return a time [s]; None if it is unknown, which the log writes as 0 or an empty field."""
    return place.seconds_or_none(field, text) or None


def _joined(names: str, name: str) -> str:
    """Add ``name`` to ``names``, which are joined by ``|``, unless it is among them; equal results share one string."""
    if not name or name in names.split("|"):
        return names
    return sys.intern(f"{names}|{name}" if names else name)
