"""Parse one field of one row, or raise an error that names the file, line, field and remedy."""

from __future__ import annotations

import contextlib
import math
from datetime import datetime
from typing import Final, NoReturn

import msgspec

from gpusched_env.traces.parsing.bad_rows import BadRowError

MAX_WHOLE: Final = 2**31 - 1  # columns of gangs and batches are 32-bit integers
MAX_AMOUNT: Final = 1e15  # larger than any real value, and small enough that sums and products of amounts stay finite
UNITS_S: Final = {"seconds": 1.0, "minutes": 60.0}
NO_TIME: Final = frozenset({"", "None", "null"})  # the texts by which logs mark an unknown time


class Place(msgspec.Struct, frozen=True, gc=False):
    """Place of a value in a file, counted from 1; every row makes one, so it is a Struct, which is made fast."""

    path: str
    number: int
    unit: str = "line"

    def refuse(self, field: str, value: object, remedy: str, reason: str = "") -> NoReturn:
        """Raise BadRowError for a malformed value.

        Parameters
        ----------
        field : name of the field
        value : the malformed value
        remedy : end of the error message, which tells the user what to do
        reason : reason under which the row is counted if bad rows are skipped; "" = the remedy up to its semicolon
        """
        shown = repr(value)
        shown = shown if len(shown) <= 60 else shown[:57] + "..."
        raise BadRowError(
            f"{self.path}, {self.unit} {self.number}, field {field!r}: {shown}: {remedy}",
            (self.number,),
            f"field {field!r}: {reason or remedy.partition(';')[0]}",
        )

    def amount(self, field: str, text: str, unit: str, scale: float = 1.0) -> float:
        """Read a number from 0 to MAX_AMOUNT and multiply it by ``scale``; an error message names ``unit``."""
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        # float() accepts "1_000", but no log has such numbers
        if not 0 <= value <= MAX_AMOUNT or "_" in text:
            wanted = f"expected a finite number of {unit} >= 0, at most {MAX_AMOUNT:g}"
            self.refuse(field, text, f"{wanted}; correct or remove the row")
        return value * scale

    def seconds(self, field: str, text: str, unit: str = "seconds") -> float:
        """Read a time from 0 to MAX_AMOUNT in ``unit``, a key of UNITS_S, and return it in seconds."""
        return self.amount(field, text, unit, UNITS_S[unit])

    def seconds_or_none(self, field: str, text: str) -> float | None:
        """Read seconds; return None if the time is unknown."""
        return None if text in NO_TIME else self.seconds(field, text)

    def gpus(self, field: str, text: str) -> int:
        """Read a whole number of GPUs >= 0 [GPU]."""
        return self.whole(field, text, "GPUs")

    def whole(self, field: str, text: str, unit: str) -> int:
        """Read a whole number of ``unit`` >= 0 that fits into 32 bits."""
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not 0 <= value <= MAX_WHOLE or value != int(value) or "_" in text:
            self.refuse(field, text, f"expected a whole number of {unit} >= 0; correct or remove the row")
        return int(value)

    def nodes(self, field: str, text: str) -> tuple[int, int]:
        """Read a number of nodes, such as ``2``, or the least and the most, such as ``1-4``; 0 = any."""
        first, dash, last = text.partition("-")
        least = self.whole(field, first, "nodes")
        most = self.whole(field, last, "nodes") if dash else least
        if least > most or (dash and not least):
            remedy = "expected a number of nodes, or least to most as in 1-4; correct it, or leave out the column"
            self.refuse(field, text, remedy)
        return least, most

    def when(self, field: str, text: object) -> datetime:
        """Read a local time of the log, ``YYYY-MM-DD HH:MM:SS``."""
        return self._time(field, text, "YYYY-MM-DD HH:MM:SS")

    def when_or_none(self, field: str, text: object) -> datetime | None:
        """Read a local time of the log; return None if the time is unknown."""
        return None if text is None or (isinstance(text, str) and text in NO_TIME) else self.when(field, text)

    def zoned(self, field: str, text: str) -> datetime:
        """Read a time with its offset from UTC, ``YYYY-MM-DD HH:MM:SS+HH:MM``; the result keeps the offset."""
        return self._time(field, text, "YYYY-MM-DD HH:MM:SS+HH:MM")

    def zoned_or_none(self, field: str, text: str) -> datetime | None:
        """Read a time with its offset from UTC; return None if the time is unknown."""
        return None if text in NO_TIME else self.zoned(field, text)

    def _time(self, field: str, text: object, form: str) -> datetime:
        value: datetime | None = None
        if isinstance(text, str) and len(text) == len(form) and text[10] in " T":
            with contextlib.suppress(ValueError):
                value = datetime.fromisoformat(text)
        if value is None or (value.tzinfo is not None) != ("+" in form):
            self.refuse(field, text, f"expected a time as {form}; correct or remove the row")
        return value
