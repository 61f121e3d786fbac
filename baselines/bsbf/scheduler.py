"""SJF-BSBF: shortest job first, and beside a running job where the pair's mean JCT falls; SJF-FFS shares first fit."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np

from gpusched_env.baselines.bsbf.run import SharingRun
from gpusched_env.baselines.estimates import is_strict
from gpusched_env.core.sharing.choices import BENEFIT, MEASURED, PLACEMENTS, SEARCH
from gpusched_env.errors import SchedulerError, unknown_name
from gpusched_env.simulator import ClairvoyantView, ClusterView, Decision, Scheduler, Simulation, Wait

ORDERS: Final = ("sjf", "fifo")
RUNNING_TIMES: Final = ("solo", "measured")


@dataclass
class SjfBsbf(Scheduler):
    """Start waiting jobs in order of run time, beside running ones if too few GPUs are free; never preempt.

    Parameters
    ----------
    benefit_test : a job joins running ones only where Theorem 1 says that the mean JCT of the pair falls, best pairs
        first; off = SJF-FFS: the first GPUs with room
    sub_batch_search : the newcomer's batch may be worked off in parts that need less memory; off = whole batches only
    running_time : the time left of a running job: "solo" = alone on its GPUs, which is what the theorem is about;
        "measured" = at the rate it runs at now, slowed where it shares already (the authors' code)
    placement : "consolidate" = best fit on free GPUs; "bsbf" = free GPUs of the machines with the fewest gangs;
        "bsbfs" = one machine, alone or sharing, else as bsbf (both the authors' code)
    order : "sjf" = by run time left, alone with the whole batch, on the ideal placement; "fifo" = by arrival
    strict : the first job that does not fit blocks all behind it (default: skip it)
    round_s : 0 = decide at every event; > 0 = only at multiples of so many seconds (the authors' code: 60 or 150)

    Notes
    -----
    Ties by arrival, then id. A job that is not started waits for the next event, and is judged again then. Where GPUs
    are not shared this is ``sjf``. The scenario's ``queue`` overrides ``strict``. A waiting job costs O(seats + running
    jobs) at a decision point.

    References
    ----------
    Y. Luo et al., "Scheduling Deep Learning Jobs in Multi-Tenant GPU Clusters via Wise Resource Sharing", IWQoS 2024,
    arXiv 2407.13088. Rebuilt from the abstract, and checked against what the authors' prototype does
    (docs/sjf_bsbf.md).
    """

    benefit_test: bool = True
    sub_batch_search: bool = True
    running_time: str = "solo"
    placement: str = "consolidate"
    order: str = "sjf"
    strict: bool = False
    round_s: float = 0.0
    clairvoyant = True

    def __post_init__(self) -> None:
        """Check the parameters."""
        for field, value, known in (
            ("running time", self.running_time, RUNNING_TIMES),
            ("placement", self.placement, PLACEMENTS),
            ("order", self.order, ORDERS),
        ):
            if value not in known:
                raise SchedulerError(f"{self.name}: {unknown_name(field, value, known)}")
        if not (self.round_s >= 0 and math.isfinite(self.round_s)):
            raise SchedulerError(f"{self.name}: round_s is {self.round_s}: it must be a finite number of seconds >= 0")

    @property
    def name(self) -> str:
        """sjf-bsbf or sjf-ffs."""
        return "sjf-bsbf" if self.benefit_test else "sjf-ffs"

    def player(self, simulation: Simulation) -> SharingRun | None:
        """Give the compiled loop."""
        if type(self) is not SjfBsbf:
            return None
        choices = (
            self.benefit_test * BENEFIT
            | self.sub_batch_search * SEARCH
            | (self.running_time == "measured") * MEASURED
            | PLACEMENTS[self.placement]
        )
        strict = is_strict(simulation.view_for(self), self.strict)
        return SharingRun(simulation, self.order == "sjf", strict, choices, self.round_s)

    def decide(self, view: ClusterView) -> Iterable[Decision]:
        """Start whatever fits, alone or in company, shortest first."""
        assert isinstance(view, ClairvoyantView)
        waiting = view.waiting
        if not len(waiting):
            return
        if self.round_s > 0 and view.semantics.round_s == 0:
            next_s = self._round_after(view.now_s)
            yield Wait(next_s)
            if next_s - self.round_s != view.now_s:
                return
        order = waiting
        if self.order == "sjf":
            order = waiting[np.argsort(view.remaining_s(waiting), kind="stable")]
        yield from view.shared_schedule(
            order,
            benefit=self.benefit_test,
            search=self.sub_batch_search,
            measured=self.running_time == "measured",
            placement=self.placement,
            strict=is_strict(view, self.strict),
        )

    def _round_after(self, now_s: float) -> float:
        """Give the first round after a time [s]."""
        rounds = max(math.floor(now_s / self.round_s) - 1, 0)
        while rounds * self.round_s <= now_s:  # a division may round either way
            rounds += 1
        return rounds * self.round_s
