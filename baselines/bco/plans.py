"""The two readings of SJF-BCO's placement step: gangs wait for free GPUs, or GPUs have queues of gangs."""

from __future__ import annotations

import abc
from collections.abc import Callable, Iterator
from typing import Final

import numpy as np

from gpusched_env.baselines.bco.ledger import Ledger
from gpusched_env.simulator import ClusterView, Start


class Plan(abc.ABC):
    """Start jobs in a given order on the GPUs that a ledger chooses.

    Parameters
    ----------
    ledger : chooses the GPUs, and stores the charge of each GPU
    order : rows of the jobs, in the order in which they are placed
    gangs, charges_s : gang size and charge of each entry of ``order``
    able : Boolean [len(order), G], whether the type of each GPU can run each of the jobs; None = all can
    """

    def __init__(
        self,
        ledger: Ledger,
        order: np.ndarray,
        gangs: np.ndarray,
        charges_s: np.ndarray,
        able: np.ndarray | None = None,
    ) -> None:
        self.ledger = ledger
        self.order, self.gangs, self.charges_s, self.able = order, gangs, charges_s, able
        allowed = [None] * len(order) if able is None else list(able)
        self._jobs = list(zip(order.tolist(), gangs.tolist(), charges_s.tolist(), allowed, strict=True))

    @abc.abstractmethod
    def starts(self, view: ClusterView) -> Iterator[Start]:
        """Yield the starts of this decision point; the caller must apply each start before it asks for the next."""


class HeadOfLine(Plan):
    """Reading "idle": a gang takes free GPUs only, and a gang that must wait blocks all gangs behind it."""

    def starts(self, view: ClusterView) -> Iterator[Start]:
        """Yield starts, in order, until a job must wait."""
        while self._jobs:
            job, gang, charge_s, able = self._jobs[0]
            gpus = self.ledger.place(gang, charge_s, view.holders < 0, able)
            if gpus is None:
                return
            del self._jobs[0]
            yield Start(job, gpus=tuple(gpus.tolist()))


class Queues(Plan):
    """Reading "queue": all jobs are placed at once, and a job starts when it is first in the queues of all its GPUs."""

    def __init__(
        self,
        ledger: Ledger,
        order: np.ndarray,
        gangs: np.ndarray,
        charges_s: np.ndarray,
        able: np.ndarray | None = None,
    ) -> None:
        super().__init__(ledger, order, gangs, charges_s, able)
        everywhere = np.ones(len(ledger.charged_s), bool)
        placed = [ledger.place(gang, charge_s, everywhere, allowed) for _, gang, charge_s, allowed in self._jobs]
        self._job, self._size = order, gangs  # jobs that have not started, in order
        self._gpu = np.concatenate([gpus for gpus in placed if gpus is not None])  # GPUs of these jobs, concatenated

    def starts(self, view: ClusterView) -> Iterator[Start]:
        """Yield a start of every job whose GPUs are free, and not assigned to a waiting job before it in the order."""
        if not len(self._job):
            return
        rank = np.repeat(np.arange(len(self._job)), self._size)
        head = np.zeros(len(self.ledger.charged_s), np.int64)
        head[self._gpu[::-1]] = rank[::-1]  # the last assignment to an index wins: the earliest job
        mine = (view.holders[self._gpu] < 0) & (head[self._gpu] == rank)
        ready = np.logical_and.reduceat(mine, np.cumsum(self._size) - self._size)
        starting = [Start(int(self._job[i]), gpus=tuple(self._gpu[rank == i].tolist())) for i in np.flatnonzero(ready)]
        self._gpu = self._gpu[~ready[rank]]
        self._job, self._size = self._job[~ready], self._size[~ready]
        yield from starting


READINGS: Final[dict[str, Callable[..., Plan]]] = {"idle": HeadOfLine, "queue": Queues}
