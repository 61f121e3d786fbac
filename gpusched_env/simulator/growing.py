"""An append-only array of records, for the log of a run."""

from __future__ import annotations

from typing import Any

import numpy as np


class GrowingArray:
    """Records in the order in which they were added.

    Parameters
    ----------
    dtype : type of a record
    room : initial capacity in records; it is allocated when the first record is added
    """

    def __init__(self, dtype: np.dtype[Any], room: int = 0) -> None:
        self._array = np.empty(0, dtype)
        self._room = room
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, records: np.ndarray) -> None:
        """Append copies of records; amortised O(len(records))."""
        if len(records) == 0:
            return
        count = self._count + len(records)
        if count > len(self._array):
            self._grow(max(count, self._room, len(self._array) * 3 // 2))
        _copy(records, self._array[self._count :])
        self._count = count

    def _grow(self, room: int) -> None:
        if self._count == 0:
            self._array = np.empty(room, self._array.dtype)
            return
        try:
            # On most machines this copies nothing. No local variable for the array: numpy counts references to it.
            self._array.resize(room)
        except ValueError:  # a view of it exists, or it does not own its memory
            grown = np.empty(room, self._array.dtype)
            _copy(self[:], grown)
            self._array = grown

    def __getitem__(self, part: slice) -> np.ndarray:
        """Return a view of part of the records: do not write to it. Records that are added later do not change it."""
        return self._array[: self._count][part]

    def __getstate__(self) -> dict[str, Any]:
        """Pickle without the unused capacity."""
        return {**self.__dict__, "_array": self[:].copy()}


def _copy(records: np.ndarray, target: np.ndarray) -> None:
    """Copy records to the beginning of a longer array, as bytes: numpy copies structured arrays field by field."""
    plain = f"V{records.dtype.itemsize}"
    target[: len(records)].view(plain)[:] = records.view(plain)
