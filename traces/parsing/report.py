"""The report of what a reader kept and what it dropped."""

from __future__ import annotations

import csv
from array import array
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import Final

import numpy as np

from gpusched_env.support.files import whole

__all__ = ["ReadReport"]

EXAMPLES: Final = 5  # number of places shown for each reason
COLUMNS: Final = ("file", "unit", "number", "outcome", "reason")


@dataclass
class ReadReport:
    """Report of what a reader kept and dropped of one file.

    Attributes
    ----------
    format : name of the format
    path : path of the file
    unit : unit in which places are counted from 1, such as "line" of a text file or "record" of a JSON list
    rows : number of data rows or records that were read
    kept : number of kept jobs of a workload, nodes or virtual clusters of a cluster, or rows of a table
    things : name of what ``kept`` counts
    origin : submission time of the first kept job, as ISO 8601 local time of the log; "" if the log has no dates
    columns : for a user's own CSV, lines that say which column has which role
    dropped : reason -> number of rows that were dropped for it
    notes : remark -> number of kept jobs that it concerns
    dropped_at, noted_at : reason or remark -> int64 array of the places of its rows
    named : reason -> names of the files of its first EXAMPLES rows, if there are several files
    """

    format: str
    path: str
    unit: str = "line"
    rows: int = 0
    kept: int = 0
    origin: str = ""
    dropped: dict[str, int] = field(default_factory=dict)
    notes: dict[str, int] = field(default_factory=dict)
    things: str = "jobs"
    columns: list[str] = field(default_factory=list)
    dropped_at: dict[str, array[int]] = field(default_factory=dict, repr=False)
    noted_at: dict[str, array[int]] = field(default_factory=dict, repr=False)
    named: dict[str, list[str]] = field(default_factory=dict, repr=False)

    @property
    def places(self) -> dict[str, list[int]]:
        """The first EXAMPLES dropped lines or records for each reason."""
        return {reason: places[:EXAMPLES].tolist() for reason, places in self.dropped_at.items()}

    def drop(self, reason: str, place: int, file: str = "") -> None:
        """Count a row that is dropped, and remember its place; ``file`` : which of several files it is in."""
        if file and len(self.named.setdefault(reason, [])) < EXAMPLES:
            self.named[reason].append(f" of {Path(file).name}")
        self.dropped[reason] = self.dropped.get(reason, 0) + 1
        _remember(self.dropped_at, reason, place)

    def drop_many(self, reason: str, count: int) -> None:
        """Count ``count`` rows that were dropped, without their places."""
        if count:
            self.dropped[reason] = self.dropped.get(reason, 0) + count

    def take(self, other: ReadReport) -> None:
        """Add the counts of rows and dropped rows of ``other`` to this report, and reset the counts of ``other``."""
        self.rows += other.rows
        for reason, places in other.dropped_at.items():
            for place in places:
                self.drop(reason, place)
        other.forget()

    def forget(self) -> None:
        """Reset the counts of rows read and dropped."""
        self.rows = 0
        self.dropped.clear()
        self.dropped_at.clear()

    def note(self, remark: str, place: int) -> None:
        """Count a remark on a job that is kept, and remember the place of the job."""
        self.notes[remark] = self.notes.get(remark, 0) + 1
        _remember(self.noted_at, remark, place)

    def describe(self) -> str:
        """Return a text of a few lines that says what was read, kept and dropped."""
        lines = [f"{self.path} ({self.format}): {self.rows:,} {self.unit}s read, {self.kept:,} {self.things} kept"]
        if self.origin:
            lines.append(f"  first submission {self.origin} is time 0")
        lines += [f"  {line}" for line in self.columns]
        for reason, count in self.dropped.items():
            files = self.named.get(reason, [])
            places = [f"{place}{file}" for place, file in zip_longest(self.places.get(reason, []), files, fillvalue="")]
            more = ", ..." if count > len(places) else ""
            where = f" ({self.unit} {', '.join(places)}{more})" if places else ""
            lines.append(f"  dropped {count:,}: {reason}{where}")
        lines += [f"  note {count:,}: {remark}" for remark, count in self.notes.items()]
        return "\n".join(lines)

    def write_csv(self, path: Path) -> None:
        """Write one row for every dropped row and every remark, in the order of the file.

        Columns: file, unit (line or record), number, outcome (dropped or noted), reason.
        """
        groups = [("dropped", *item) for item in self.dropped_at.items()]
        groups += [("noted", *item) for item in self.noted_at.items()]
        number = np.concatenate([np.array(places) for _, _, places in groups]) if groups else np.empty(0, np.int64)
        group = np.repeat(np.arange(len(groups)), [len(places) for _, _, places in groups])
        with whole(path) as partial, partial.open("w", encoding="utf-8", newline="") as stream:
            out = csv.writer(stream, lineterminator="\n")
            out.writerow(COLUMNS)
            for i in np.lexsort([group, number]):
                outcome, reason, _ = groups[group[i]]
                out.writerow((self.path, self.unit, number[i], outcome, reason))


def _remember(places: dict[str, array[int]], reason: str, place: int) -> None:
    if reason not in places:
        places[reason] = array("q")
    places[reason].append(place)
