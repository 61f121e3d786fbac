"""Columns of observation arrays: what kernels, tests and documentation share."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

__all__ = ["SHARE", "Column", "indices"]

DAY_S: Final = 86_400.0
LONGEST_S: Final = 30 * DAY_S  # [s] longer times are shown as 1


class Column(NamedTuple):
    """One column of an observation array; every value lies in [0, 1]."""

    name: str
    meaning: str
    scale: str  # how the raw value becomes a number in [0, 1]


def indices(columns: Sequence[Column]) -> Any:
    """Return each column's number by its name: with ``NODES = indices(...)``, kernels write ``[n, NODES.free]``."""
    names = [column.name for column in columns]
    return namedtuple("Indices", names)(*range(len(names)))


SCALES: Final = "Scale: none = as it is; log = ln(1 + x / 60 s) / ln(1 + 30 d / 60 s), at most 1."

TIME: Final = "log"
GPU_TIME: Final = "log of x / GPUs of the cluster"
SHARE: Final = ""
COUNT: Final = "x / (1 + x)"
