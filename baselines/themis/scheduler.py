"""Themis-lite: leases of GPUs to the jobs that are furthest behind a fair share of the cluster."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from gpusched_env.baselines.estimates import EstimatingScheduler
from gpusched_env.baselines.themis.auction import partial_allocation
from gpusched_env.baselines.themis.bounds import RhoBounds
from gpusched_env.baselines.themis.fairness import fair_time_s, finish_time_fairness, max_min_shares
from gpusched_env.core.placement.rules import shares_by
from gpusched_env.errors import SchedulerError
from gpusched_env.portable.keys import rounded_keys
from gpusched_env.simulator import ClusterView, Decision, Lease, Preempt, Start
from gpusched_env.simulator.growing import GrowingArray

# Least share of a lease that a winner of the auction keeps; a lease must not be empty.
_LEAST_SHARE: Final = 0.05
# Least remaining run time: that of a job that has exceeded its user's estimate.
_LEAST_S: Final = 1e-3  # [s]
_NOBODY: Final = np.empty(0, np.int32)


@dataclass
class Themis(EstimatingScheduler):
    """Lease GPUs to the jobs with the worst finish-time fairness; offer them again when the lease ends.

    Finish-time fairness rho is the time that a job needs in the shared cluster, divided by the time that it would need
    on a private equal share of the cluster. A large rho means that the job is treated unfairly. So GPUs are leased for
    a limited time, and at the end of a lease they go to the jobs with the largest rho.

    Parameters
    ----------
    lease_s : length of a lease [s], default 1,200; > 0. With shorter leases, the schedule is fairer but has more
        preemptions
    placement : placement rule of all jobs; default best fit
    auction : True = the jobs with the largest rho first bid for the GPUs (partial allocation); default False = all jobs
        are served in order of rho
    fairness_knob : parameter f of the auction, 0 to 1, default 0.8; only the fraction 1 - f of the jobs bids, those
        with the largest rho
    maxmin : True = order jobs by fair share of time / time received. The fair shares are those that minimise the
        largest rho (Gavel and other papers model Themis in this way); default False = order jobs by rho
    estimator, sigma, estimator_seed : source of run times, see :class:`EstimatingScheduler`; default true run times

    Notes
    -----
    rho = T_shared / T_ideal. T_shared is the time in the system so far + the remaining run time on the ideal placement.
    T_ideal is the run time on 1 / N of the cluster, where N is the mean number of jobs in the system while the job was
    there. If a gang is k > 1 times as large as this share, T_ideal is multiplied by k.

    Each gang has its own lease. All waiting jobs and all jobs whose lease has ended are sorted by rho, largest first.
    In this order, each job gets its whole gang until the cluster is full. A job that is chosen again keeps its GPUs at
    no cost. A job whose lease has ended and that is not chosen is preempted.

    This version is "lite" because of two simplifications: one job is one app, and a gang gets all of its GPUs or none.
    So a bid has two entries, rho with the gang now and rho after another lease of waiting. If a winner may keep only
    the fraction c of its allocation, it keeps its whole gang for the fraction c of the lease, but at least for 1/20 of
    the lease.

    If sorting the jobs cannot change the result, it is skipped, and leases are renewed. There are two such cases: no
    waiting gang fits into the GPUs that are free, in a checkpoint or at the end of their lease; or no waiting gang
    could start now, and simple bounds show that the jobs whose lease has ended have a larger rho. A decision point
    takes O(n log n) for n jobs in the system if some job could get GPUs, and O(n) otherwise. The auction takes
    O(bidders^2 x GPUs).

    References
    ----------
    K. Mahajan et al., "Themis: Fair and efficient GPU cluster scheduling", NSDI 2020, section 3 (finish-time fairness),
    and its partial allocation auction; D. Narayanan et al., OSDI 2020, section 4.2 (``maxmin``).
    """

    lease_s: float = 1200.0
    placement: str = "pack"
    auction: bool = False
    fairness_knob: float = 0.8
    maxmin: bool = False

    def __post_init__(self) -> None:
        """Check the parameters."""
        super().__post_init__()
        if not self.lease_s > 0:
            raise SchedulerError(f"themis-lite: lease_s is {self.lease_s}: give a number of seconds > 0")
        if not 0 <= self.fairness_knob <= 1:
            raise SchedulerError(f"themis-lite: fairness_knob is {self.fairness_knob}: give a number of 0 to 1")

        if self.auction and self.maxmin:
            raise SchedulerError("themis-lite: give auction or maxmin, not both")
        if self.auction and math.isinf(self.lease_s):  # the value of a bid is the cost of waiting for another lease
            raise SchedulerError("themis-lite: auction=true needs a finite lease_s")

    @property
    def name(self) -> str:
        """Name in tables: ``themis-lite``, followed by ``-pa`` (partial allocation) or ``-maxmin`` if this is on."""
        return "themis-lite" + "-pa" * self.auction + "-maxmin" * self.maxmin

    def reset(self, view: ClusterView) -> None:
        """Forget all jobs and leases."""
        super().reset(view)
        self._seen_s = GrowingArray(np.dtype(float))  # when each job was first seen [s]
        self._load_before = GrowingArray(np.dtype(float))  # the integral of jobs in the system until then [job s]
        self._load = self._asked_s = 0.0
        self._present = 0
        self._gpus = view.cluster.gpus
        rules = view.semantics
        # An auction ranks all jobs. With GPU sharing or copies, a job may hold more or fewer GPUs than it asks for.
        self._asks_all = self.auction or shares_by(self.placement) > 0 or rules.max_copies > 1
        self._stopping: list[int] = []  # preempted jobs that may still be writing a checkpoint
        # The bounds need a remaining time that falls no faster than the clock: not with noise, whole steps or slots.
        by_jerks = rules.step_iterations > 0 or rules.slot_s > 0
        bounded = not (self._asks_all or self.maxmin or self.estimator == "noisy" or by_jerks)
        self._bounds = RhoBounds(self._gpus) if bounded else None

    def decide(self, view: ClusterView) -> Iterable[Decision]:
        """Offer the GPUs that are free or at the end of a lease; renew leases if no job could take over."""
        self._count(view)
        waiting, ended = view.waiting, view.lease_ended
        if not len(waiting) and not (self._asks_all and len(ended)):
            return self._renewed(view, ended)
        stopping = self._stopping_rows(view, waiting)
        if not self._asks_all:
            # Gangs larger than the number of GPUs on offer get nothing and need no rank.
            gangs, free = view.gpus, view.free_gpus
            budget = free + sum(gangs[ended].tolist()) + sum(gangs[stopping].tolist())
            asked = gangs[waiting]
            smallest = asked.min()
            if smallest > budget:
                return self._renewed(view, ended)
            waiting = waiting[asked <= budget]
            if smallest > free and self._all_stay(view, ended, waiting):  # no waiting gang can start now
                return self._renewed(view, ended)
        candidates = np.sort(np.concatenate([waiting, ended]))
        if len(candidates) > 1:
            candidates = self._by_share(view, candidates) if self.maxmin else self._by_fairness(view, candidates)
        return self._offer(view, ended, candidates, stopping)

    def _stopping_rows(self, view: ClusterView, waiting: np.ndarray) -> np.ndarray:
        """Return the rows of the jobs in a checkpoint: preempted jobs that do not wait yet."""
        if self._asks_all:  # the copies of a job may stop one by one
            return view.running[view.checkpointing]
        if not self._stopping:
            return _NOBODY
        places = waiting.searchsorted(self._stopping).tolist()
        self._stopping = [
            job for job, at in zip(self._stopping, places, strict=True) if at == len(waiting) or waiting[at] != job
        ]
        return np.array(self._stopping, np.int32)

    def _all_stay(self, view: ClusterView, ended: np.ndarray, waiting: np.ndarray) -> bool:
        """Return whether the rho of every job whose lease has ended is clearly above those of all waiting jobs."""
        if not len(ended):
            return True
        return self._bounds is not None and self._bounds.stay_first(ended, waiting, view.now_s, self._load)

    def _renewed(self, view: ClusterView, ended: np.ndarray) -> list[Decision]:
        """Renew the leases of gangs whose GPUs no other job can get now."""
        until_s = view.now_s + self.lease_s
        return [Lease(job, until_s) for job in ended.tolist()]

    def _offer(
        self, view: ClusterView, ended: np.ndarray, ranked: np.ndarray, stopping: np.ndarray
    ) -> Iterator[Decision]:
        """Lease the GPUs that are free or at the end of their lease to the first jobs of the ranking.

        Parameters
        ----------
        ended : rows of the jobs whose lease ends now
        ranked : rows of these and of the waiting jobs, the worst off first
        stopping : rows of the jobs that are being checkpointed
        """
        leased = view.running
        for job in (*ended.tolist(), *stopping.tolist()):
            leased = leased[leased != job]
        shares = None
        if self.auction:
            ranked, shares = self._auction(view, ranked, view.free_gpus + int(view.gpus[ended].sum()))
        # Running leases are kept. Gangs in a checkpoint come last; other jobs get their GPUs once these are free.
        order = np.concatenate([leased, ranked, stopping])
        kept = dict.fromkeys(ended.tolist())
        for decision in view.preemptive_schedule(order, self.placement):
            yield decision
            if isinstance(decision, Start):
                yield self._lease(view, decision.job, shares)
                if self._bounds is not None:
                    self._bounds.start(decision.job, view.now_s)
            elif isinstance(decision, Preempt):
                kept.pop(decision.job, None)
                self._stopping.append(decision.job)
                if self._bounds is not None:
                    left_s = self._left_s(view, np.array([decision.job]))
                    self._bounds.stop(decision.job, left_s[0], view.arrival_s[decision.job])
        for job in kept:
            yield self._lease(view, job, shares)

    def _lease(self, view: ClusterView, job: int, shares: np.ndarray | None) -> Lease:
        share = 1.0 if shares is None else max(float(shares[job]), _LEAST_SHARE)
        return Lease(job, view.now_s + self.lease_s * share)

    def _by_fairness(self, view: ClusterView, rows: np.ndarray) -> np.ndarray:
        return rows[np.argsort(-rounded_keys(self.fairness(view, rows)), kind="stable")]

    def _by_share(self, view: ClusterView, rows: np.ndarray) -> np.ndarray:
        """Sort by fair share / time received; jobs that never ran come first."""
        present = np.concatenate([view.waiting, view.running])
        waited_s, fair_s = view.now_s - view.arrival_s[present], self._fair_time_s(view, present)
        due = np.zeros(view.arrived)
        due[present] = max_min_shares(
            waited_s, self._left_s(view, present), fair_s, view.gpus[present], view.cluster.gpus
        )
        had_s = view.service_s(rows)
        ratio = np.divide(due[rows], had_s, out=np.full(len(rows), np.inf), where=had_s > 0)
        return rows[np.lexsort((-rounded_keys(due[rows]), -rounded_keys(ratio)))]

    def fairness(self, view: ClusterView, rows: np.ndarray, later_s: float = 0.0) -> np.ndarray:
        """float64: rho of each of the jobs ``rows`` if it got its gang on the best placement in ``later_s`` seconds."""
        waited_s = view.now_s - view.arrival_s[rows] + later_s
        return finish_time_fairness(waited_s, self._left_s(view, rows), self._fair_time_s(view, rows))

    def _left_s(self, view: ClusterView, rows: np.ndarray) -> np.ndarray:
        return np.maximum(self.remaining_s(view, rows), _LEAST_S)

    def _fair_time_s(self, view: ClusterView, rows: np.ndarray) -> np.ndarray:
        share = self._gpus / self._contenders(view, rows)
        return fair_time_s(np.maximum(self.ideal_s(view, rows), _LEAST_S), view.gpus[rows], share)

    def _count(self, view: ClusterView) -> None:
        """Update the integral of the number of jobs in the system."""
        now_s = view.now_s
        self._load += self._present * (now_s - self._asked_s)
        arrived = view.arrived
        if new := arrived - len(self._seen_s):
            self._seen_s.add(np.full(new, now_s))
            self._load_before.add(np.full(new, self._load))
            if self._bounds is not None:
                rows = np.arange(arrived - new, arrived)
                ideal_s = np.maximum(self.ideal_s(view, rows), _LEAST_S)
                left_s, arrival_s = self._left_s(view, rows), view.arrival_s[rows]
                self._bounds.arrive(view.gpus[rows], ideal_s, left_s, arrival_s, now_s, self._load)
        self._asked_s, self._present = now_s, arrived - view.finished_count

    def _contenders(self, view: ClusterView, rows: np.ndarray) -> np.ndarray:
        """float64: mean number of jobs in the system while each of the jobs ``rows`` was there."""
        there_s = view.now_s - self._seen_s[:][rows]
        load = self._load - self._load_before[:][rows]
        return np.divide(load, there_s, out=np.full(len(rows), float(self._present)), where=there_s > 0)

    def _auction(self, view: ClusterView, ranked: np.ndarray, gpus: int) -> tuple[np.ndarray, np.ndarray]:
        """Let the jobs with the largest rho bid.

        Returns the ranking, winners first, and the fraction of its lease that each job keeps, by row.
        """
        shares = np.ones(view.arrived)
        bidders = ranked[: max(1, round((1.0 - self.fairness_knob) * len(ranked)))]
        bidders = bidders[view.gpus[bidders] <= gpus]
        now, later = 1.0 / self.fairness(view, bidders), 1.0 / self.fairness(view, bidders, self.lease_s)
        bids = [np.full(gang + 1, np.nan) for gang in view.gpus[bidders].tolist()]
        for bid, with_gang, without in zip(bids, now, later, strict=True):
            bid[0], bid[-1] = without, with_gang
        allocation, kept = partial_allocation(bids, gpus)
        shares[bidders] = kept
        winners = bidders[np.array(allocation, np.int64) > 0]
        return np.concatenate([winners, ranked[~np.isin(ranked, winners)]]), shares
