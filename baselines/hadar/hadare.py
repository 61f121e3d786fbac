"""HadarE (reconstruction): jobs forked into copies on separate nodes, planned anew in every slot; and its rivals."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from gpusched_env.baselines.gang_plans import GangPlan, held_counts, unfinished
from gpusched_env.baselines.hadar.slots import ORDERS, SPARE_ORDERS, plan_slot
from gpusched_env.cluster import MACHINE
from gpusched_env.errors import SchedulerError, unknown_name
from gpusched_env.simulator import ClairvoyantView, ClusterView, Decision, Scheduler, Wait


@dataclass
class HadarE(Scheduler):
    """In every slot, give each job its fastest free node, and idle nodes to copies of the jobs that would end last.

    Parameters
    ----------
    slot_s : length of a slot [s]
    copies : of a job, at most; 0 = as many as the scenario allows (``semantics.max_copies``). 1 = a single-copy rival:
        there is nothing to merge, so a job that keeps its node goes on at no cost
    order : of the jobs' first copies, a name in ORDERS (``slots.py``); a choice. "forked" = as a published
        figure has it: the forker hands all copies to the scheduler, those of the first job before other jobs
    spare_order : who gets idle nodes, a name in SPARE_ORDERS
    sticky : a job stays on the node on which it started; for single copies
    refill : nodes of a job that ends are given away at once, and not at the end of the slot. A running job that gets
        one restarts, if it gains by that

    Notes
    -----
    A reconstruction from the abstract, as ``hadar.py``. A node holds one copy of one job, whose whole gang it has room
    for. In each slot all copies of a job stop together, so that each slot costs ``restore_s`` (the first ``start_s``),
    and ``merge_s`` where a job has several. Rates are those of an idle network. A slot begins at once when a job finds
    nobody in the system.

    References
    ----------
    Sultana, Pakka, Xu, Yuan, Chen, Tzeng, "Resource Heterogeneity-Aware and Utilization-Enhanced Scheduling for Deep
    Learning Clusters", arXiv 2503.10918.
    """

    slot_s: float = 360.0
    copies: int = 0
    order: str = "longest"
    spare_order: str = "latest-finish"
    sticky: bool = False
    refill: bool = False

    clairvoyant = True

    def __post_init__(self) -> None:
        """Check the parameters."""
        if self.order not in ORDERS:
            raise SchedulerError(f"hadare: {unknown_name('order', self.order, ORDERS)}")
        if self.spare_order not in SPARE_ORDERS:
            raise SchedulerError(f"hadare: {unknown_name('spare order', self.spare_order, SPARE_ORDERS)}")
        if not 0 < self.slot_s < math.inf:
            raise SchedulerError(f"hadare: slot_s is {self.slot_s}: it must be a finite number > 0")
        if not self.copies >= 0:
            raise SchedulerError(f"hadare: copies is {self.copies}: it must be a whole number >= 0")
        if self.sticky and self.copies != 1:
            raise SchedulerError("hadare: a sticky job has one copy; give copies=1 as well")

    @property
    def name(self) -> str:
        """Name with the kind of rival, which no factor may go without."""
        kind = f"single-copy-{self.order}" if self.copies == 1 else "hadare"
        return kind + "-sticky" * self.sticky + "-refill" * self.refill

    def reset(self, view: ClusterView) -> None:
        """Look at the nodes and the rates.

        Raises
        ------
        SchedulerError : a slot that is over before a job makes progress
        """
        assert isinstance(view, ClairvoyantView)
        rules = view.semantics
        self._overhead_s = rules.checkpoint_s + max(rules.restore_s, rules.start_s) + rules.merge_s
        if self.slot_s <= self._overhead_s:
            raise SchedulerError(
                f"hadare: slot_s is {self.slot_s:g}, and stopping, restoring and merging takes {self._overhead_s:g} s "
                "of a slot: no job would make progress; make slot_s larger"
            )
        self._limit = min(self.copies or rules.max_copies, rules.max_copies)
        self._plan = GangPlan()
        self._slot_end_s = 0.0
        self._rates = view.rates_per_s[:, MACHINE]

    def decide(self, view: ClusterView) -> Iterable[Decision]:
        """Plan a slot when one begins; otherwise start what was still blocked, or refill idle nodes."""
        assert isinstance(view, ClairvoyantView)
        alone = not len(view.running) and bool((view.arrival_s[view.waiting] == view.now_s).all())
        begins = alone or view.now_s >= self._slot_end_s
        rows = unfinished(view)
        if not len(rows):
            return
        if begins:
            self._slot_end_s = view.now_s + self.slot_s
            held = self._held(view, rows) if self.sticky else None
            yield from self._carry_out(view, rows, self._planned(view, rows, held), keep=self._limit == 1)
        elif self.refill:
            held = self._held(view, rows)
            yield from self._carry_out(view, rows, self._grown(view, rows, held), keep=True)
        else:
            yield from self._plan.start(view)
        yield Wait(self._slot_end_s)

    def _node_rates(self, view: ClairvoyantView, rows: np.ndarray) -> np.ndarray:
        """float64 [Q, N]: iterations a second of a copy of each of the jobs ``rows`` on each node; 0 = cannot run."""
        nodes = view.cluster.nodes
        rates: np.ndarray = np.where(
            view.gpus[rows][:, None] <= nodes["gpus"], self._rates[view.job_class[rows]][:, nodes["gpu_type"]], 0.0
        )
        nowhere = ~rates.any(axis=1)
        if nowhere.any():
            bad = rows[np.argmax(nowhere)]
            raise SchedulerError(
                f"hadare: no node runs job {view.job_id[bad]}, a gang of {view.gpus[bad]} GPUs; a copy of it must fit "
                "on one node: leave the job out, or enlarge the nodes"
            )
        return rates

    def _held(self, view: ClairvoyantView, rows: np.ndarray) -> np.ndarray:
        """int64 [N]: which of the jobs ``rows`` holds each node, as its index there; -1 = none."""
        counts = held_counts(view, rows) > 0
        held: np.ndarray = np.where(counts.any(axis=0), counts.argmax(axis=0), -1)
        return held

    def _planned(self, view: ClairvoyantView, rows: np.ndarray, held: np.ndarray | None) -> np.ndarray:
        rates = self._node_rates(view, rows)
        return plan_slot(view.iterations_left(rows), rates, self._limit, self.spare_order, self.order, held)

    def _grown(self, view: ClairvoyantView, rows: np.ndarray, held: np.ndarray) -> np.ndarray:
        """Give idle nodes away, but none to a running job that would lose more by a restart than it gains."""
        given = self._planned(view, rows, held)
        rates, left = self._node_rates(view, rows), view.iterations_left(rows)
        for job in np.unique(held[held >= 0]).tolist():
            before, after = rates[job, held == job].sum(), rates[job, given == job].sum()
            if left[job] / after + self._overhead_s >= left[job] / before:
                given[(given == job) & (held != job)] = -1
        return given

    def _carry_out(self, view: ClusterView, rows: np.ndarray, given: np.ndarray, keep: bool) -> Iterator[Decision]:
        counts = np.where(given == np.arange(len(rows))[:, None], view.gpus[rows][:, None], 0).astype(np.int32)
        yield from self._plan.carry_out(view, rows, counts, self._slot_end_s, keep)
