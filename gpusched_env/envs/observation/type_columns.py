"""The columns of the observation arrays that are there where GPUs are of several types, or jobs run in copies."""

from __future__ import annotations

from typing import Final

from gpusched_env.envs.observation.columns import SHARE, Column

_RATE: Final = (
    "iterations a second on GPUs of this type alone / on those of its best type; 0 = it cannot run there, or too few"
)

QUEUE_TYPES: Final = (
    Column("rate", _RATE, SHARE),
    Column("fits", "1 if the job can run there and as many GPUs of the type are free as its gang has", SHARE),
)
FORKS: Final = (Column("copies", "machines that have room for a copy of the gang now / `max_copies`", "at most 1"),)
RUNNING_TYPES: Final = (
    Column("rate", _RATE, SHARE),
    Column("held", "GPUs of this type that it holds / GPUs that it holds", SHARE),
)
COPIES: Final = (
    Column("copies", "copies of the gang that train / `max_copies`", SHARE),
    Column("rate", "iterations a second now / of one copy on its ideal placement", "x / (1 + x)"),
)
NODE_TYPES: Final = (
    Column("type", "index of its GPU type / number of types", SHARE),
    Column("rate", "mean over the waiting jobs of their `rate` on its type", SHARE),
)
TYPES: Final = (
    Column("gpus", "GPUs of this type / GPUs of the cluster", SHARE),
    Column("free", "free GPUs of this type / GPUs of this type", SHARE),
    Column("rate", "mean over the waiting jobs of their `rate` on this type", SHARE),
)
TYPE_TABLES: Final = {
    "queue_types": QUEUE_TYPES,
    "forks": FORKS,
    "running_types": RUNNING_TYPES,
    "copies": COPIES,
    "node_types": NODE_TYPES,
    "types": TYPES,
}
