"""Columns of the observation arrays for environments whose actions choose the sizes of elastic jobs."""

from __future__ import annotations

from typing import Final

from gpusched_env.envs.observation.columns import SHARE, TIME, Column

SIZES: Final = (
    Column("gpus", "the size / GPUs of the cluster; if the job does not have this size, the whole row is 0", SHARE),
    Column("speed", "iterations/s at this size / at the fastest size of the job, each on its ideal placement", SHARE),
    Column(
        "gain",
        "iterations/s that each GPU adds to the next smaller size shown / iterations/s of each GPU at the smallest "
        "size shown; 1 at the smallest size",
        "at least 0, at most 1",
    ),
    Column("left", "seconds left at this size on its ideal placement; 0 unless clairvoyant", TIME),
    Column("present", "1 if the gang has this size; of a waiting job, if the job requests it", SHARE),
    Column("feasible", "1 if an action can start or resize the job to this size now", SHARE),
)
SIZE_TABLES: Final = {"queue_sizes": SIZES, "running_sizes": SIZES}
