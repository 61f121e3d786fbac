"""GPU sharing: how many jobs a GPU takes, what they cost each other, and how much memory each needs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

from gpusched_env.errors import ScenarioError
from gpusched_env.workload import Workload


class Interference(Protocol):
    """Where the slowdowns xi of jobs that share a GPU come from."""

    def slowdowns(self, classes: np.ndarray, workload: Workload, gpu_types: tuple[str, ...]) -> np.ndarray:
        """float64 [C, C, T]: xi of each job class beside another on each GPU type; inf = they must not share.

        Parameters
        ----------
        classes : int64 [C, 2], profile row and gang size of each class
        """

    def as_dict(self) -> dict[str, Any]:
        """Give plain data for JSON."""


@dataclass(frozen=True)
class Sharing:
    """Let several jobs share a GPU.

    Parameters
    ----------
    limit : jobs that may hold a GPU at the same time
    interference : xi, how many times longer an iteration takes beside another job

    Raises
    ------
    ScenarioError : a limit below 1, or an interference below 1
    """

    limit: int = 2
    interference: float = 1.5

    def __post_init__(self) -> None:
        """Check every field."""
        if isinstance(self.limit, bool) or not isinstance(self.limit, int) or self.limit < 1:
            raise ScenarioError(f"sharing.limit is {self.limit!r}: it must be a whole number of at least 1")
        if not 1.0 <= self.interference < math.inf:
            raise ScenarioError(f"sharing.interference is {self.interference!r}: it must be a number of at least 1")


class SharingTables(NamedTuple):
    """What kernels read of it; C job classes, K sizes of a sub-batch, T GPU types.

    Option 0 is the whole batch, later ones halve it: the batch of each GPU is worked off in ``sub_steps`` equal parts.
    """

    sub_steps: np.ndarray  # int64 [C, K]: gradient-accumulation sub-steps; 0 = no such option
    compute_share: np.ndarray  # float64 [C, K]: compute time of one part / that of the whole batch
    memory: np.ndarray  # float64 [C, K, T]: part of a GPU's memory
    interference: np.ndarray  # float64 [C, C, T]: xi of the first beside the second; inf = they must not share


def sharing_tables(
    sharing: Sharing, classes: np.ndarray, workload: Workload, gpu_types: tuple[str, ...]
) -> SharingTables:
    """Tabulate sharing by job class; ``classes`` is int64 [C, 2], profile row and gang size."""
    shape = (len(classes), 1)
    return SharingTables(
        np.ones(shape, np.int64),
        np.ones(shape),
        np.zeros((*shape, len(gpu_types))),
        np.full((len(classes), len(classes), len(gpu_types)), sharing.interference),
    )
