"""Collect the jobs that a reader keeps and build a Workload of them."""

from __future__ import annotations

import math
from array import array
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import numpy as np

from gpusched_env.errors import TraceError
from gpusched_env.problem.workload import MAX_NODES, MIN_NODES, Profiles, Workload
from gpusched_env.traces.parsing.bad_rows import skipped_rows
from gpusched_env.traces.parsing.containers import trace_files
from gpusched_env.traces.parsing.fields import Place
from gpusched_env.traces.parsing.report import ReadReport
from gpusched_env.traces.parsing.texts import LONGEST, PIECE, Ids, Texts, check_text

__all__ = ["JobColumns"]

EPOCH: Final = datetime(1970, 1, 1)
NODES: Final = {MIN_NODES: "q", MAX_NODES: "q"}  # numbers of a reader whose log may tell nodes
UNEVEN: Final = "jobs whose GPUs do not divide evenly over their nodes: nodes ignored"
REPLACED: Final = "older records of a job, of which a newer one is kept"


class JobColumns:
    """Columns of the kept jobs; dropped jobs take no memory.

    ``attributes`` are names of text columns; ``numbers`` : name -> type of a column, "q" = int64, "d" = float64.
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
        self.merges = len(trace_files(Path(report.path))) > 1  # the newest record of an id wins
        self.kept: Sequence[int] = ()  # rows of the jobs of :meth:`workload`
        self.owners = array("q")  # number of the id of each kept job, if records merge
        self.files: list[str] = []  # file of each kept job, if records merge

    @property
    def row(self) -> int:
        """Number of the next row, counted from 0; kept, dropped and malformed rows count."""
        return self.report.rows + (0 if self.skipped is None else self.skipped.rows)

    def refuse_duplicate(self, place: Place, field: str, original: str) -> None:
        """Refuse an id that an earlier row has; if records merge, the job of the earlier row is left out instead.

        If bad rows are skipped, it is refused at once.
        """
        if self.skipped is None or self.merges:
            self.originals.append(place, field, original)
            return
        check_text(place, field, original)
        if original in self.seen:
            place.refuse(field, original, "this id occurs twice; remove one of the two", "an id that occurs twice")
        self.seen.add(original)

    def check_ids(self) -> None:
        """Refuse the first id of :meth:`refuse_duplicate` that occurs twice, and forget the ids."""
        self.originals.refuse_duplicates()
        self.originals = Ids()

    def _newest(self) -> Sequence[int]:
        """Return the rows of the jobs whose records are the newest of their ids."""
        if not self.merges or not self.originals.numbers:
            return range(len(self.ids))
        names = list(self.originals.texts)
        last = {names[owner]: row for row, owner in enumerate(self.owners)}
        return sorted(last.values())

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

        ``work`` is the run time [s], or the number of iterations if :meth:`workload` gets ``models``. ``job_id``
        None = the row number from 0. Node counts that do not divide the GPUs become 0, and are noted.
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
            if self.merges:
                self.owners.append(len(self.originals.numbers) - 1)
                self.files.append(place.path)
            self.report.rows += 1
            self.submitted.append(submitted_s)
            self.gpus.append(gpus)
            self.work.append(work)
            self.estimate.append(estimate_s)
            self.recent.append(attributes)
            if len(self.recent) == PIECE:
                self._pack()
            if (most := int(numbers.get(MAX_NODES, 0))) and gpus % most:
                self.note(place, UNEVEN)
                numbers |= dict.fromkeys(NODES, 0)
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
        self.report.drop(reason, place.number, place.path if self.merges else "")

    def note(self, place: Place, remark: str) -> None:
        """Count a remark on a job that is kept."""
        self.report.note(remark, place.number)

    def workload(
        self, name: str, dated: bool, models: tuple[Profiles, np.ndarray] | None = None, begin_s: float = math.nan
    ) -> tuple[Workload, ReadReport]:
        """Build the workload; time 0 is the first submission among the kept jobs.

        ``dated``: submissions are in seconds from EPOCH. ``models``: profiles, and the row of each kept job in them, if
        work is in iterations. ``begin_s`` : time 0 of submissions that are not dated, from EPOCH; NaN = unknown.
        """
        if not self.merges:
            self.check_ids()
        self._pack()
        report, keep = self.report, self._newest()
        for row in sorted(set(range(len(self.ids))).difference(keep)) if self.merges else ():
            report.drop(REPLACED, self.places[row], self.files[row])
        self.kept = keep
        if self.skipped is not None:
            report.take(self.skipped)
        if not any(self.numbers.get(MAX_NODES, ())):  # no job tells nodes
            self.numbers = {key: values for key, values in self.numbers.items() if key not in NODES}
        report.kept = len(keep)
        if not self.ids:
            raise TraceError(f"{report.path}: no usable job.\n{report.describe()}\nCheck that this is the right file")
        rows = np.array(keep) if self.merges else slice(None)
        self.places = array("q", np.array(self.places)[rows].tolist()) if self.merges else self.places
        submitted = np.frombuffer(self.submitted)[rows]
        first = submitted.min()
        if dated or not math.isnan(begin_s):
            since_s = float(first) + (0.0 if dated else begin_s)
            report.origin = str(np.datetime64(EPOCH, "s") + np.timedelta64(round(since_s), "s"))
        source = f"{report.format}:{Path(report.path).name}" + (f" from {report.origin}" if report.origin else "")
        work = np.frombuffer(self.work)[rows]
        profiles, profile = models or (None, None)
        workload = Workload.from_columns(
            submitted - first,
            np.frombuffer(self.gpus, np.int64)[rows],
            duration_s=work if models is None else None,
            iterations=None if models is None else work,
            profiles=profiles,
            profile=profile if profile is None else profile[rows],
            ids=np.frombuffer(self.ids, np.int64)[rows],
            estimate_s=np.frombuffer(self.estimate)[rows],
            name=name,
            source=source,
            attributes={key: column.pop_array()[rows] for key, column in self.attributes.items()}
            | {key: np.array(values)[rows] for key, values in self.numbers.items()},
        )
        return workload, report


def joined_nodes(parts: Sequence[tuple[int, int, int]]) -> tuple[int, int]:
    """Return the least and the most nodes of a job with parts (GPUs, least, most); (0, 0) = any, or unequal shares."""
    if len(parts) == 1:
        return parts[0][1:]
    shares = {gpus / most if 0 < least == most else 0.0 for gpus, least, most in parts}
    count = sum(most for *_, most in parts)
    return (0, 0) if 0.0 in shares or len(shares) > 1 else (count, count)


def since_epoch(when: datetime) -> float:
    """Return the seconds from EPOCH to a local time [s]; switches to and from summer time are not corrected."""
    return (when - EPOCH).total_seconds()
