"""A policy on the environment's observations, as a scheduler that plays and is recorded like any other."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gpusched_env.envs.encoder import Encoder, Observation, Windows
from gpusched_env.errors import SchedulerError
from gpusched_env.simulator import ClusterView, Decision, Scheduler, Wait

Policy = Callable[[Observation, np.ndarray], int]


@dataclass
class PolicyScheduler(Scheduler):
    """Play the actions of any policy over the environment's observations.

    Parameters
    ----------
    policy : maps an observation and a mask, bool [actions], to the number of an action; it is called until it waits
    windows : windows of the environment in which the policy has learned
    label : name in tables
    describe : parameters that are stored with results

    Raises
    ------
    SchedulerError : the windows have leases, which only the environment can grant
    """

    policy: Policy
    windows: Windows = field(default_factory=Windows)
    label: str = "agent"
    describe: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Check the windows."""
        if self.windows.lease_s is not None:
            raise SchedulerError("windows.lease_s: the environment grants leases, the agent does not; use None")
        self.clairvoyant = self.windows.clairvoyant

    @property
    def name(self) -> str:
        """Name in tables."""
        return self.label

    @property
    def parameters(self) -> dict[str, Any]:
        """Parameters stored with every result."""
        return self.describe

    def reset(self, view: ClusterView) -> None:
        """Make an encoder of a new simulation."""
        self._encoder = Encoder.for_view(self.windows, view)

    def decide(self, view: ClusterView) -> Iterable[Decision]:
        """Call the policy until it waits or has no choice."""
        from gpusched_env.envs.step import NO_ACTION

        while len(view.waiting):
            observation, _, _ = self._encoder.play(NO_ACTION)
            mask = self._encoder.mask.astype(bool)
            if not mask[: self.windows.wait_action].any():
                return  # no choice: the environment would skip this wait as well
            decision = self._encoder.decision_of(int(self.policy(observation, mask)))
            if decision is None:
                return
            yield decision
            if isinstance(decision, Wait):
                return
