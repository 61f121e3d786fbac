"""Arrays that the steps of one environment are copied to, and that are then given away."""

from __future__ import annotations

from itertools import repeat
from typing import Any, Final

import numpy as np

from gpusched_env.envs.batch import Batch

ROWS: Final = 64  # observations that are laid out together: ten small arrays cost as much as one step


class FreshRows:
    """Rows for observation and mask of a batch of one; each is written once.

    Parameters
    ----------
    batch : copies to the row that is given away next
    """

    def __init__(self, batch: Batch) -> None:
        self._batch = batch
        shown = batch.shown()
        every: dict[str, np.ndarray] = {
            name: array for name, array in batch.observations.items() if name in batch.copied
        }
        every["action_mask"] = batch.mask  # last: the others are of four bytes
        self._parts: list[tuple[str, tuple[int, ...], np.dtype[Any], int]] = []
        self._length = 0
        for name, array in every.items():
            self._parts.append((name, (ROWS, *array.shape[1:]), array.dtype, self._length))
            self._length += ROWS * array[0].nbytes
        self._names = tuple(name for name in shown if name in every)
        self._copied = tuple((name, array[0]) for name, array in shown.items() if name not in every)
        self._lay_out()

    def _lay_out(self) -> None:
        block = np.empty(self._length, np.uint8)
        arrays = {}
        for name, shape, dtype, begin in self._parts:
            arrays[name] = array = np.ndarray(shape, dtype, block, begin)
            self._batch.copy_into(name, array)
        rows = map(dict, map(zip, repeat(self._names), zip(*(arrays[name] for name in self._names), strict=True)))
        self._given = zip(rows, arrays["action_mask"], range(1, ROWS + 1), strict=True)
        self._batch.row[0] = 0

    def take(self) -> tuple[dict[str, np.ndarray], np.ndarray]:
        """Give away the copy of what the last step has shown: observation, and int8 [actions]."""
        observation, mask, following = next(self._given)
        if following < ROWS:
            self._batch.row[0] = following
        else:
            self._lay_out()
        for name, array in self._copied:
            observation[name] = array.copy()
        return observation, mask
