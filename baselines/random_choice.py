"""Uniform choice among what is feasible: the floor that every scheduler must clear."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from gpusched_env.simulator import ClusterView, Decision, Scheduler, Start


@dataclass
class RandomChoice(Scheduler):
    """Start a random feasible job or wait, each choice equally likely; never wait while the cluster is idle.

    Parameters
    ----------
    seed : seed of the choices
    placement : placement rule of all jobs
    """

    seed: int = 0
    placement: str = "pack"
    _generator: np.random.Generator = field(init=False, repr=False, default_factory=np.random.default_rng)

    @property
    def name(self) -> str:
        """Name in tables."""
        return "random"

    def reset(self, view: ClusterView) -> None:
        """Begin the sequence of choices anew."""
        self._generator = np.random.default_rng(self.seed)

    def decide(self, view: ClusterView) -> Iterable[Decision]:
        """Draw until the draw says wait or nothing fits."""
        while True:
            feasible = [job for job in view.waiting.tolist() if view.can_place(job, self.placement)]
            if not feasible:
                return
            may_wait = view.free_gpus < view.cluster.gpus
            choice = int(self._generator.integers(len(feasible) + may_wait))
            if choice == len(feasible):
                return
            yield Start(feasible[choice], self.placement)
