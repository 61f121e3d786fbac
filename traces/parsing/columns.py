"""Collect the jobs that a reader keeps and build a Workload of them."""

from __future__ import annotations

import math
from array import array
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import numpy as np

from gpusched_env.errors import TraceError
from gpusched_env.traces.parsing.bad_rows import skipped_rows
from gpusched_env.traces.parsing.fields import Place
from gpusched_env.traces.parsing.report import ReadReport
from gpusched_env.traces.parsing.texts import Ids, Texts, check_text
from gpusched_env.workload import Profiles, Workload

EPOCH: Final = datetime(1970, 1, 1)


class JobColumns:
    """Columns of the kept jobs; memory grows with the kept jobs only.

    Parameters
    ----------
    report : the report to update
    attributes : names of text columns, for example original_id, user, virtual_cluster
    numbers : names of columns of numbers, with their array type: "q" = int64, "d" = float64
    """

    def __init__(self, report: ReadReport, *attributes: str, numbers: Mapping[str, str] | None = None) -> None:
        self.report = report
        self.ids = array("q")
        self.submitted = array("d")
        self.gpus = array("q")
        self.work = array("d")
        self.estimate = array("d")
        self.attributes = {name: Texts() for name in attributes}
        self.numbers: dict[str, array[Any]] = {name: array(kind) for name, kind in (numbers or {}).items()}
        self.originals = Ids()
        self.skipped = skipped_rows()  # None = bad rows are refused
        self.seen: set[str] = set()

    def refuse_duplicate(self, place: Place, field: str, original: str) -> None:
        """Refuse an id that an earlier row, kept or dropped, has.

        The check is made in :meth:`workload`, for all ids at once. If bad rows are skipped, it is made here and takes
        more memory, because a kept row cannot be removed later.
        """
        if self.skipped is None:
            self.originals.append(place, field, original)
            return
        check_text(place, field, original)
        if original in self.seen:
            place.refuse(field, original, "this id occurs twice; remove one of the two", "an id that occurs twice")
        self.seen.add(original)

    def add(
        self,
        place: Place,
        submitted_s: float,
        gpus: int,
        work: float,
        *attributes: str,
        estimate_s: float = math.nan,
        job_id: int | None = None,
        **numbers: float,
    ) -> None:
        """Keep a job, or drop and count it if it used no GPU or no time.

        Parameters
        ----------
        work : run time [s], or iterations if ``models`` is passed to :meth:`workload`
        job_id : id of the job, if ties are broken by the log's own numbers; None = its row number from 0
        """
        if gpus == 0:
            self.drop(place, "CPU job (no GPUs)")
        elif work == 0:
            self.drop(place, "zero run time")
        else:
            for name, value in zip(self.attributes, attributes, strict=True):
                check_text(place, name, value)  # check all before anything is stored: the row may be skipped
            row = self.report.rows + (0 if self.skipped is None else self.skipped.rows)
            self.report.rows += 1
            self.ids.append(row if job_id is None else job_id)
            self.submitted.append(submitted_s)
            self.gpus.append(gpus)
            self.work.append(work)
            self.estimate.append(estimate_s)
            for column, value in zip(self.attributes.values(), attributes, strict=True):
                column.add(value)
            for name, values in self.numbers.items():
                values.append(numbers[name])

    def drop(self, place: Place, reason: str) -> None:
        """Drop and count a row that is well-formed but has no usable job."""
        self.report.rows += 1
        self.report.drop(reason, place.number)

    def note(self, place: Place, remark: str) -> None:
        """Count one remark on a job that is kept."""
        self.report.note(remark, place.number)

    def workload(
        self, name: str, dated: bool, models: tuple[Profiles, np.ndarray] | None = None
    ) -> tuple[Workload, ReadReport]:
        """Build the workload; arrivals count from the first submission that was kept.

        Parameters
        ----------
        dated : submission seconds count from EPOCH, so the report can give the date of the first submission
        models : profiles, and the profile row of each kept job; work is then in iterations. None = work is in seconds

        Raises
        ------
        TraceError : no job was kept, or an id occurs twice
        """
        self.originals.refuse_duplicates()
        report = self.report
        if self.skipped is not None:
            report.take(self.skipped)
        report.kept = len(self.ids)
        if not self.ids:
            raise TraceError(f"{report.path}: no usable job.\n{report.describe()}\nCheck that this is the right file")
        submitted = np.frombuffer(self.submitted)
        first = submitted.min()
        if dated:
            report.origin = str(np.datetime64(EPOCH, "s") + np.timedelta64(round(float(first)), "s"))
        source = f"{report.format}:{Path(report.path).name}" + (f" from {report.origin}" if report.origin else "")
        work = np.frombuffer(self.work)
        profiles, profile = models or (None, None)
        workload = Workload.from_columns(
            submitted - first,
            np.frombuffer(self.gpus, np.int64),
            duration_s=work if models is None else None,
            iterations=None if models is None else work,
            profiles=profiles,
            profile=profile,
            ids=np.frombuffer(self.ids, np.int64),
            estimate_s=np.frombuffer(self.estimate),
            name=name,
            source=source,
            attributes={key: column.pop_array() for key, column in self.attributes.items()}
            | {key: np.array(values) for key, values in self.numbers.items()},
        )
        return workload, report


def since_epoch(when: datetime) -> float:
    """Seconds from EPOCH [s]. Local times are taken as they are: switches to and from summer time are not corrected."""
    return (when - EPOCH).total_seconds()
