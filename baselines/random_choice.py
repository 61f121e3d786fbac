"""Uniform choice among the feasible decisions: the lower bound for every other scheduler."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from gpusched_env.simulator import ClusterView, Decision, Scheduler, Start


@dataclass
class RandomChoice(Scheduler):
    """Start a random waiting job that fits, or wait, each choice with equal probability.

    Every useful scheduler should be better than this one. At a decision point, the scheduler draws one of the waiting
    jobs that fit, or "wait", until it draws "wait" or no job fits. If the whole cluster is idle, it does not wait.

    Parameters
    ----------
    seed : seed of the draws, default 0
    placement : placement rule of all jobs; default best fit

    Notes
    -----
    The scheduler reads no run times and preempts no job. Each draw takes O(waiting) placement tests.

    References
    ----------
    None. This scheduler is a control, not a published policy.
    """

    seed: int = 0
    placement: str = "pack"
    _generator: np.random.Generator = field(init=False, repr=False, default_factory=np.random.default_rng)
    name = "random"

    def reset(self, view: ClusterView) -> None:
        """Restart the generator from the seed."""
        self._generator = np.random.default_rng(self.seed)

    def decide(self, view: ClusterView) -> Iterable[Decision]:
        """Start random jobs until "wait" is drawn or nothing fits."""
        while True:
            feasible = [job for job in view.waiting.tolist() if view.can_place(job, self.placement)]
            if not feasible:
                return
            may_wait = view.free_gpus < view.cluster.gpus
            choice = int(self._generator.integers(len(feasible) + may_wait))
            if choice == len(feasible):
                return
            yield Start(feasible[choice], self.placement)
