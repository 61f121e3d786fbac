"""What is known of a job when it is submitted, besides its gang: who submits it, under which name, to which queue."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

import numpy as np

from gpusched_env.problem.workload import Workload

UNKNOWN: Final = -1
# Column -> attributes of a workload; the first that the workload has is taken.
COLUMNS: Final[Mapping[str, tuple[str, ...]]] = {
    "user": ("user",),
    "account": ("account", "group", "organization"),
    "name": ("name", "job_name"),
    "queue": ("queue", "partition", "virtual_cluster", "tenant"),
}


class Known(NamedTuple):
    """Columns over the jobs of a workload. Texts are numbered in their order; UNKNOWN = the job does not tell.

    Attributes
    ----------
    arrival_s : float64 [J], time of submission [s]
    gpus : int32 [J], gang size
    limit_s : float64 [J], run time that the user requests or estimates [s]; NaN = none
    user, account, name, queue : int32 [J]
    names : the texts of ``name``, by number
    """

    arrival_s: np.ndarray
    gpus: np.ndarray
    limit_s: np.ndarray
    user: np.ndarray
    account: np.ndarray
    name: np.ndarray
    queue: np.ndarray
    names: tuple[str, ...]

    @classmethod
    def of(cls, workload: Workload) -> Known:
        """Read the columns of a workload."""
        jobs = workload.jobs
        columns = {column: _numbered(workload, attributes) for column, attributes in COLUMNS.items()}
        numbers = {column: numbers for column, (numbers, _) in columns.items()}
        return cls(jobs["arrival_s"], jobs["gpus"], jobs["estimate_s"], **numbers, names=columns["name"][1])


def _numbered(workload: Workload, attributes: tuple[str, ...]) -> tuple[np.ndarray, tuple[str, ...]]:
    """Number the texts of an attribute; empty texts are unknown."""
    for attribute in attributes:
        if attribute in workload.attributes:
            texts, numbers = np.unique(np.asarray(workload.attributes[attribute]).astype(str), return_inverse=True)
            empty = int(len(texts) > 0 and not texts[0])  # the empty text is the least
            return (numbers - empty).astype(np.int32), tuple(texts[empty:].tolist())
    return np.full(len(workload), UNKNOWN, np.int32), ()
