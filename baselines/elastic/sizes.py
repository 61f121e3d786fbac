"""The base class of schedulers that divide the GPUs of a cluster among elastic jobs by numbers."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable

import numpy as np

from gpusched_env.baselines.elastic.granting import Grants, all_hold, list_jobs
from gpusched_env.baselines.elastic.reallocation import on_most_free, reallocate, supply
from gpusched_env.core.handle import Batched
from gpusched_env.simulator import ClusterView, Decision, Scheduler


class SizingScheduler(Scheduler):
    """A scheduler that decides on the number of GPUs of each job; a rule of its own places the jobs."""

    knows_node_counts = False  # it chooses GPUs itself

    smallest_first = False  # True = small gangs choose their nodes before large ones

    def reset(self, view: ClusterView) -> None:
        """Forget the jobs of an earlier run."""
        self._known = 0
        instance = view.simulation.instance
        table = {"known": len(instance.workload), "steps": int(instance.sizes.count.max()) + 1}
        self._grants: Grants = Batched(Grants, 1, table).handle(0)

    @abstractmethod
    def divide(self, view: ClusterView, grants: Grants, count: int, gpus: int) -> None:
        """Divide ``gpus`` GPUs among the jobs ``grants.listed[:count]``, ascending; write the steps that they get."""

    def decide(self, view: ClusterView) -> Iterable[Decision]:
        """Divide the GPUs of the cluster anew, and carry out what changes."""
        grants, run = self._of(view), view.simulation.arrays
        count = list_jobs(run, grants)
        if not count:
            return
        grants.listed[:count].sort()
        self.divide(view, grants, count, int(supply(view).sum()))
        if all_hold(run, grants, count):
            return
        order = grants.listed[:count]
        sizes = grants.sizes[order, grants.step[:count]]
        if self.smallest_first:
            turns = np.argsort(sizes, kind="stable")
            order, sizes = order[turns], sizes[turns]
        yield from reallocate(view, on_most_free(view, dict(zip(order.tolist(), sizes.tolist(), strict=True))))

    def _of(self, view: ClusterView) -> Grants:
        """Return the table of sizes, with those of the jobs that have arrived since the last call."""
        grants = self._grants
        for job in range(self._known, view.arrived):
            sizes = view.sizes(job)
            last = len(sizes)
            grants.sizes[job, 1 : last + 1], grants.rates[job, 1 : last + 1] = sizes, view.size_rates(job)
            grants.last[job] = last
        self._known = view.arrived
        return grants
