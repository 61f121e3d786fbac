"""What a reader kept and what it dropped: nothing disappears unseen."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

EXAMPLES: Final = 5  # dropped places remembered for each reason


@dataclass
class ReadReport:
    """The account of one read.

    Attributes
    ----------
    format : name of the format that was recognised
    path : the file
    unit : what ``places`` count: "line" of a text file (1 is the header) or "record" of a JSON list (from 1)
    rows : data rows or records read
    kept : jobs of the workload
    origin : submission time of the first kept job, ISO 8601 local time of the log; empty when the log has no dates
    dropped : number of rows dropped for each reason
    places : the first few dropped lines or records for each reason
    notes : remarks on kept jobs, with counts
    """

    format: str
    path: str
    unit: str = "line"
    rows: int = 0
    kept: int = 0
    origin: str = ""
    dropped: dict[str, int] = field(default_factory=dict)
    places: dict[str, list[int]] = field(default_factory=dict)
    notes: dict[str, int] = field(default_factory=dict)

    def drop(self, reason: str, place: int) -> None:
        """Count one row that carries no usable job."""
        self.drop_many(reason, 1)
        if len(places := self.places.setdefault(reason, [])) < EXAMPLES:
            places.append(place)

    def drop_many(self, reason: str, count: int) -> None:
        """Count rows that a later filter took out, without their places."""
        if count:
            self.dropped[reason] = self.dropped.get(reason, 0) + count

    def note(self, remark: str) -> None:
        """Count one remark on a job that is kept."""
        self.notes[remark] = self.notes.get(remark, 0) + 1

    def describe(self) -> str:
        """Say in a few lines what was read, kept and dropped."""
        lines = [f"{self.path} ({self.format}): {self.rows:,} {self.unit}s read, {self.kept:,} jobs kept"]
        if self.origin:
            lines.append(f"  first submission {self.origin} is time 0")
        for reason, count in self.dropped.items():
            places = self.places.get(reason, [])
            more = ", ..." if count > len(places) else ""
            where = f" ({self.unit} {', '.join(map(str, places))}{more})" if places else ""
            lines.append(f"  dropped {count:,}: {reason}{where}")
        lines += [f"  note {count:,}: {remark}" for remark, count in self.notes.items()]
        return "\n".join(lines)
