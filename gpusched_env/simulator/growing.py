"""An array that records are added to at its end: the log of a run."""

from __future__ import annotations

from typing import Any

import numpy as np


class GrowingArray:
    """Records in the order in which they have come.

    Parameters
    ----------
    dtype : of a record
    room : records that fit before it grows; nothing is laid out for them before the first one has come
    """

    def __init__(self, dtype: np.dtype[Any], room: int = 0) -> None:
        self._array = np.empty(0, dtype)
        self._room = room
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, records: np.ndarray) -> None:
        """Add copies of records."""
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
            # Most machines move no record for that. On the attribute, since numpy counts who refers to the array.
            self._array.resize(room)
        except ValueError:  # somebody looks at it, or its memory is not its own
            grown = np.empty(room, self._array.dtype)
            _copy(self[:], grown)
            self._array = grown

    def __getitem__(self, part: slice) -> np.ndarray:
        """Look at part of the records, without a copy: not to be written to. What is added later does not change it."""
        return self._array[: self._count][part]

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the memory that no record has."""
        return {**self.__dict__, "_array": self[:].copy()}


def _copy(records: np.ndarray, target: np.ndarray) -> None:
    """Copy records to the beginning of a longer array, as bytes: numpy copies structures field by field."""
    plain = f"V{records.dtype.itemsize}"
    target[: len(records)].view(plain)[:] = records.view(plain)
