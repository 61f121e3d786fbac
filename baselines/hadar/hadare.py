"""HadarE (reconstruction) and its baselines: jobs run as copies on separate nodes, planned again in every slot."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from gpusched_env.baselines.checking import AT_LEAST_0, FINITE, check
from gpusched_env.baselines.gang_plans import GangPlan, counts_of, unfinished
from gpusched_env.baselines.hadar.slots import ORDERS, SPARE_ORDERS, plan_slot
from gpusched_env.errors import SchedulerError
from gpusched_env.problem.cluster import MACHINE
from gpusched_env.simulator import ClairvoyantView, ClusterView, Decision, Scheduler, Wait


@dataclass
class HadarE(Scheduler):
    """Run copies of a job on separate nodes, so that no node is idle; plan all nodes again in every time slot.

    With few jobs, most nodes of a cluster would be idle. HadarE forks a job into copies that train at the same time on
    nodes of different speed, and merges them at the end of each slot. In each slot, every job first gets its fastest
    free node. The remaining nodes then go to further copies of the jobs that would end last.

    * ``hadare``: as many copies as the scenario allows.
    * ``hadare-single``: ``copies=1``. A baseline in which a job has one copy and may move to another node in each slot.
    * ``hadare-sticky``: ``copies=1, sticky=True``. A baseline in which a job has one copy and stays on its first node.

    Parameters
    ----------
    slot_s : length of a slot [s], default 360. Shorter slots adapt faster but pay the overheads more often
    copies : maximum number of copies of a job; default 0 = as many as the scenario allows (``semantics.max_copies``).
        With 1, there is no merging, and a job that keeps its node continues at no cost
    order : order in which jobs get their first node. "longest" (default) or "shortest" = by remaining time on the
        fastest node; "arrival" = by arrival; "forked" = by arrival, and a job takes nodes for all its copies before the
        next job takes a node, as in a published figure
    spare_order : which job gets a remaining node. "latest-finish" (default) = the job that would end last; "scheduler"
        = the jobs in turn
    sticky : True = a job stays on the node on which it started, which requires ``copies=1``; default False
    refill : True = when a job ends, its nodes are given to other jobs at once, and a running job gets such a node only
        if it ends earlier in spite of the restart; default False = these nodes are idle until the end of the slot

    Notes
    -----
    This scheduler is a reconstruction: only the abstract of the paper is certain (``docs/hadar.md``). A node holds one
    copy of one job, and must have enough GPUs for the whole gang. In each slot, all copies of a job stop together. So
    each slot costs a job ``restore_s`` (its first slot ``start_s``), and also ``merge_s`` if the job has several
    copies. Rates are those of an idle network. A slot begins at once when a job arrives in an empty system.

    References
    ----------
    Sultana, Pakka, Xu, Yuan, Chen, Tzeng, "Resource Heterogeneity-Aware and Utilization-Enhanced Scheduling for Deep
    Learning Clusters", 2025, arXiv 2503.10918.
    """

    relies_on_decisions = True
    knows_partitions = False  # it chooses machines itself
    knows_node_counts = False
    remembers_gpus = True

    slot_s: float = 360.0
    copies: int = 0
    order: str = "longest"
    spare_order: str = "latest-finish"
    sticky: bool = False
    refill: bool = False

    clairvoyant = True

    def __post_init__(self) -> None:
        """Check the parameters."""
        whole = AT_LEAST_0._replace(wanted="a whole number >= 0")
        check("hadare", self, order=ORDERS, spare_order=SPARE_ORDERS, slot_s=FINITE, copies=whole)
        if self.sticky and self.copies != 1:
            raise SchedulerError("hadare: a sticky job has one copy; give copies=1 as well")
        self.needs = () if self.copies == 1 else ("copies",)

    @property
    def name(self) -> str:
        """Name in tables, which contains the kind of baseline, so that each comparison names its baseline."""
        kind = f"single-copy-{self.order}" if self.copies == 1 else "hadare"
        return kind + "-sticky" * self.sticky + "-refill" * self.refill

    def reset(self, view: ClusterView) -> None:
        """Read the nodes and the rates."""
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
        """Plan a slot when one begins; otherwise start gangs that were blocked, or refill idle nodes."""
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
        """float64 [Q, N]: iterations/s of a copy of each of the jobs ``rows`` on each node; 0 = it cannot run there."""
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
        """int64 [N]: index in ``rows`` of the job that holds each node; -1 = none."""
        counts = counts_of(view, rows) > 0
        held: np.ndarray = np.where(counts.any(axis=0), counts.argmax(axis=0), -1)
        return held

    def _planned(self, view: ClairvoyantView, rows: np.ndarray, held: np.ndarray | None) -> np.ndarray:
        rates = self._node_rates(view, rows)
        one_size = np.array([len(view.sizes(job)) == 1 for job in rows.tolist()])
        limits = np.where(one_size, self._limit, 1)
        return plan_slot(view.iterations_left(rows), rates, limits, self.spare_order, self.order, held)

    def _grown(self, view: ClairvoyantView, rows: np.ndarray, held: np.ndarray) -> np.ndarray:
        """Assign idle nodes to jobs, but not to a running job that would lose more by a restart than it gains."""
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
