"""Fresh arrays for the observations and masks of a single environment."""

from __future__ import annotations

from itertools import repeat
from typing import Final

import numpy as np

from gpusched_env.envs.batch import Batch

ROWS: Final = 64  # observations allocated together: to allocate ten small arrays costs as much as a step


class FreshRows:
    """Rows for the observations and masks of a batch of one; each row is written and returned once.

    Parameters
    ----------
    batch : its kernel copies each observation to the row that is returned next
    """

    def __init__(self, batch: Batch) -> None:
        self._batch = batch
        self._parts = [part for part in batch.parts() if part[0] in batch.nonempty_observations()]
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
        """Return the copies of the last observation and mask, int8 [actions]."""
        observation, mask, following = next(self._given)
        if following < ROWS:
            self._batch.row[0] = following
        else:
            self._lay_out()
        return observation, mask
