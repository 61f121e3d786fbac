"""The state of an environment as a value."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

import gpusched_env
from gpusched_env.errors import GpuschedError
from gpusched_env.simulator.simulation import RunState

if TYPE_CHECKING:
    from gpusched_env.envs.encoder import Windows


@dataclass(frozen=True)
class Snapshot:
    """The state of an environment at one time; it can be pickled, and never changes.

    Attributes
    ----------
    version : version of gpusched-env
    fingerprint : SHA-256 of the scenario
    seed : seed of the workload
    windows : what the agent sees and may do
    run : state of the simulation, with its event log
    episode : uint8, state of the episode and of its observation
    is_over : whether the episode has ended
    """

    version: str
    fingerprint: str
    seed: int
    windows: Windows
    run: RunState = field(repr=False)
    episode: np.ndarray = field(repr=False)
    is_over: bool

    def check(self, fingerprint: str, windows: Windows) -> None:
        """Refuse an environment that cannot have been in this state.

        Raises
        ------
        GpuschedError : another version, scenario, or windows
        """
        here = (gpusched_env.__version__, fingerprint, windows)
        for name, own, other in zip(
            ("version of gpusched-env", "scenario", "windows"),
            (self.version, self.fingerprint, self.windows),
            here,
            strict=True,
        ):
            if own != other:
                raise GpuschedError(
                    f"restore: the snapshot is of another {name} ({own}) than the environment ({other}); make the "
                    "environment with the arguments of the one from which the snapshot was taken"
                )
