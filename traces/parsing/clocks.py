"""Read times of which each is seconds, or a timestamp with or without a time zone, and all are of one kind."""

from __future__ import annotations

import contextlib
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import ClassVar, Final

from gpusched_env.traces.parsing.fields import Place
from gpusched_env.traces.parsing.roles import UNIT_WORDS, UNITS_S

NOT_TOLD: Final = frozenset({"", "none", "null", "nan", "nat", "na", "n/a", "unknown"})  # missing values, in lower case
_STAMP: Final = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d(:\d\d([.,]\d+)?)?( ?Z|[+-]\d\d:?\d\d)?")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
LATEST_S: Final = 1e11  # [s] after 1970, in the year 5138; a larger number is a date in milliseconds
SECONDS: Final = "numbers"
LOCAL: Final = "timestamps without a zone"
ZONED: Final = "timestamps with a zone"


def is_told(text: str) -> bool:
    """Whether a cell has a value; the texts of NOT_TOLD mean that it has none."""
    return text.strip().lower() not in NOT_TOLD


@dataclass
class Times:
    """Reader of times that are all of one kind, because one setting of the user determines it.

    ``kind`` is SECONDS, LOCAL or ZONED, "" at first; ``zone_s`` the offset of the first zone, positive to the east [s].
    """

    kind: str = ""
    zone_s: float = 0.0

    # What is wrong with a time of another kind than those before it, and how such rows are counted
    OTHER: ClassVar = "the times above are {}, this one is not; correct or remove the row", "expected {}, as above"

    def since_1970(self, place: Place, field: str, text: str, value: datetime) -> float:
        """Return the seconds since 1970 of a time that a text tells, in UTC if it has a zone, else in local time."""
        zone = value.utcoffset()
        first = not self.kind
        self.check_kind(place, field, text, LOCAL if zone is None else ZONED)
        if first and zone is not None:
            self.zone_s = zone.total_seconds()
        return (value.replace(tzinfo=UTC) - _EPOCH if zone is None else value - _EPOCH).total_seconds()

    def check_kind(self, place: Place, field: str, text: str, kind: str) -> None:
        """Refuse a time of another kind than those before it."""
        self.kind = self.kind or kind
        if kind != self.kind:
            place.refuse(field, text, *(message.format(self.kind) for message in self.OTHER))


@dataclass
class Clock(Times):
    """Reader of one column of times in a user's own CSV."""

    role: str = ""
    column: str = ""
    unit: str = ""

    OTHER = (
        "the rows above have {}, this one does not; correct or remove the row",
        "expected {}, as in the rows above",
    )

    def read(self, place: Place, text: str) -> float | None:
        """Read a cell and return seconds, since 1970 for a timestamp (in UTC if it has a zone); None = no value."""
        if not is_told(text):
            return None
        text = text.strip()
        if _STAMP.fullmatch(text) is None:
            return self._number(place, text)
        value: datetime | None = None
        with contextlib.suppress(ValueError):
            value = datetime.fromisoformat(text.replace(" Z", "Z").replace(",", "."))
        if value is None:
            place.refuse(self.column, text, "no such date or time; correct or remove the row")
        return self.since_1970(place, self.column, text, value)

    def _number(self, place: Place, text: str) -> float:
        try:
            float(text)
        except ValueError:
            wanted = f"expected {UNIT_WORDS[self.unit]}, or a time as YYYY-MM-DD HH:MM:SS with or without a zone"
            place.refuse(self.column, text, f"{wanted}; correct or remove the row")
        value = place.amount(self.column, text, UNIT_WORDS[self.unit], UNITS_S[self.unit])
        if value > LATEST_S:
            other = "ms" if self.unit != "ms" else "s"
            asked = f"{value:.3g} s is no date: is it in {UNIT_WORDS[other]}?"
            remedy = f"{asked} write --map {self.role}_{other}={self.column}"
            place.refuse(self.column, text, remedy, "a time beyond the year 5000")
        self.check_kind(place, self.column, text, SECONDS)
        return value
