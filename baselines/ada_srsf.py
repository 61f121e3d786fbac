"""Ada-SRSF: smallest remaining service first, with a gate that limits how many gangs share a machine's network port."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np

from gpusched_env.baselines.checking import AT_LEAST_0, check
from gpusched_env.simulator import ClairvoyantView, ClusterView, Decision, Scheduler, Start

GATES: Final = ("adadual", "one", "two")


@dataclass
class AdaSrsf(Scheduler):
    """Start waiting jobs in order of remaining GPU-seconds, and hold back gangs that would congest a network port.

    Two gangs that communicate through the port of the same machine slow each other down. Before a gang of several
    machines starts, AdaDUAL compares two schedules of the transfers: start now and share the port, or wait until the
    other transfer has ended. The gang starts only if sharing gives the smaller sum of end times; otherwise other jobs
    may pass it.

    Parameters
    ----------
    gate : when a gang that spans machines may start although another such gang uses one of these machines. "one" =
        never (SRSF(1) of the paper); "two" = if each of these machines is used by at most one other such gang
        (SRSF(2)); "adadual" (default) = if the condition of "two" holds and, for each such gang, starting now makes the
        sum of the end times of its transfer and the new one smaller
    alpha : eta / b of the paper, default 0.2: additional time to send a byte through a shared port, relative to the
        time to send a byte alone. A larger value makes "adadual" stricter
    placement : placement rule of all jobs; default best fit

    Notes
    -----
    In the paper, jobs share GPUs, and the gate decides about every transfer of every iteration. Here each GPU belongs
    to one gang, and the simulator has rates of whole iterations. So the gate decides once, at the start of a job, and
    "transfer" means all bytes that the job still has to send over an edge of its ring. The paper's placement LWF-kappa
    ranks GPUs by the work of the jobs that share them. Here free GPUs have no such work, so the parameter ``placement``
    replaces LWF-kappa. A decision point takes O(waiting x GPUs).

    References
    ----------
    Q. Wang, S. Shi, C. Wang, X. Chu, "Communication Contention Aware Scheduling of Multiple Deep Learning Training
    Jobs", arXiv 2002.10105 (AdaDUAL, Ada-SRSF, LWF-kappa).
    """

    gate: str = "adadual"
    alpha: float = 0.2
    placement: str = "pack"
    clairvoyant = True

    def __post_init__(self) -> None:
        """Check the parameters."""
        check("ada-srsf", self, gate=GATES, alpha=AT_LEAST_0)

    @property
    def name(self) -> str:
        """``ada-srsf``; for the fixed gates ``srsf-1`` and ``srsf-2``, after the paper's names."""
        return {"adadual": "ada-srsf", "one": "srsf-1", "two": "srsf-2"}[self.gate]

    def decide(self, view: ClusterView) -> Iterable[Decision]:
        """Start the jobs that fit and that the gate allows, smallest first."""
        assert isinstance(view, ClairvoyantView)
        waiting = view.waiting
        size = view.remaining_s(waiting) * view.gpus[waiting]
        for job in waiting[np.argsort(size, kind="stable")].tolist():
            if view.free_gpus == 0:
                return
            gpus = view.where(job, self.placement)
            if gpus and self._may_start(view, job, np.array(gpus)):
                yield Start(job, self.placement)

    def _may_start(self, view: ClairvoyantView, job: int, gpus: np.ndarray) -> bool:
        """Return whether the gate allows a start on all machines of the gang; one machine is always allowed."""
        node_of_gpu, holders = view.cluster.node_of_gpu, view.holders
        machines = np.unique(node_of_gpu[gpus])
        own = view.remaining_bytes(np.array([job]))[0]
        if len(machines) == 1 or own == 0.0:
            return True
        held = np.unique(np.stack([holders, node_of_gpu])[:, holders >= 0], axis=1)  # distinct pairs (job, machine)
        rows, spans = np.unique(held[0], return_counts=True)
        sending = rows[(spans > 1) & (view.remaining_bytes(rows) > 0)]
        beside = held[:, np.isin(held[0], sending) & np.isin(held[1], machines)]
        if not beside.size:
            return True
        if self.gate == "one" or np.unique(beside[1], return_counts=True)[1].max() > 1:
            return False
        left = view.remaining_bytes(np.unique(beside[0]))
        return self.gate == "two" or all(start_beside(own, other, 1.0, self.alpha) for other in left.tolist())


def start_beside(new_bytes: float, remaining_bytes: float, per_byte_s: float, penalty_s: float) -> bool:
    """Return whether a new transfer should start at once beside the only transfer in flight (AdaDUAL).

    Otherwise it should wait for the end of the transfer in flight. It should start at once if and only if
    M_new < M_rem b / (2 (b + eta)), which minimises the sum of the two finish times. For M_new < M_rem, this sum is
    b M_rem + (3b + 2 eta) M_new if the new transfer starts at once, and 2b M_rem + b M_new if it waits.
    """
    return new_bytes < remaining_bytes * per_byte_s / (2.0 * (per_byte_s + penalty_s))
