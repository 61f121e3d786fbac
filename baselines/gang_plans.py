"""Turn a plan, which gives each job a number of GPUs on each node, into decisions."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from gpusched_env.event_log import LEASE_SLACK
from gpusched_env.simulator import ClairvoyantView, ClusterView, Decision, Lease, Preempt, Start


def unfinished(view: ClairvoyantView) -> np.ndarray:
    """Return the rows, ascending, of all jobs in the system except those that finish at the present time."""
    running = view.running
    lasting = view.end_s(running) > view.now_s * (1.0 + LEASE_SLACK)
    rows: np.ndarray = np.sort(np.concatenate([running[lasting], view.waiting]))
    return rows


def counts_of(view: ClusterView, rows: np.ndarray) -> np.ndarray:
    """int32 [Q, N]: number of GPUs of each node that each of the jobs ``rows`` holds."""
    counts = np.zeros((len(rows), len(view.cluster.nodes)), np.int32)
    entry = np.full(view.arrived, -1)
    entry[rows] = np.arange(len(rows))
    holders = view.holders
    held = np.flatnonzero(holders >= 0)
    held = held[entry[holders[held]] >= 0]
    np.add.at(counts, (entry[holders[held]], view.cluster.node_of_gpu[held]), 1)
    return counts


class GangPlan:
    """A plan of the GPUs that each job should hold until a common time.

    A running job keeps its GPUs, at no cost, if it holds the planned number of GPUs of each node. All other running
    jobs are preempted. If a planned gang cannot start yet because its GPUs are in a checkpoint, the plan stores the
    gang, and :meth:`start` tries again.
    """

    def __init__(self) -> None:
        self.until_s = -np.inf
        self._blocked: list[tuple[int, tuple[int, ...]]] = []

    def carry_out(
        self, view: ClusterView, rows: np.ndarray, counts: np.ndarray, until_s: float, keep: bool = True
    ) -> Iterator[Decision]:
        """Yield the decisions after which jobs hold the planned GPUs.

        ``counts`` : int32 [rows, N], GPUs of each node; zeros = the job waits. The jobs start in the order of ``rows``.
        ``keep`` False: every running gang is preempted, even if it holds the planned GPUs.
        """
        self.until_s = until_s
        running = view.running[~view.checkpointing]
        planned = np.isin(rows, running) & counts.any(axis=1) & keep
        same = planned & (counts_of(view, rows) == counts).all(axis=1)
        kept = rows[same]
        yield from [Lease(row, until_s) for row in kept.tolist()]
        pools = self._pools(view, kept)
        self._blocked = []
        for i in np.flatnonzero(~same & counts.any(axis=1)).tolist():
            gpus: list[int] = []
            for node in np.flatnonzero(counts[i]).tolist():
                count = int(counts[i, node])
                gpus += pools[node][:count]
                del pools[node][:count]
            self._blocked.append((int(rows[i]), tuple(gpus)))
        yield from [Preempt(row) for row in running[np.isin(running, rows) & ~np.isin(running, kept)].tolist()]
        yield from self.start(view)

    def start(self, view: ClusterView) -> Iterator[Decision]:
        """Yield decisions that start, in order, the stored gangs whose GPUs have come free."""
        if not self._blocked:
            return
        blocked = []
        free, waiting = view.is_free, set(view.waiting.tolist())
        for row, gpus in self._blocked:
            if row not in waiting or not free[list(gpus)].all():
                blocked.append((row, gpus))
                continue
            yield Start(row, gpus=gpus)
            yield Lease(row, self.until_s)
        self._blocked = blocked

    @staticmethod
    def _pools(view: ClusterView, kept: np.ndarray) -> list[list[int]]:
        """Return the GPUs of each node that no job of ``kept`` holds, free GPUs first."""
        holders = view.holders
        pools: list[list[int]] = [[] for _ in view.cluster.nodes]
        available = np.flatnonzero(~np.isin(holders, kept) | (holders < 0))
        for gpu in available[np.argsort(holders[available] >= 0, kind="stable")].tolist():
            pools[view.cluster.node_of_gpu[gpu]].append(gpu)
        return pools
