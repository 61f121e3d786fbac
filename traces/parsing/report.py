"""What a reader kept and what it dropped."""

from __future__ import annotations

import csv
from array import array
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np

from gpusched_env.files import whole

EXAMPLES: Final = 5  # places shown for each reason
COLUMNS: Final = ("file", "unit", "number", "outcome", "reason")


@dataclass
class ReadReport:
    """Report of reading one file.

    Attributes
    ----------
    format : name of the format
    path : the file
    unit : what a place is: "line" of a text file (1 is the header) or "record" of a JSON list (from 1)
    rows : data rows or records read
    kept : number of jobs of the workload, nodes of the cluster, or rows of the table
    things : what ``kept`` counts
    origin : submission time of the first kept job, ISO 8601 local time of the log; empty if the log has no dates
    columns : for a user's own CSV, lines that say which column has which role
    dropped : number of rows dropped for each reason
    notes : remarks on kept jobs, with counts
    dropped_at, noted_at : places of these rows as int64 arrays, for each reason or remark
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

    @property
    def places(self) -> dict[str, list[int]]:
        """The first EXAMPLES dropped lines or records for each reason."""
        return {reason: places[:EXAMPLES].tolist() for reason, places in self.dropped_at.items()}

    def drop(self, reason: str, place: int) -> None:
        """Count one row without a usable job."""
        self.drop_many(reason, 1)
        _remember(self.dropped_at, reason, place)

    def drop_many(self, reason: str, count: int) -> None:
        """Count rows that a later filter removed, without their places."""
        if count:
            self.dropped[reason] = self.dropped.get(reason, 0) + count

    def take(self, other: ReadReport) -> None:
        """Move the dropped rows of another report into this one."""
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
        """Count one remark on a job that is kept."""
        self.notes[remark] = self.notes.get(remark, 0) + 1
        _remember(self.noted_at, remark, place)

    def describe(self) -> str:
        """Return a few lines of text that say what was read, kept and dropped."""
        lines = [f"{self.path} ({self.format}): {self.rows:,} {self.unit}s read, {self.kept:,} {self.things} kept"]
        if self.origin:
            lines.append(f"  first submission {self.origin} is time 0")
        lines += [f"  {line}" for line in self.columns]
        for reason, count in self.dropped.items():
            places = self.places.get(reason, [])
            more = ", ..." if count > len(places) else ""
            where = f" ({self.unit} {', '.join(map(str, places))}{more})" if places else ""
            lines.append(f"  dropped {count:,}: {reason}{where}")
        lines += [f"  note {count:,}: {remark}" for remark, count in self.notes.items()]
        return "\n".join(lines)

    def write_csv(self, path: Path) -> None:
        """Write one row for every dropped row and every remark, in the order of the file.

        Columns: file, unit (line or record), number, outcome (dropped or noted), reason.

        Raises
        ------
        GpuschedError : the file cannot be written
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
