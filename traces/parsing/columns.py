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
from gpusched_env.problem.workload import Profiles, Workload
from gpusched_env.traces.parsing.bad_rows import skipped_rows
from gpusched_env.traces.parsing.fields import Place
from gpusched_env.traces.parsing.report import ReadReport
from gpusched_env.traces.parsing.texts import LONGEST, PIECE, Ids, Texts, check_text

EPOCH: Final = datetime(1970, 1, 1)


class JobColumns:
    """Columns of the kept jobs; dropped jobs take no memory.

    Parameters
    ----------
    report : the report that is updated
    attributes : names of the text columns, for example original_id, user, virtual_cluster
    numbers : name of each column of numbers -> its array type, "q" = int64 or "d" = float64
    """

    def __init__(self, report: ReadReport, *attributes: str, numbers: Mapping[str, str] | None = None) -> None:
        self.report = report
        self.ids = array("q")
        self.places = array("q")
        self.submitted = array("d")
        self.gpus = array("q")
        self.work = array("d")
        self.estimate = array("d")
        self.attributes = {name: Texts() for name in attributes}
        self.recent: list[tuple[str, ...]] = []  # texts of the last jobs, which are not in the columns yet
        self.numbers: dict[str, array[Any]] = {name: array(kind) for name, kind in (numbers or {}).items()}
        self.originals = Ids()
        self.skipped = skipped_rows()  # None = bad rows raise an error
        self.seen: set[str] = set()

    @property
    def row(self) -> int:
        """Number of the next row, counted from 0; kept, dropped and malformed rows count."""
        return self.report.rows + (0 if self.skipped is None else self.skipped.rows)

    def refuse_duplicate(self, place: Place, field: str, original: str) -> None:
        """Refuse an id that also occurs in an earlier row, whether that row was kept or dropped.

        :meth:`workload` checks all ids at once, which needs little memory. If bad rows are skipped, this method checks
        each id, because a kept row cannot be removed later.
        """
        if self.skipped is None:
            self.originals.append(place, field, original)
            return
        check_text(place, field, original)
        if original in self.seen:
            place.refuse(field, original, "this id occurs twice; remove one of the two", "an id that occurs twice")
        self.seen.add(original)

    def check_ids(self) -> None:
        """Refuse the first id of :meth:`refuse_duplicate` that occurs twice, and forget the ids.

        Raises
        ------
        TraceError : an id that occurs twice
        """
        self.originals.refuse_duplicates()
        self.originals = Ids()

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
        """Keep a job; if it used no GPU or no time, drop and count it instead.

        Parameters
        ----------
        place : place of the job in the file
        submitted_s : submission time [s]
        gpus : gang size [GPU]
        work : run time [s], or number of iterations if ``models`` is passed to :meth:`workload`
        attributes : values of the text columns
        estimate_s : estimated run time [s]; NaN = unknown
        job_id : id of the job, if ties must be broken by the ids of the log; None = its row number from 0
        numbers : values of the columns of numbers
        """
        if gpus == 0:
            self.drop(place, "CPU job (no GPUs)")
        elif work == 0:
            self.drop(place, "zero run time")
        else:
            # Everything is checked before the first append, because the row may be skipped.
            together = "".join(attributes)
            if len(together) > LONGEST or "\0" in together:
                for name, value in zip(self.attributes, attributes, strict=True):
                    check_text(place, name, value)
            self.ids.append(self.row if job_id is None else job_id)
            self.places.append(place.number)
            self.report.rows += 1
            self.submitted.append(submitted_s)
            self.gpus.append(gpus)
            self.work.append(work)
            self.estimate.append(estimate_s)
            self.recent.append(attributes)
            if len(self.recent) == PIECE:
                self._pack()
            for name, values in self.numbers.items():
                values.append(numbers[name])

    def _pack(self) -> None:
        """Move the texts of the recent jobs into their columns; column by column is faster than job by job."""
        if self.recent:
            for column, values in zip(self.attributes.values(), zip(*self.recent, strict=True), strict=True):
                column.extend(values)
            self.recent.clear()

    def texts(self, name: str) -> list[str]:
        """Return the texts of an attribute of all jobs; no job may be added afterwards."""
        self._pack()
        return list(self.attributes[name])

    def drop(self, place: Place, reason: str) -> None:
        """Count a row that is dropped: it is well-formed, but has no usable job."""
        self.report.rows += 1
        self.report.drop(reason, place.number)

    def note(self, place: Place, remark: str) -> None:
        """Count a remark on a job that is kept."""
        self.report.note(remark, place.number)

    def workload(
        self, name: str, dated: bool, models: tuple[Profiles, np.ndarray] | None = None
    ) -> tuple[Workload, ReadReport]:
        """Build the workload; time 0 is the first submission among the kept jobs.

        Parameters
        ----------
        name : name of the workload
        dated : True = submissions are in seconds from EPOCH, so the report gives the date of the first one
        models : profiles, and the profile row of each kept job, where work is in iterations; None = work is in seconds

        Raises
        ------
        TraceError : no job was kept, or an id occurs twice
        """
        self.check_ids()
        self._pack()
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
    """Return the seconds from EPOCH to a local time [s]; switches to and from summer time are not corrected."""
    return (when - EPOCH).total_seconds()
