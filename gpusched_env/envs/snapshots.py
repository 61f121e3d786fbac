"""The state of an environment as a value."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

import gpusched_env
from gpusched_env.errors import GpuschedError

if TYPE_CHECKING:
    from gpusched_env.envs.windows import Windows
    from gpusched_env.simulator.simulation import RunState


@dataclass(frozen=True)
class Snapshot:
    """The state of an environment at one time; it can be pickled, and never changes.

    Attributes
    ----------
    version : version of gpusched-env
    fingerprint : SHA-256 of the scenario
    seed : seed of the workload
    windows : what the agent sees and may do
    settings : reward and other arguments that later steps depend on
    run : state of the simulation, with its event log
    episode : uint8, state of the episode and of its observation
    is_over : whether the episode has ended
    """

    version: str
    fingerprint: str
    seed: int
    windows: Windows
    settings: tuple[Any, ...]
    run: RunState = field(repr=False)
    episode: np.ndarray = field(repr=False)
    is_over: bool

    def check(self, fingerprint: str, windows: Windows, settings: tuple[Any, ...]) -> None:
        """Refuse, by a GpuschedError, an environment that cannot have been in this state."""
        for name, own, other in (
            ("version of gpusched-env", self.version, gpusched_env.__version__),
            ("scenario", self.fingerprint, fingerprint),
            ("windows", self.windows, windows),
            ("reward, refusal cost, step limit or skipping of forced waits", self.settings, settings),
        ):
            if own is not other and own != other:
                raise GpuschedError(
                    f"restore: the snapshot is of another {name} ({own}) than the environment ({other}); make the "
                    "environment with the arguments of the one from which the snapshot was taken"
                )
