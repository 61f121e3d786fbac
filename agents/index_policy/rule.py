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
from gpusched_env.portable.arrays import power
from gpusched_env.prediction import LEVELS
from gpusched_env.problem.cluster import MACHINE, NETWORK, RACK
from gpusched_env.problem.instance import Instance

FORMAT: Final = "gpusched-index-policy-3"
_LARGEST_EXCESS: Final = 4.0  # of seconds per iteration on a wider placement, relative to a tighter one


def excess_of(instance: Instance) -> np.ndarray:
    """float64 [classes, 2]: by what part iterations are longer on one rack, and on any GPUs, than on one machine.

    They are what a gang is spared by waiting for the fewest machines, and for one rack.
    """
    seconds = instance.iteration_s.min(axis=2)
    beyond = np.stack([seconds[:, RACK], seconds[:, NETWORK]], axis=1) / seconds[:, MACHINE, None]
    return np.maximum.accumulate(np.clip(beyond - 1.0, 0.0, _LARGEST_EXCESS), axis=1)


@dataclass(frozen=True)
class IndexRule:
    """The weights of an index policy. The defaults know nothing of run times before the first jobs have ended.

    Parameters
    ----------
    prior : float64 [LEVELS], distribution of run times before jobs have ended
    gang : power of the gang size by which a score is multiplied
    hold : doublings of the Gittins index for which a running job is not preempted
    patience : a waiting gang accepts only a tight placement for this many times what a wider one is expected to cost
    move_factor : a gang moves to a tighter placement when its placement has cost it this many times what a move costs,
        at least 1, so that moves never take more time than they can save

    Raises
    ------
    SchedulerError : ``move_factor`` is below 1, the shape is not this, or a share is not above 0
    """

    prior: np.ndarray = field(default_factory=partial(np.ones, LEVELS))
    gang: float = 1.0
    hold: float = 1.0
    patience: float = 1.0
    move_factor: float = 1.0

    def __post_init__(self) -> None:
        """Check the prior, on whose shape kernels rely, and the factor of moves."""
        if self.prior.shape != (LEVELS,) or not (self.prior > 0.0).all():
            raise SchedulerError(f"index policy: prior is {self.prior.shape}: it must be ({LEVELS},), above 0")
        if not self.move_factor >= 1.0:
            raise SchedulerError(f"index policy: move_factor is {self.move_factor!r}: it must be at least 1")

    def gang_weights(self, instance: Instance) -> np.ndarray:
        """float64 [classes]: by what the gang size multiplies a score."""
        return power(instance.classes[:, 1].astype(float), self.gang)

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
