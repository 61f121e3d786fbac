"""Carry out a plan of GPUs for each job and node: keep, preempt, start now, or start when the GPUs come free."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from gpusched_env.core.due import LEASE_SLACK
from gpusched_env.simulator import ClairvoyantView, ClusterView, Decision, Lease, Preempt, Start


def unfinished(view: ClairvoyantView) -> np.ndarray:
    """Rows, ascending, of all jobs in the system except those that end now."""
    running = view.running
    lasting = view.end_s(running) > view.now_s * (1.0 + LEASE_SLACK)
    rows: np.ndarray = np.sort(np.concatenate([running[lasting], view.waiting]))
    return rows


def held_counts(view: ClusterView, rows: np.ndarray) -> np.ndarray:
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

    A job whose planned number of GPUs of each node equals what it holds keeps its GPUs, at no cost. All others are
    preempted. Starts that wait for the end of a checkpoint are remembered; :meth:`start` tries them again.
    """

    def __init__(self) -> None:
        self.until_s = -np.inf
        self._blocked: list[tuple[int, tuple[int, ...]]] = []

    def carry_out(
        self, view: ClusterView, rows: np.ndarray, counts: np.ndarray, until_s: float, keep: bool = True
    ) -> Iterator[Decision]:
        """Yield the decisions that lead from the GPUs that jobs hold to those of the plan.

        Parameters
        ----------
        rows : jobs, in the order in which they are started
        counts : int32 [len(rows), N], GPUs of each node that each job should hold; a row of zeros = the job waits
        until_s : end of the leases [s]
        keep : False = every gang is stopped, even if the plan gives it what it holds
        """
        self.until_s = until_s
        running = view.running[~view.checkpointing]
        planned = np.isin(rows, running) & counts.any(axis=1) & keep
        same = planned & (held_counts(view, rows) == counts).all(axis=1)
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
        """Start, in order, the gangs whose GPUs have come free."""
        if not self._blocked:
            return
        blocked = []
        free, waiting = view.holders < 0, set(view.waiting.tolist())
        for row, gpus in self._blocked:
            if row not in waiting or not free[list(gpus)].all():
                blocked.append((row, gpus))
                continue
            yield Start(row, gpus=gpus)
            yield Lease(row, self.until_s)
        self._blocked = blocked

    @staticmethod
    def _pools(view: ClusterView, kept: np.ndarray) -> list[list[int]]:
        """GPUs of each node that no kept job holds, free GPUs first."""
        holders = view.holders
        pools: list[list[int]] = [[] for _ in view.cluster.nodes]
        available = np.flatnonzero(~np.isin(holders, kept) | (holders < 0))
        for gpu in available[np.argsort(holders[available] >= 0, kind="stable")].tolist():
            pools[view.cluster.node_of_gpu[gpu]].append(gpu)
        return pools
