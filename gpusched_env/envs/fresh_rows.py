"""Arrays that the steps of one environment write into and that are then given away: nothing is copied."""

from __future__ import annotations

import math
from itertools import accumulate, repeat
from typing import Final

import numpy as np

from gpusched_env.envs.batch import Batch

ROWS: Final = 32  # observations that are laid out together: ten small arrays cost as much as one step


class FreshRows:
    """Rows for observation and mask of a batch of one; each is written once.

    Parameters
    ----------
    batch : writes into the row that is given away next
    """

    def __init__(self, batch: Batch) -> None:
        self._batch = batch
        shown, every = batch.shown(), batch.observations
        shapes = {name: array.shape[1:] for name, array in every.items() if name in batch.written}
        ends = list(accumulate(ROWS * math.prod(shape) for shape in shapes.values()))
        self._parts = [
            (name, end - ROWS * math.prod(shape), end, (ROWS, *shape))
            for (name, shape), end in zip(shapes.items(), ends, strict=True)
        ]
        self._length = ends[-1]
        self._names = tuple(name for name in shown if name in shapes)
        self._copied = tuple((name, array[0]) for name, array in shown.items() if name not in shapes)
        self._lay_out()

    def _lay_out(self) -> None:
        block = np.empty(self._length, np.float32)
        masks = np.empty((ROWS, self._batch.mask.shape[1]), np.int8)
        first = block.ctypes.data
        arrays = {}
        for name, begin, end, shape in self._parts:
            arrays[name] = array = block[begin:end].reshape(shape)
            self._batch.write_into(name, array, first + block.itemsize * begin)
        self._batch.write_into("action_mask", masks, masks.ctypes.data)
        rows = map(dict, map(zip, repeat(self._names), zip(*(arrays[name] for name in self._names), strict=True)))
        self._given = zip(rows, masks, range(1, ROWS + 1), strict=True)
        self._batch.row[0] = 0

    def take(self) -> tuple[dict[str, np.ndarray], np.ndarray]:
        """Give away what the last step has written: observation, and int8 [actions]."""
        observation, mask, following = next(self._given)
        if following < ROWS:
            self._batch.row[0] = following
        else:
            self._lay_out()
        for name, array in self._copied:
            observation[name] = array.copy()
        return observation, mask
