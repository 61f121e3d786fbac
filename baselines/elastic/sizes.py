"""The base class of schedulers that divide the GPUs of a cluster among elastic jobs by numbers."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from typing import Final

import numpy as np

from gpusched_env.baselines.elastic.granting import Grants, all_hold, list_jobs
from gpusched_env.baselines.elastic.reallocation import on_most_free, reallocate, supply
from gpusched_env.simulator import ClusterView, Decision, Scheduler

FIRST_JOBS: Final = 64  # jobs for which a table of sizes has room at first


class SizingScheduler(Scheduler):
    """A scheduler that decides on the number of GPUs of each job; a rule of its own places the jobs."""

    smallest_first = False  # True = small gangs choose their nodes before large ones

    def reset(self, view: ClusterView) -> None:
        """Forget the jobs of an earlier run."""
        self._known = 0
        self._grants = _empty(FIRST_JOBS, 1)

    @abstractmethod
    def divide(self, view: ClusterView, grants: Grants, count: int, gpus: int) -> None:
        """Divide ``gpus`` GPUs among the jobs ``grants.rows[:count]``, ascending; write the steps that they get."""

    def decide(self, view: ClusterView) -> Iterable[Decision]:
        """Divide the GPUs of the cluster anew, and carry out what changes."""
        grants, run = self._of(view), view.simulation.arrays
        count = list_jobs(run, grants)
        if not count:
            return
        grants.rows[:count].sort()
        self.divide(view, grants, count, int(supply(view).sum()))
        if all_hold(run, grants, count):
            return
        order = grants.rows[:count]
        sizes = grants.sizes[order, grants.step[:count]]
        if self.smallest_first:
            turns = np.argsort(sizes, kind="stable")
            order, sizes = order[turns], sizes[turns]
        yield from reallocate(view, on_most_free(view, dict(zip(order.tolist(), sizes.tolist(), strict=True))))

    def _of(self, view: ClusterView) -> Grants:
        """Return the table of sizes, with those of the jobs that have arrived since the last call."""
        arrived, old = view.arrived, self._grants
        new = range(self._known, arrived)
        if not new:
            return old
        steps = max(old.sizes.shape[1], *(1 + len(view.sizes(job)) for job in new))
        if arrived > old.sizes.shape[0] or steps > old.sizes.shape[1]:
            known, had = self._known, old.sizes.shape[1]
            self._grants = _empty(max(arrived, 2 * old.sizes.shape[0]), steps)
            self._grants.sizes[:known, :had], self._grants.rates[:known, :had] = old.sizes[:known], old.rates[:known]
            self._grants.last[:known] = old.last[:known]
        for job in new:
            sizes = view.sizes(job)
            last = len(sizes)
            self._grants.sizes[job, 1 : last + 1], self._grants.rates[job, 1 : last + 1] = sizes, view.size_rates(job)
            self._grants.last[job] = last
        self._known = arrived
        return self._grants


def _empty(jobs: int, steps: int) -> Grants:
    return Grants(
        sizes=np.zeros((jobs, steps), np.int32),
        rates=np.zeros((jobs, steps)),
        last=np.zeros(jobs, np.int32),
        rows=np.zeros(jobs, np.int32),
        left=np.zeros(jobs),
        step=np.zeros(jobs, np.int32),
        gain=np.zeros(jobs),
    )
