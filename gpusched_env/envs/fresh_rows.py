"""Arrays that the steps of one environment are copied to, and that are then given away."""

from __future__ import annotations

from itertools import repeat
from typing import Final

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
        self._parts = [part for part in batch.parts() if part[0] in batch.shown()]
        self._names = tuple(name for name, _, _ in self._parts)
        self._lay_out()

    def _lay_out(self) -> None:
        batch = self._batch
        block = np.empty((ROWS, batch.arrays.block.shape[1]), np.float32)
        masks = np.empty((ROWS, batch.mask.shape[1]), np.int8)
        batch.copy_into(block, masks)
        arrays = [block[:, part].reshape(ROWS, *shape) for _, part, shape in self._parts]
        rows = map(dict, map(zip, repeat(self._names), zip(*arrays, strict=True)))
        self._given = zip(rows, masks, range(1, ROWS + 1), strict=True)
        batch.row[0] = 0

    def take(self) -> tuple[dict[str, np.ndarray], np.ndarray]:
        """Give away the copy of what the last step has shown: observation, and int8 [actions]."""
        observation, mask, following = next(self._given)
        if following < ROWS:
            self._batch.row[0] = following
        else:
            self._lay_out()
        return observation, mask
