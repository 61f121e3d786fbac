"""A policy on the environment's observations, as a scheduler that plays and is recorded like any other."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from gpusched_env.envs.encoder import Encoder, Observation, Windows
from gpusched_env.errors import SchedulerError
from gpusched_env.simulator import ClusterView, Decision, Lease, Scheduler, Start

Policy = Callable[[Observation, np.ndarray], int]
_MOST_REFUSED: Final = 10_000  # infeasible actions in a row, after which the policy is taken to repeat itself


@dataclass
class PolicyScheduler(Scheduler):
    """Play the actions of any policy over the environment's observations; the event log is that of the environment.

    At each decision point the policy is called until it waits. With ``windows.lease_s``, a start is followed by a
    ``Lease``, and a wait renews the leases that have ended. An infeasible action changes nothing, and the policy is
    called again.

    Parameters
    ----------
    policy : maps an observation and a mask, bool [actions], to the number of an action
    windows : windows of the environment in which the policy has learned
    label : name in tables
    describe : parameters that are stored with results
    skip_forced_waits : do not call the policy while waiting is the only feasible action, as the environment's argument

    Raises
    ------
    SchedulerError : the policy repeats infeasible actions
    """

    policy: Policy
    windows: Windows = field(default_factory=Windows)
    label: str = "agent"
    describe: dict[str, Any] = field(default_factory=dict)
    skip_forced_waits: bool = True

    def __post_init__(self) -> None:
        """Declare whether the windows show true run times."""
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
        self.encoder = Encoder.for_view(self.windows, view)

    def decide(self, view: ClusterView) -> Iterable[Decision]:
        """Call the policy until it waits."""
        action = None
        while action is None or action < self.windows.wait_action:
            action = self._next_action()
            if action is None:
                return  # not even a wait is feasible: no event can come
            decision = self.encoder.decision_of(action)
            if action >= self.windows.wait_action:
                yield from self._leases(view, view.lease_ended.tolist())
            if decision is not None:
                yield decision
            if isinstance(decision, Start):
                yield from self._leases(view, [decision.job])

    def _next_action(self) -> int | None:
        """Return the next feasible action of the policy; None if no action is feasible."""
        from gpusched_env.envs.step import NO_ACTION

        wait = self.windows.wait_action
        for _ in range(_MOST_REFUSED):  # a step limit as the environment's belongs here
            observation, _, _ = self.encoder.play(NO_ACTION)
            mask = self.encoder.mask.astype(bool)
            choices = np.count_nonzero(mask)
            if choices == 0:
                return None
            is_forced = choices == 1 and mask[wait] and self.skip_forced_waits
            action = wait if is_forced else int(self.policy(observation, mask))
            if mask[action]:
                return action
        raise SchedulerError(
            f"{self.name}: the policy chose infeasible actions {_MOST_REFUSED:,} times in a row, at last {action}; "
            "choose one that the mask marks"
        )

    def _leases(self, view: ClusterView, jobs: list[int]) -> Iterable[Lease]:
        """Yield a new lease for each of these jobs, if the windows have leases."""
        if self.windows.lease_s is not None:
            for job in jobs:
                yield Lease(job, view.now_s + self.windows.lease_s)
