"""A policy on the environment's observations, as a scheduler that plays and is recorded like any other."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gpusched_env.envs.encoder import Encoder, Observation
from gpusched_env.envs.step import NO_ACTION
from gpusched_env.envs.windows import STEPS_PER_JOB, Windows
from gpusched_env.simulator import ClusterView, Decision, Lease, Resize, Scheduler, Start

Policy = Callable[[Observation, np.ndarray], int]


@dataclass
class PolicyScheduler(Scheduler):
    """Play the actions of any policy over the environment's observations; the event log is that of the environment.

    At each decision point the policy is called until it waits. With ``windows.lease_s``, a start or a resize is
    followed by a ``Lease``, and a wait renews the leases that have ended. An infeasible action changes nothing, and the
    policy is called again. After ``step_limit`` actions the remaining jobs are played first in, first out, as the
    environment plays them.

    Parameters
    ----------
    policy : maps an observation and a mask, bool [actions], to the number of an action
    windows : windows of the environment in which the policy has learned
    skip_forced_waits : do not call the policy while waiting is the only feasible action, as the environment's argument
    step_limit : number of actions of the policy, refused ones included; None = 100 per job, as in the environment
    """

    name = "agent"

    policy: Policy
    windows: Windows = field(default_factory=Windows)
    skip_forced_waits: bool = True
    step_limit: int | None = None

    def __post_init__(self) -> None:
        """Declare whether the windows show true run times."""
        self.clairvoyant = self.windows.clairvoyant

    @property
    def parameters(self) -> dict[str, Any]:
        """No parameters: they would be code and windows."""
        return {}

    def reset(self, view: ClusterView) -> None:
        """Make an encoder of a new simulation."""
        self.encoder = Encoder.for_view(self.windows, view)
        jobs = len(self.encoder.simulation.instance.workload)
        self._left = STEPS_PER_JOB * jobs if self.step_limit is None else self.step_limit  # -1 = played out

    def decide(self, view: ClusterView) -> Iterable[Decision]:
        """Call the policy until it waits; after the step limit, play first in, first out."""
        wait = self.windows.wait_action
        action = None
        while action is None or not wait <= action < self.windows.first_slot_action:
            self.encoder.step(NO_ACTION)
            observation, shown = self.encoder.take()
            mask = shown.astype(bool)
            choices = np.count_nonzero(mask)
            if self._left and choices == 0:
                return  # not even a wait is feasible: no event can come
            if self._left >= 0 and choices == 1 and mask[wait] and self.skip_forced_waits:
                action = wait  # a part of the step before
            elif self._left > 0:
                self._left -= 1
                action = self.windows.checked(self.policy(observation, mask))
                if not mask[action]:
                    action = None  # refused, but a step
                    continue
            else:
                self._left = -1
                yield from self._play_out(view)
                return
            decision = self.encoder.decision_of(action)
            if wait <= action < self.windows.first_slot_action:
                yield from self._leases(view, view.lease_ended.tolist())
            if decision is not None:
                yield decision
            if isinstance(decision, Start | Resize):
                yield from self._leases(view, [decision.job])

    def _play_out(self, view: ClusterView) -> Iterable[Decision]:
        """Start waiting jobs as the environment does after its step limit (gpusched_env.envs.step)."""
        rule = 0
        while len(view.waiting) and rule < len(self.windows.rules):
            job = int(view.waiting[0])
            if self.encoder.exceeds_limits(job):
                break
            yield Start(job, self.windows.rules[rule])
            if not view.refusal:
                rule = 0
                yield from self._leases(view, [job])
            elif not len(view.running):
                rule += 1
            else:
                break
        yield from self._leases(view, view.lease_ended.tolist())

    def _leases(self, view: ClusterView, jobs: list[int]) -> Iterable[Lease]:
        """Yield a new lease for each of these jobs, if the windows have leases."""
        if self.windows.lease_s is not None:
            for job in jobs:
                yield Lease(job, view.now_s + self.windows.lease_s)
