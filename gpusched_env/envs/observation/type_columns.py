"""Columns of the observation arrays for scenarios with several GPU types or with copies of gangs."""

from __future__ import annotations

from typing import Final

from gpusched_env.envs.observation.columns import SHARE, Column

_RATE: Final = (
    "iterations/s on GPUs of this type only / on those of its best type; 0 = it cannot run there, or they are too few"
)

QUEUE_TYPES: Final = (
    Column("rate", _RATE, SHARE),
    Column("fits", "1 if the job can run on this type and enough GPUs of the type are free for its gang", SHARE),
)
FORKS: Final = (Column("copies", "machines that now have room for a copy of the gang / `max_copies`", "at most 1"),)
RUNNING_TYPES: Final = (
    Column("rate", _RATE, SHARE),
    Column("held", "GPUs of this type that the gang holds / GPUs that it holds", SHARE),
)
COPIES: Final = (
    Column("copies", "copies of the gang that train / `max_copies`", SHARE),
    Column("rate", "x = iterations/s now / iterations/s of one copy on its ideal placement", "x / (1 + x)"),
)
NODE_TYPES: Final = (
    Column("type", "index of its GPU type / number of types", SHARE),
    Column("rate", "mean `rate` of the waiting jobs on the node's type", SHARE),
)
TYPES: Final = (
    Column("gpus", "GPUs of this type / GPUs of the cluster", SHARE),
    Column("free", "free GPUs of this type / GPUs of this type", SHARE),
    Column("rate", "mean `rate` of the waiting jobs on this type", SHARE),
)
TYPE_TABLES: Final = {
    "queue_types": QUEUE_TYPES,
    "forks": FORKS,
    "running_types": RUNNING_TYPES,
    "copies": COPIES,
    "node_types": NODE_TYPES,
    "types": TYPES,
}
