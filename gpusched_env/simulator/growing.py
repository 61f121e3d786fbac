"""An append-only array of records, for the log of a run."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpusched_env.core.storage import as_bytes


class GrowingArray:
    """An array of records in the order in which they were added.

    Parameters
    ----------
    dtype : type of a record
    room : initial capacity [records]; the memory is allocated when the first record is added
    """

    def __init__(self, dtype: np.dtype[Any], room: int = 0) -> None:
        self._array = np.empty(0, dtype)
        self._room = room
        self._count = 0

    @classmethod
    def of(cls, records: np.ndarray) -> GrowingArray:
        """Return an array that begins with these records, which stay as they are."""
        made = cls.__new__(cls)
        made._array, made._room, made._count = records, 0, len(records)
        return made

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
            # On most systems ``resize`` copies nothing. It fails if a second reference to the array exists, so the
            # array must not be assigned to a local variable.
            self._array.resize(room)
        except ValueError:  # a view of the array exists, or the array does not own its memory
            grown = np.empty(room, self._array.dtype)
            _copy(self[:], grown)
            self._array = grown

    def __getitem__(self, part: slice) -> np.ndarray:
        """Return a read-only view of a slice of the records; adding records later does not change the view."""
        return self._array[: self._count][part]

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for pickling, without the unused capacity."""
        return {**self.__dict__, "_array": self[:].copy()}


def _copy(records: np.ndarray, target: np.ndarray) -> None:
    """Copy records to the beginning of a longer array.

    The records are copied as bytes, because numpy copies structured arrays field by field, which is slower.
    """
    as_bytes(target[: len(records)])[:] = as_bytes(records)
