"""Collect the jobs that a reader keeps, then hand them over as a Workload."""

from __future__ import annotations

import math
from array import array
from datetime import datetime
from pathlib import Path
from typing import Final

import numpy as np

from gpusched_env.errors import TraceError
from gpusched_env.traces.fields import Place
from gpusched_env.traces.report import ReadReport
from gpusched_env.workload import Profiles, Workload

EPOCH: Final = datetime(1970, 1, 1)


class JobColumns:
    """Columns of the kept jobs; memory grows with them alone.

    Parameters
    ----------
    report : counts are kept up to date here
    attributes : names of text columns, for example original_id, user, virtual_cluster
    """

    def __init__(self, report: ReadReport, *attributes: str) -> None:
        self.report = report
        self.ids = array("q")
        self.submitted = array("d")
        self.gpus = array("q")
        self.work = array("d")
        self.estimate = array("d")
        self.attributes: dict[str, list[str]] = {name: [] for name in attributes}
        self.seen: set[str] = set()

    def refuse_duplicate(self, place: Place, field: str, original: str) -> None:
        """Refuse an id that an earlier row, kept or dropped, has."""
        if original in self.seen:
            place.refuse(field, original, "this job id occurs twice; remove one of the two rows")
        self.seen.add(original)

    def add(
        self,
        place: Place,
        submitted_s: float,
        gpus: int,
        work: float,
        *attributes: str,
        estimate_s: float = math.nan,
    ) -> None:
        """Keep a job, or drop and count it when it used no GPU or no time; its id is its row number from 0.

        Parameters
        ----------
        work : run time [s], or iterations of the model that :meth:`workload` is given
        """
        self.report.rows += 1
        if gpus == 0:
            self.report.drop("CPU job (no GPUs)", place.number)
        elif work == 0:
            self.report.drop("zero run time", place.number)
        else:
            self.ids.append(self.report.rows - 1)
            self.submitted.append(submitted_s)
            self.gpus.append(gpus)
            self.work.append(work)
            self.estimate.append(estimate_s)
            for column, value in zip(self.attributes.values(), attributes, strict=True):
                column.append(value)

    def drop(self, place: Place, reason: str) -> None:
        """Drop and count a row that is well formed but carries no usable job."""
        self.report.rows += 1
        self.report.drop(reason, place.number)

    def note(self, place: Place, remark: str) -> None:
        """Count one remark on a job that is kept."""
        self.report.note(remark, place.number)

    def workload(
        self, name: str, dated: bool, models: tuple[Profiles, np.ndarray] | None = None
    ) -> tuple[Workload, ReadReport]:
        """Build the workload; arrival 0 is the first submission that was kept.

        Parameters
        ----------
        dated : submission seconds count from EPOCH, so that the report can name the origin
        models : profiles, and the profile of each kept job, whose work is then in iterations; None = it is in seconds

        Raises
        ------
        TraceError : nothing was kept
        """
        report = self.report
        report.kept = len(self.ids)
        if not self.ids:
            raise TraceError(f"{report.path}: no usable job.\n{report.describe()}\nCheck that this is the right file")
        submitted = np.array(self.submitted)
        first = submitted.min()
        if dated:
            report.origin = str(np.datetime64(EPOCH, "s") + np.timedelta64(round(float(first)), "s"))
        source = f"{report.format}:{Path(report.path).name}" + (f" from {report.origin}" if report.origin else "")
        work = np.array(self.work)
        profiles, profile = models or (None, None)
        workload = Workload.from_columns(
            submitted - first,
            np.array(self.gpus),
            duration_s=work if models is None else None,
            iterations=None if models is None else work,
            profiles=profiles,
            profile=profile,
            ids=np.array(self.ids),
            estimate_s=np.array(self.estimate),
            name=name,
            source=source,
            attributes={key: np.array(column) for key, column in self.attributes.items()},
        )
        return workload, report


def since_epoch(when: datetime) -> float:
    """Seconds from EPOCH; local times of the log are taken as they stand, so a change of clocks is not undone [s]."""
    return (when - EPOCH).total_seconds()
