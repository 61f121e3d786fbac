"""The base class of schedulers that divide the GPUs of a cluster among elastic jobs by numbers."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from typing import Self

import numpy as np

from gpusched_env.baselines.elastic.reallocation import movable, on_most_free, reallocate, supply
from gpusched_env.simulator import ClusterView, Decision, Scheduler


class Ladder:
    """The sizes of a job, from none upwards, while GPUs are granted to it.

    Attributes
    ----------
    job : row of the job
    gpus : number of GPUs granted so far
    rates : iterations per second without GPUs and at each size, on the fastest placement of that size
    """

    def __init__(self, view: ClusterView, job: int) -> None:
        self.job = job
        self._sizes = [0, *view.sizes(job).tolist()]
        self.rates = [0.0, *view.size_rates(job).tolist()]
        self._step = 0

    @classmethod
    def of(cls, view: ClusterView, rows: np.ndarray) -> list[Self]:
        """Return one ladder for each of the jobs ``rows``."""
        return [cls(view, job) for job in rows.tolist()]

    @property
    def gpus(self) -> int:
        """Number of GPUs granted so far."""
        return self._sizes[self._step]

    @property
    def rate(self) -> float:
        """Iterations per second with the GPUs granted so far."""
        return self.rates[self._step]

    @property
    def at_most(self) -> bool:
        """Whether the job has its largest size."""
        return self._step == len(self._sizes) - 1

    @property
    def gains(self) -> bool:
        """Whether the job has a larger size, and is faster there."""
        return not self.at_most and self.next_rate > self.rate

    @property
    def more(self) -> int:
        """Number of GPUs to the next size."""
        return self._sizes[self._step + 1] - self.gpus

    @property
    def next_rate(self) -> float:
        """Iterations per second at the next size."""
        return self.rates[self._step + 1]

    def climb(self) -> int:
        """Grant the next size; return the number of GPUs that it takes."""
        taken = self.more
        self._step += 1
        return taken


class SizingScheduler(Scheduler):
    """A scheduler that decides on the number of GPUs of each job; a rule of its own places the jobs.

    Jobs whose size stays keep their GPUs. The others take the nodes with the most free GPUs.
    """

    @abstractmethod
    def shares(self, view: ClusterView, rows: np.ndarray, gpus: int) -> list[Ladder]:
        """Divide ``gpus`` GPUs among the jobs ``rows``; return the jobs with the sizes that they have been granted."""

    def decide(self, view: ClusterView) -> Iterable[Decision]:
        """Divide the GPUs of the cluster anew, and carry out what changes."""
        rows = movable(view)
        if len(rows):
            granted = self.shares(view, rows, int(supply(view).sum()))
            yield from reallocate(view, on_most_free(view, {each.job: each.gpus for each in granted}))


def one_size_each(ladders: list[Ladder], gpus: int) -> int:
    """Grant each job its smallest size, in order, as far as the GPUs last; return the number of GPUs left."""
    for each in ladders:
        if each.more <= gpus:
            gpus -= each.climb()
    return gpus
