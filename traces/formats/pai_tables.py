"""Alibaba PAI 2020 (Weng et al., NSDI 2022): the original tables of jobs, tasks and instances."""

from __future__ import annotations

import math
import sys
from array import array
from pathlib import Path
from typing import Final

from gpusched_env.errors import TraceError
from gpusched_env.problem.workload import Workload
from gpusched_env.traces.parsing.bad_rows import skippable, skipped_rows
from gpusched_env.traces.parsing.columns import JobColumns
from gpusched_env.traces.parsing.fields import MAX_WHOLE, Place
from gpusched_env.traces.parsing.report import ReadReport
from gpusched_env.traces.parsing.streams import csv_rows
from gpusched_env.traces.parsing.texts import check_text

# Names of all columns, from the published .header files; the tables themselves have no header line.
JOB: Final = ("job_name", "inst_id", "user", "status", "start_time", "end_time")
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
OPEN: Final = {"Running": "still running at the end of the log", "Waiting": "never started"}
STATUS: Final = ("Terminated", "Failed", *OPEN)  # Terminated is success
SHARES: Final = "jobs with a share of a GPU, rounded up to whole GPUs for each instance"
DAMAGED: Final = "a malformed row among its tasks or instances, which was skipped"
WAITS: Final = "run times that include the time tasks waited for instances, because pai_instance_table is missing"


def read_pai_tables(path: Path) -> tuple[Workload, ReadReport]:
    """Read ``pai_job_table`` and ``pai_task_table``, and ``pai_instance_table`` if it is in the same folder.

    A job is a row of the job table; its ``start_time`` is the submission. Its gang is the sum of ``inst_num`` x
    ``plan_gpu`` over its tasks with GPUs, where ``plan_gpu`` is rounded up to whole GPUs. Its run time [s] is the time
    from the first start to the last end of the instances of those tasks. Without the instance table, it is the time
    from the first start to the last end of the tasks themselves, which includes the time that the tasks waited for
    instances. Failed jobs are kept like finished jobs. The instance table has several rows for each job, so it takes
    longer to read than the other tables. The job id is the row number from 0. Attributes: original_id, user, status,
    gpu_type (assigned types, joined by ``|``), gpu_percent (demand in % of a GPU before rounding). Line numbers in the
    report are those of the job table.
    """
    job_table, task_table, *instance_tables = pai_tables(path)
    tasks = GpuTasks()
    tasks.read_tasks(task_table, with_times=not instance_tables)
    for table in instance_tables:
        tasks.read_instances(table)
    report = ReadReport("pai-tables", str(path))
    if (skipped := skipped_rows()) is not None and skipped.rows:
        report.notes["malformed rows of the other tables, skipped; places count in the job table only"] = skipped.rows
        skipped.forget()
    jobs = _jobs(report, job_table, tasks, waits=not instance_tables)
    del tasks  # frees memory before the arrays of the workload are allocated
    return jobs.workload("pai-tables", dated=False)


def pai_tables(path: Path) -> list[Path]:
    """Find the tables of jobs, tasks and, if it exists, instances: ``NAME.csv``, compressed or not."""
    folder = path if path.is_dir() else path.parent
    found = []
    for name, needed in (("pai_job_table", True), ("pai_task_table", True), ("pai_instance_table", False)):
        files = sorted(folder.glob(f"{name}.csv*"))
        if len(files) > 1:
            raise TraceError(f"{folder}: {files[0].name} and {files[1].name} are both there; keep one of them")
        if needed and not files:
            raise TraceError(
                f"{path}: no such file there: {name}.csv; name the folder of the tables, and unpack {name}.tar.gz in it"
            )
        found += files
    return found


def _jobs(report: ReadReport, table: Path, tasks: GpuTasks, waits: bool) -> JobColumns:
    jobs = JobColumns(report, "original_id", "user", "status", "gpu_type", numbers={"gpu_percent": "d"})
    met = bytearray(len(tasks.row))  # 1 if the job table has the job
    for place, (name, user, status, start) in csv_rows(table, ("job_name", "user", "status", "start_time"), JOB):
        with skippable:
            if status not in STATUS:
                place.refuse("status", status, f"expected one of {', '.join(STATUS)}; correct or remove the row")
            submitted = known_s(place, "start_time", start)
            row = tasks.row.get(name)
            damaged = name in tasks.damaged
            if row is None:
                jobs.drop(place, DAMAGED if damaged else "no task with a GPU")
                continue
            seconds = tasks.end_s[row] - tasks.start_s[row]
            if met[row]:
                jobs.drop(place, "job name given before")
            elif damaged:
                jobs.drop(place, DAMAGED)
            elif status in OPEN:
                jobs.drop(place, OPEN[status])
            elif submitted is None:
                jobs.drop(place, "no submission time")
            elif tasks.gpus[row] == UNKNOWN:
                jobs.drop(place, "a task without its number of instances")
            elif math.isinf(seconds):
                jobs.drop(place, "no start or no end of its GPU tasks")
            elif seconds < 0:
                jobs.drop(place, "ended before it started")
            else:
                percent = tasks.percent[row]
                if percent != WHOLE * tasks.gpus[row]:
                    jobs.note(place, SHARES)
                if waits:
                    jobs.note(place, WAITS)
                labels = name, user, status, tasks.gpu_types[row]
                jobs.add(place, submitted, tasks.gpus[row], seconds, *labels, gpu_percent=percent)
            met[row] = 1
    if lost := met.count(0):
        report.notes["jobs of the task table that the job table lacks"] = lost
    return jobs


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
