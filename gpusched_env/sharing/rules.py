"""The rules of a scenario by which jobs share GPUs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from gpusched_env.errors import ScenarioError
from gpusched_env.sharing.interference import MEASURED_XI, Constant, Interference

MOST_SHARERS: Final = 64  # largest ``limit``; operations on a GPU loop over all jobs on it
MEMORIES: Final = ("gpu_memory_GB", "model_memory_GB")


@dataclass(frozen=True)
class Sharing:
    """The rules by which several jobs share a GPU.

    Parameters
    ----------
    limit : largest number of jobs that hold a GPU at the same time, at most MOST_SHARERS
    interference : slowdown xi, the iteration time of a job beside another job / its iteration time alone: a number that
        holds for all pairs, or a source whose class is in INTERFERENCE_SOURCES
    gpu_memory_GB : GPU type -> memory of a GPU [1e9 byte]. If the memory of a job is known in bytes, the job takes the
        share (its bytes) / (the GPU's bytes) of a GPU; otherwise it takes the share that its profile gives
    model_memory_GB : model (:func:`model_of`) -> memory that a job takes with its whole batch [1e9 byte]; it overrides
        the bytes in profiles
    """

    limit: int = 2
    interference: float | Interference = MEASURED_XI
    gpu_memory_GB: Mapping[str, float] = field(default_factory=dict, hash=False)
    model_memory_GB: Mapping[str, float] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        """Check every field."""
        if isinstance(self.limit, bool) or not isinstance(self.limit, int) or not 1 <= self.limit <= MOST_SHARERS:
            raise ScenarioError(f"sharing.limit is {self.limit!r}: it must be a whole number from 1 to {MOST_SHARERS}")
        if isinstance(self.interference, Constant):
            object.__setattr__(self, "interference", self.interference.xi)
        if isinstance(self.interference, int | float):
            object.__setattr__(self, "interference", float(Constant(self.interference).xi))
        elif not hasattr(self.interference, "slowdowns"):
            raise ScenarioError(
                f"sharing.interference is {self.interference!r}: give a number of at least 1, or a source of "
                "interference, such as gpusched_env.sharing.synthetic(0)"
            )
        for table in MEMORIES:
            for name, value in getattr(self, table).items():
                if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
                    raise ScenarioError(f"sharing.{table} of {name!r} is {value!r}: give a number above 0")
        if self.model_memory_GB and not self.gpu_memory_GB:
            raise ScenarioError("sharing.model_memory_GB: give gpu_memory_GB, the memory of each GPU type, too")

    @property
    def source(self) -> Interference:
        """The source of the slowdowns xi."""
        return Constant(self.interference) if isinstance(self.interference, int | float) else self.interference

    def as_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        return self._written(self.source.as_dict())

    def identity(self) -> dict[str, Any]:
        """Return the data of :meth:`as_dict` with the SHA-256 of each file instead of its path, for fingerprints."""
        return self._written(self.source.identity())

    def _written(self, source: dict[str, Any]) -> dict[str, Any]:
        number = isinstance(self.interference, int | float)
        data: dict[str, Any] = {"limit": self.limit, "interference": self.interference if number else source}
        return data | {table: dict(getattr(self, table)) for table in MEMORIES if getattr(self, table)}
