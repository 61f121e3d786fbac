"""The numbers of GPUs on which an elastic job may run. A rigid job has one size, its gang size."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Self

import numpy as np

from gpusched_env.errors import WorkloadError

OPTION_DTYPE: Final = np.dtype(
    [
        ("group", "<i4"),  # number of the group of jobs that have this size
        ("gpus", "<i4"),  # [GPU] the size, >= 1
        ("profile", "<i4"),  # row of Profiles.rows: the cost of one iteration on so many GPUs
    ]
)
DOUBLING: Final = 0  # step of a range whose sizes are least, 2 least, 4 least, ...


def size_range(least: int, most: int, step: int = DOUBLING) -> list[int]:
    """Return the sizes from ``least`` to at most ``most`` GPUs, ``step`` apart; DOUBLING = each is twice the last."""
    if not 1 <= least <= most or step < 0:
        raise WorkloadError(f"sizes {least} to {most} in steps of {step}: give 1 <= least <= most and a step >= 0")
    if step:
        return list(range(least, most + 1, step))
    sizes = [least]
    while 2 * sizes[-1] <= most:
        sizes.append(2 * sizes[-1])
    return sizes


@dataclass(frozen=True)
class Sizes:
    """The sizes of the elastic jobs of a workload. Jobs with the same sizes and profiles form a group.

    An iteration must mean the same progress at every size of a job, because the work of a job is a number of
    iterations. For example, if the batch grows with the gang, the profile of a size gives the time of the part of its
    iteration that makes as much progress as one iteration at the smallest size.

    Attributes
    ----------
    group : int32 [J], group of each job; -1 = the job is rigid
    options : OPTION_DTYPE [O], the sizes of each group, ascending by group and then by size
    """

    group: np.ndarray
    options: np.ndarray

    def __post_init__(self) -> None:
        """Check both arrays."""
        if self.options.dtype != OPTION_DTYPE or self.options.ndim != 1 or self.group.dtype != np.int32:
            raise WorkloadError("sizes: group must be int32 [J], and options a one-dimensional array of OPTION_DTYPE")
        keys = _keys(self.options["group"], self.options["gpus"])
        if (np.diff(keys) <= 0).any() or (self.options["group"] < 0).any() or (self.options["gpus"] < 1).any():
            raise WorkloadError("sizes: options must ascend by group, then by a number of GPUs that is at least 1")
        if len(lost := np.setdiff1d(self.group[self.group != -1], self.options["group"])):
            raise WorkloadError(f"sizes: group {lost[0]} has no options; the group of a rigid job is -1")

    @classmethod
    def of_groups(cls, group: Sequence[int] | np.ndarray, options: Iterable[Iterable[tuple[int, int]]]) -> Self:
        """Build the table from the group of each job, and the pairs (GPUs, profile row) of each group."""
        rows = [(number, *option) for number, pairs in enumerate(options) for option in sorted(pairs)]
        return cls(np.asarray(group, np.int32), np.array(rows, OPTION_DTYPE))

    def select(self, rows: np.ndarray) -> Sizes:
        """Return the sizes of the jobs ``rows``."""
        return Sizes(self.group[rows], self.options)

    def check(self, jobs: np.ndarray, profiles: int, name: str) -> None:
        """Refuse sizes that do not match the jobs of a workload.

        Parameters
        ----------
        jobs : JOB_DTYPE [J]
        profiles : number of profiles
        name : name of the workload, for the error message
        """
        if len(self.group) != len(jobs):
            raise WorkloadError(f"workload {name!r}: sizes are of {len(self.group)} jobs, not of {len(jobs)}")
        if ((self.options["profile"] < 0) | (self.options["profile"] >= profiles)).any():
            raise WorkloadError(f"workload {name!r}: a size has a profile outside 0 to {profiles - 1}")
        elastic = np.flatnonzero(self.group >= 0)
        keys = _keys(self.options["group"], self.options["gpus"])
        at = np.searchsorted(keys, wanted := _keys(self.group[elastic], jobs["gpus"][elastic]))
        at = np.minimum(at, len(keys) - 1)
        bad = (keys[at] != wanted) | (self.options["profile"][at] != jobs["profile"][elastic]) if len(elastic) else at
        if bad.any():
            job = jobs[elastic[int(np.argmax(bad))]]
            raise WorkloadError(
                f"workload {name!r}, job {job['id']}: its {job['gpus']} GPUs with profile {job['profile']} are not one "
                "of its sizes; add this size, or request another"
            )


@dataclass(frozen=True)
class SizeTable:
    """The sizes on which each job can run on one cluster, with their job classes. Jobs with equal sizes share rows."""

    gpus: np.ndarray  # int32 [S] [GPU]
    job_class: np.ndarray  # int32 [S]
    group: np.ndarray  # int32 [S], ascending, row of the smallest size of the same group
    first: np.ndarray  # int32 [J], row of the smallest size of each job
    count: np.ndarray  # int32 [J], number of sizes of each job, in ascending rows
    elastic: bool  # whether some job has more than one size

    def find(self, rows: np.ndarray, gpus: np.ndarray) -> np.ndarray:
        """int64: row of the size ``gpus[i]`` of job ``rows[i]``; -1 = the job does not have this size."""
        keys = _keys(self.group, self.gpus)
        at = np.minimum(np.searchsorted(keys, wanted := _keys(self.first[rows], gpus)), len(keys) - 1)
        return np.where(keys[at] == wanted, at, -1)


def size_table(
    sizes: Sizes | None, job_class: np.ndarray, option_class: np.ndarray, gangs: np.ndarray, able: np.ndarray
) -> SizeTable:
    """Make the table of an instance.

    The first rows are those of rigid jobs, one for each job class. The sizes of each group follow.

    Parameters
    ----------
    sizes : sizes of the workload; None = all jobs are rigid
    job_class : int32 [J], class of each job at the size that it requests
    option_class : int32 [O], class of each option
    gangs : int [C], gang size of each class
    able : Boolean [C], whether the cluster can run the class; options of other classes are left out
    """
    gpus, kinds = gangs.astype(np.int32), np.arange(len(gangs), dtype=np.int32)
    ones = np.ones(len(job_class), np.int32)
    if sizes is None:
        return SizeTable(gpus, kinds, kinds, job_class, ones, elastic=False)
    first, count, runs = job_class.copy(), ones, able[option_class]
    group, of_option = sizes.options["group"][runs], option_class[runs]
    elastic = sizes.group >= 0
    begin = np.searchsorted(group, sizes.group[elastic])
    first[elastic] = len(gangs) + begin
    count[elastic] = np.searchsorted(group, sizes.group[elastic], side="right") - begin
    starts = len(gangs) + np.searchsorted(group, group).astype(np.int32)
    return SizeTable(
        np.append(gpus, gpus[of_option]), np.append(kinds, of_option), np.append(kinds, starts), first, count,
        elastic=bool((count > 1).any()),
    )  # fmt: skip


def _keys(group: np.ndarray, gpus: np.ndarray) -> np.ndarray:
    """int64: numbers that ascend by group, then by size."""
    keys: np.ndarray = (group.astype(np.int64) << 32) + gpus
    return keys
