"""Parse the texts of a column into an array."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final

import numpy as np

EXPECTED: Final = {  # kind of column -> expected text of a cell, for error messages
    "text": "a text",
    "time": "a date as YYYY-MM-DD, or a time as YYYY-MM-DD HH:MM:SS",
    "whole": "a whole number",
    "number": "a finite number",
}
EXACT: Final = 2**53  # a float represents every whole number up to this one exactly


def parse(kind: str, texts: Sequence[str]) -> np.ndarray:
    """Parse texts into str, datetime64[s] ("time"), int64 ("whole") or float64 ("number"; "" and ``nan`` = NaN)."""
    if kind == "text":
        return np.array(texts, np.str_)
    if kind == "time":
        return np.array([_time(text) for text in texts], "datetime64[s]")
    values = np.array([float(text or "nan") for text in texts])
    if np.isinf(values).any() or "_" in "".join(texts):  # float() accepts "1_000", but no table has such numbers
        raise ValueError
    if kind == "number":
        return values
    if not ((np.abs(values) <= EXACT) & (values == np.trunc(values))).all():  # NaN fails both conditions
        raise ValueError
    return values.astype(np.int64)


def _time(text: str) -> datetime:
    when = datetime.fromisoformat(text)
    if when.tzinfo is not None or len(text) not in (len("2020-04-01"), len("2020-04-01 00:00:00")):
        raise ValueError
    return when
