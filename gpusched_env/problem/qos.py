"""Qualities of service (QOS): what their jobs may hold, how long they may run, and which other jobs they preempt."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from gpusched_env.errors import ScenarioError, WorkloadError, unknown_name
from gpusched_env.problem.partitions import check_mode, refuse_twice
from gpusched_env.problem.workload import Workload

__all__ = ["Qos"]

QOS: Final = "qos"  # attribute: name of the QOS of each job
USER: Final = "user"  # attribute: name of the user of each job
LARGEST: Final = 2**53  # of a resource or a limit; up to it, every whole number is a float


@dataclass(frozen=True)
class Qos:
    """A quality of service, as in Slurm; ``slurm`` obeys it.

    Parameters
    ----------
    name : name, unique among the QOS
    priority : its jobs have this priority class unless an attribute gives them one (Priority), >= 0
    most : GPUs that its jobs may hold at any time [GPU] (GrpTRES); None = any number
    jobs : jobs of it that may run at any time (GrpJobs); None = any number
    most_per_user, jobs_per_user : likewise, those of one user (MaxTRESPerUser, MaxJobsPerUser)
    most_per_job : most GPUs of a job [GPU] (MaxTRESPerJob); None = any number
    max_time_s : longest time limit of a job, and the limit of those that give none [s] (MaxWall)
    preempts : names of the QOS whose jobs its jobs may preempt (Preempt)
    preempt_mode : what happens to its jobs if others preempt them (PreemptMode): "requeue" = they wait again, "off" =
        nothing
    grace_s : time for which they run on before they are preempted [s] (GraceTime), >= 0
    """

    name: str
    priority: float = 0.0
    most: int | None = None
    jobs: int | None = None
    most_per_user: int | None = None
    jobs_per_user: int | None = None
    most_per_job: int | None = None
    max_time_s: float = math.inf
    preempts: tuple[str, ...] = ()
    preempt_mode: str = "requeue"
    grace_s: float = 0.0

    def __post_init__(self) -> None:
        """Check the values."""
        where = f"QOS {self.name!r}"
        if not self.name:
            raise ScenarioError(f"{where}: the name is empty; give it one")
        check_mode(where, self.preempt_mode, self.grace_s)
        if not (self.priority >= 0 and math.isfinite(self.priority)):
            raise ScenarioError(f"{where}: priority is {self.priority}: give a finite number >= 0")
        for field in ("most", "jobs", "most_per_user", "jobs_per_user", "most_per_job"):
            value = getattr(self, field)
            if value is not None and not 1 <= value <= LARGEST:
                raise ScenarioError(
                    f"{where}: {field} is {value}: give a whole number from 1 to 2**53, or leave it out"
                )
        if not self.max_time_s > 0:
            raise ScenarioError(f"{where}: max_time_s is {self.max_time_s}: give a number of seconds > 0")


class QosTable(NamedTuple):
    """The QOS of a scenario, and those of its jobs."""

    listed: tuple[Qos, ...]
    of_job: np.ndarray  # int32 [J], index into ``listed``; len(listed) = none
    user: np.ndarray  # int32 [J], number of the user of each job

    @property
    def longest_s(self) -> np.ndarray:
        """float64 [J] [s]: longest time limit that the QOS of each job admits; inf = any."""
        return np.array([*(one.max_time_s for one in self.listed), math.inf])[self.of_job]


def ranks_of(listed: Sequence[Qos]) -> np.ndarray:
    """int64: length of the longest chain of QOS, each of which may preempt the next one, that begins at each QOS."""
    rows = {one.name: row for row, one in enumerate(listed)}
    refuse_twice("tenants.qos: ", [one.name for one in listed], "each QOS")
    for one in listed:
        for name in one.preempts:
            if name not in rows:
                raise ScenarioError(f"QOS {one.name!r}, preempts: {unknown_name('QOS', name, rows)}")
    ranks = np.zeros(len(listed), np.int64)
    for _ in range(len(listed) + 1):
        longer = [max((int(ranks[rows[name]]) + 1 for name in one.preempts), default=0) for one in listed]
        if longer == ranks.tolist():
            return ranks
        ranks = np.array(longer)
    row = int(np.argmax(ranks))
    raise ScenarioError(
        f"QOS {listed[row].name!r}: chains of preempts lead back to a QOS, so jobs would preempt each other for ever; "
        "remove one name"
    )


def qos_table(listed: tuple[Qos, ...], by: str, workload: Workload, leaves: np.ndarray) -> QosTable:
    """Return the QOS of the jobs of a workload.

    Parameters
    ----------
    listed : the QOS
    by : attribute that names the QOS of each job; an empty name = none
    leaves : int [J], row of each job's tenant, which is its user if the workload has no attribute ``user``
    """
    if by not in workload.attributes:
        known = unknown_name("attribute", by, workload.attributes)
        raise ScenarioError(f"tenants.qos_by: {known}; choose one of them, or leave out the QOS")
    rows = {"": len(listed)} | {one.name: row for row, one in enumerate(listed)}
    names, of_job = np.unique(workload.attributes[by].astype(str), return_inverse=True)
    for name in names.tolist():
        if name not in rows:
            known = unknown_name("QOS", name, [one.name for one in listed])
            raise ScenarioError(f"tenants.qos: a job names an {known}; list it")
    users = workload.attributes[USER].astype(str) if USER in workload.attributes else leaves
    user = np.unique(users, return_inverse=True)[1].astype(np.int32)
    table = QosTable(listed, np.array([rows[name] for name in names.tolist()], np.int32)[of_job], user)
    _refuse_over_limits(table, workload)
    return table


def _refuse_over_limits(table: QosTable, workload: Workload) -> None:
    for field, column in (
        ("most_per_job", "gpus"),
        ("most", "gpus"),
        ("most_per_user", "gpus"),
        ("max_time_s", "estimate_s"),
    ):
        limits = [getattr(one, field) for one in table.listed]
        limit = np.array([*(math.inf if value is None else value for value in limits), math.inf])[table.of_job]
        wanted = workload.jobs[column]
        if (wanted > limit).any():
            row = int(np.argmax(wanted > limit))
            raise WorkloadError(
                f"workload {workload.name!r}, job {workload.jobs['id'][row]}: it wants {wanted[row]:g} "
                f"{'s' if column == 'estimate_s' else 'GPUs'}, and {field} of its QOS "
                f"{table.listed[table.of_job[row]].name!r} is {limit[row]:g}; raise it, or leave out such jobs"
            )
