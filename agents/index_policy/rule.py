"""The weights of an index policy, and what they say about the job classes of a problem."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np

from gpusched_env.agents.checkpoints import checkpoint, write_checkpoint
from gpusched_env.errors import SchedulerError
from gpusched_env.portable.arrays import log2
from gpusched_env.prediction import LEVELS
from gpusched_env.prediction.levels import gittins_s
from gpusched_env.problem.cluster import MACHINE, NETWORK, RACK
from gpusched_env.problem.instance import Instance

FORMAT: Final = "gpusched-index-policy-2"
_DECIMALS: Final = 6  # of scores
_LARGEST_EXCESS: Final = 4.0  # of seconds per iteration on a wider placement, relative to a tighter one
_LONGEST_PATIENCE_S: Final = 1e6  # [s]


def scores_of(shares: np.ndarray) -> np.ndarray:
    """float64 [C, LEVELS]: log2 of the Gittins index [s] of the classes of a history, by level of progress."""
    return np.round(log2(gittins_s(shares)), _DECIMALS)


@dataclass(frozen=True)
class IndexRule:
    """The weights of an index policy. The defaults know nothing of run times before the first jobs have ended.

    Parameters
    ----------
    prior : float64 [LEVELS], distribution of run times before jobs have ended
    gang : weight of log2 of the gang size, relative to that of the Gittins index
    hold : subtracted from the score of a running job
    least_run_s : progress that a gang makes before it may be preempted [s]
    patience_s : float64 [2, 2]. Row 0 is the patience for the fewest machines, row 1 that for one rack: seconds for
        each unit by which a wider placement lengthens an iteration, and seconds that every gang of several GPUs waits
    links_factor : factor on all patience if gangs share links
    move_factor : a gang moves to a tighter placement when its placement has cost it this many times what a move costs,
        at least 1, so that moves never take more time than they can save

    Raises
    ------
    SchedulerError : ``move_factor`` is below 1, the shapes are not these, or a share is not above 0
    """

    prior: np.ndarray = field(default_factory=partial(np.ones, LEVELS))
    gang: float = 1.0
    hold: float = 0.0
    least_run_s: float = 0.0
    patience_s: np.ndarray = field(default_factory=partial(np.zeros, (2, 2)))
    links_factor: float = 1.0
    move_factor: float = 1e6

    def __post_init__(self) -> None:
        """Check the shapes of the weights, which kernels rely on, the prior, and the factor of moves."""
        if self.prior.shape != (LEVELS,) or self.patience_s.shape != (2, 2) or not (self.prior > 0.0).all():
            shapes = f"{self.prior.shape} and {self.patience_s.shape}"
            raise SchedulerError(
                f"index policy: prior and patience_s are {shapes}: they must be ({LEVELS},), above 0, and (2, 2)"
            )
        if not self.move_factor >= 1.0:
            raise SchedulerError(f"index policy: move_factor is {self.move_factor!r}: it must be at least 1")

    def gang_scores(self, instance: Instance) -> np.ndarray:
        """float64 [classes]: what the gang size adds to a score."""
        return np.round(self.gang * log2(instance.classes[:, 1].astype(float)), _DECIMALS)

    def patience_of(self, instance: Instance) -> np.ndarray:
        """float64 [classes, 2]: for how long a waiting job accepts only the fewest machines, and only one rack [s]."""
        seconds = instance.iteration_s.min(axis=2)
        beyond = seconds[:, NETWORK] / seconds[:, MACHINE], seconds[:, RACK] / seconds[:, MACHINE]
        excess = np.clip(np.stack([beyond[1], beyond[0]], axis=1) - 1.0, 0.0, _LARGEST_EXCESS)
        several = (instance.classes[:, 1] > 1)[:, None]
        factor = self.links_factor if instance.topology is not None else 1.0
        patience_s = factor * (self.patience_s[:, 0] * excess + self.patience_s[:, 1] * several)
        patience_s = np.minimum(patience_s, _LONGEST_PATIENCE_S)
        patience_s[:, 1] = np.maximum(patience_s[:, 0], patience_s[:, 1])
        return np.ascontiguousarray(patience_s)

    def save(self, path: Path, about: Mapping[str, Any]) -> None:
        """Write the weights as ``.npz``, with ``about`` as metadata."""
        values = {one.name: getattr(self, one.name) for one in dataclasses.fields(self)}
        weights = {name: value for name, value in values.items() if isinstance(value, np.ndarray)}
        rest = {name: value for name, value in values.items() if name not in weights}
        write_checkpoint(path, {"format": FORMAT, "scalars": json.dumps(rest), "about": dict(about)}, weights)

    @classmethod
    def load(cls, path: Path) -> IndexRule:
        """Read what :meth:`save` wrote."""
        with checkpoint(path, FORMAT, "an index policy") as (metadata, weights):
            values: dict[str, Any] = {**weights, **json.loads(metadata["scalars"])}
            return cls(**values)
