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
    "account": ("account", "namespace", "organization"),
    "name": ("name", "experiment", "model", "type"),  # or a template: what it trains, its kind
    "queue": ("queue", "cluster_queue", "partition", "virtual_cluster", "tenant"),
}
_UNTOLD: Final = ("", str(UNKNOWN))  # of numbers, NaN as well


class Known(NamedTuple):
    """Columns over the jobs of a workload. Texts are numbered in the order of their first jobs; UNKNOWN = not told.

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
        found = {name: jobs[name] for name in ("arrival_s", "gpus")} | {"limit_s": jobs["estimate_s"]}
        found |= {column: numbers for column, (numbers, _) in columns.items()}
        for array in found.values():  # schedulers see them
            array.flags.writeable = False
        return cls(**found, names=columns["name"][1])

    def up_to(self, jobs: int) -> Known:
        """Return the columns of the first jobs, and the names that they have."""
        columns = {column: getattr(self, column)[:jobs] for column in self._fields if column != "names"}
        return Known(**columns, names=self.names[: int(columns["name"].max(initial=UNKNOWN)) + 1])


def _numbered(workload: Workload, attributes: tuple[str, ...]) -> tuple[np.ndarray, tuple[str, ...]]:
    """Number the texts of an attribute, so that later jobs change no number; empty texts and -1 are unknown."""
    column = next((workload.attributes[name] for name in attributes if name in workload.attributes), None)
    if column is None:
        return np.full(len(workload), UNKNOWN, np.int32), ()
    if column.dtype.kind == "f":
        column = np.where(np.isnan(column) | (column == UNKNOWN), "", column.astype(str))
    texts, first, which = np.unique(np.asarray(column).astype(str), return_index=True, return_inverse=True)
    order = [at for at in np.argsort(first, kind="stable").tolist() if texts[at] not in _UNTOLD]
    numbers = np.full(len(texts), UNKNOWN, np.int32)
    numbers[order] = np.arange(len(order))
    return numbers[which], tuple(texts[order].tolist())
