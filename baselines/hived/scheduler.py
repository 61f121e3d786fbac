"""HiveD: guaranteed jobs in the cells of their tenants, low-priority jobs on what is free."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from gpusched_env.baselines.estimates import is_strict
from gpusched_env.baselines.hived.cells import Cell, Cells, digits, sizes_of
from gpusched_env.errors import SchedulerError
from gpusched_env.problem.tenants import PRIORITY
from gpusched_env.simulator import ClusterView, Decision, Preempt, Scheduler, Start, Wait


@dataclass
class HiveD(Scheduler):
    """Give each tenant the cells that it owns, whatever others do; low-priority jobs use what is free until then.

    A cell is a GPU, a pair, a socket, a server or a rack. A job of a tenant takes a free cell of its level from the
    tenant's, or splits a larger one; a cell of the tenant is bound to one of the cluster when it is first used, again a
    free one of this level or a part of a larger one. Of several cells, that on which low-priority jobs hold the fewest
    GPUs is chosen, and those jobs are preempted. Cells that become free merge with their buddies. A tenant therefore
    finds a cell whenever it would find one in a cluster of its own cells.

    Notes
    -----
    A tenant's ``quota`` [GPU] is cells, as large ones as possible: 12 GPUs are a server of 8 and a socket of 4. Jobs of
    tenants without quota, and of a priority class below 0, are of low priority. Ours are: a gang that is no cell is
    cells, the largest ones first; priority classes, then arrival, order the jobs of a tenant; a job that finds no cells
    lets others pass, unless the scenario's queue is strict, where it blocks its tenant; best fit of low-priority jobs;
    cells with a node that is closed or down come last, and their jobs wait. Only quotas of leaves count.

    References
    ----------
    H. Zhao et al., "HiveD: Sharing a GPU Cluster for Deep Learning with Guarantees", OSDI 2020.
    """

    name = "hived"
    remembers_gpus = relies_on_decisions = True
    knows_node_counts = False

    def reset(self, view: ClusterView) -> None:
        """Give each tenant its cells; the cluster is free."""
        (tree, leaf), workload = view.simulation.instance.tenancy, view.simulation.instance.workload
        quota = np.where(np.isin(np.arange(len(tree.names)), tree.leaves), tree.quota, 0)
        if quota.sum() > view.cluster.gpus:
            raise SchedulerError(f"hived: quotas of {quota.sum()} GPUs on a cluster of {view.cluster.gpus}: lower them")
        self._class = workload.told(PRIORITY) if PRIORITY in workload.attributes else np.zeros(len(workload))
        self._low = (quota[leaf] == 0) | (self._class < 0)
        gangs = workload.jobs["gpus"]
        if (bad := ~self._low & (gangs > quota[leaf])).any():
            job, row = int(np.argmax(bad)), int(leaf[np.argmax(bad)])
            what = f"tenant {tree.names[row]!r}: job {workload.jobs['id'][job]} asks for {gangs[job]} GPUs"
            raise SchedulerError(f"hived: {what}, but its quota is {quota[row]}: raise it, or leave such jobs out")
        self._sizes = sizes_of(view.cluster)
        cluster = Cells.whole(self._sizes, view.cluster.gpus)
        self._owners = [Cells(self._sizes, digits(gpus, self._sizes), cluster) for gpus in quota.tolist()]
        self._cells: dict[int, list[Cell]] = {}
        self._kept = np.zeros(view.cluster.gpus, bool)  # GPUs of these cells

    def decide(self, view: ClusterView) -> Iterable[Decision]:
        """Give cells back, start jobs in cells of their tenants, then low-priority jobs elsewhere."""
        low, waiting = self._low, view.waiting.tolist()
        for job in self._cells.keys() - {*waiting, *view.running.tolist()}:
            self._give(view, job)
        strict = is_strict(view, False)
        blocked = set[tuple[int, int]]()  # tenants, and alike jobs, that find no place
        for job in sorted(waiting, key=lambda job: (low[job], -self._class[job], view.arrival_s[job], job)):
            tenant = -1 if low[job] else int(view.tenant[job])
            kind = tenant, 0 if strict else int(view.job_class[job])
            if kind not in blocked or job in self._cells:
                yield from self._start_low(view, job) if low[job] else self._start(view, job)
                if view.held_gpus(np.array([job]))[0] == 0 and (strict or job not in self._cells):
                    blocked.add(kind)

    def _start_low(self, view: ClusterView, job: int) -> Iterator[Decision]:
        """Start a low-priority job on free GPUs that are kept for no other job."""
        if gpus := view.where(job, "pack", ~self._kept):
            yield Start(job, gpus=gpus)

    def _start(self, view: ClusterView, job: int) -> Iterator[Decision]:
        """Preempt what is on the cells of a job, and start the job as soon as they are empty."""
        able = view.able_gpus(np.array([job]))
        closed = ~view.is_free & (view.holders < 0)  # its node has failed
        closed |= False if able is None else ~able[0]
        if job in self._cells and closed[self._gpus(job)].any():
            self._give(view, job)
        if job not in self._cells and not self._take(view, job, closed):
            return
        gpus = self._gpus(job)
        if closed[gpus].any():
            self._give(view, job)
            return
        stopping = view.running[view.checkpointing]
        for victim in np.setdiff1d(view.holders[gpus], [-1, *stopping]).tolist():
            yield Preempt(victim)
            if view.refusal:  # it has started just now
                yield Wait(view.now_s + 1.0)
        if view.is_free[gpus].all():
            yield Start(job, gpus=tuple(gpus.tolist()))

    def _take(self, view: ClusterView, job: int, closed: np.ndarray) -> bool:
        """Take cells for a job; return False, and take none, if its tenant has too few."""
        below = np.concatenate([[0], np.cumsum((view.holders >= 0) + view.cluster.gpus * closed)])

        def cost(cell: Cell) -> int:
            gpus = self._sizes[cell[0]]
            return int(below[gpus * (cell[1] + 1)] - below[gpus * cell[1]])

        owner, cells = self._owners[view.tenant[job]], list[Cell]()
        counts = digits(int(view.gpus[job]), self._sizes)
        for level in reversed(range(len(counts))):
            for _ in range(counts[level]):
                if (cell := owner.take(level, cost)) is None:
                    for one in cells:
                        owner.give(one)
                    return False
                cells.append(cell)
        self._cells[job] = cells
        self._kept[self._gpus(job)] = True
        return True

    def _give(self, view: ClusterView, job: int) -> None:
        """Give the cells of a job back."""
        self._kept[self._gpus(job)] = False
        for cell in self._cells.pop(job):
            self._owners[view.tenant[job]].give(cell)

    def _gpus(self, job: int) -> np.ndarray:
        """Return the GPUs of the cells of a job, ascending."""
        sizes = self._sizes
        return np.sort(np.concatenate([np.arange(sizes[k] * i, sizes[k] * (i + 1)) for k, i in self._cells[job]]))
