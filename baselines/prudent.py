"""FIFO that knows of failures: it avoids flaky nodes, keeps spares for restarts, and starts nothing into a window."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from gpusched_env.baselines.checking import Range, check
from gpusched_env.core.placement.rules import rule_number
from gpusched_env.simulator import ClusterView, Decision, Scheduler, Start


@dataclass
class Prudent(Scheduler):
    """Start jobs by arrival, skip those that do not fit, and restart interrupted gangs first.

    Parameters
    ----------
    placement : placement rule; default "steady", which avoids nodes that crash often
    spares : nodes whose GPUs only interrupted gangs of at least ``large`` GPUs may take [node]; default 0. While
        nothing runs, there are no spares
    large : least size of these gangs [GPU]; 0 (default) = that of the largest node
    windows : whether a gang must be able to leave its nodes, by its estimate or limit, before a planned reservation
        closes them (default). A gang whose time nobody tells may start anywhere

    Notes
    -----
    If the rule chooses nodes that close too early, the gang takes free GPUs of others, most free first, or waits.
    """

    placement: str = "steady"
    spares: int = 0
    large: int = 0
    windows: bool = True

    knows_node_counts = False  # it chooses GPUs itself

    def __post_init__(self) -> None:
        """Check the parameters."""
        check("prudent", self, spares=Range(0, 10**6, "a number of nodes >= 0"), large=Range(0, 10**6, "GPUs >= 0"))
        rule_number(self.placement)

    @property
    def name(self) -> str:
        """Name in tables."""
        return "prudent"

    def decide(self, view: ClusterView) -> Iterable[Decision]:
        """Start what fits, interrupted gangs first."""
        node_gpus = int(view.cluster.nodes["gpus"].max())
        large = self.large or node_gpus
        fresh = np.isinf(view.first_start_s)
        for job in view.waiting[np.argsort(fresh[view.waiting], kind="stable")].tolist():
            gang = int(view.gpus[job])
            kept = 0 if (not fresh[job] and gang >= large) or not len(view.running) else self.spares * node_gpus
            if view.free_gpus - gang >= kept and (gpus := self._place(view, job, gang)):
                yield Start(job, gpus=gpus)

    def _place(self, view: ClusterView, job: int, gang: int) -> tuple[int, ...]:
        """Return the GPUs of a gang; empty = it waits."""
        gpus = view.where(job, self.placement)
        told_s = min(float(np.nan_to_num(view.estimate_s[job], nan=math.inf)), float(view.limit_s[job]))
        if not gpus or not self.windows or told_s == math.inf:
            return gpus
        of_gpu = view.cluster.node_of_gpu
        late = view.closes_s(job) < view.now_s + told_s - float(view.service_s(np.array([job]))[0])
        if not late[of_gpu[list(gpus)]].any():
            return gpus
        able = view.able_gpus(np.array([job]))
        usable = np.flatnonzero(view.is_free & ~late[of_gpu] & (True if able is None else able[0]))
        count = np.bincount(of_gpu[usable], minlength=len(late))
        chosen = usable[np.lexsort([of_gpu[usable], -count[of_gpu[usable]]])][:gang]
        return tuple(chosen.tolist()) if len(chosen) == gang else ()
