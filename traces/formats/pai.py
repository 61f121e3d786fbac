"""Alibaba PAI 2020 (Weng et al., NSDI 2022): the published sample of finished GPU tasks."""

from __future__ import annotations

from pathlib import Path

from gpusched_env.problem.workload import Workload
from gpusched_env.traces.formats.job_list import add_job_list
from gpusched_env.traces.parsing.columns import JobColumns
from gpusched_env.traces.parsing.report import ReadReport


def read_pai(path: Path) -> tuple[Workload, ReadReport]:
    """Read a job list with the columns ``job_id,arrival_s,service_sec,gpu_count``.

    The sample has 8.2 % of the tasks, so the arrival rate of the cluster is 12.2 times that of the sample. The arrival
    is the start of the task, because the task table has no submission time. ``gpu_count`` is the number of instances x
    the GPUs of an instance, where a share of a GPU is rounded up to one GPU. The job id is the row number from 0.
    Attribute: original_id.
    """
    jobs = JobColumns(ReadReport("pai", str(path)), "original_id")
    add_job_list(jobs, path)
    return jobs.workload("pai", dated=False)
