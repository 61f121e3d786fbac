"""Themis: apps bid for GPUs at the end of leases; a partial allocation with hidden payments; leftover GPUs."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np

from gpusched_env.baselines.checking import FINITE, Range, check
from gpusched_env.baselines.elastic.reallocation import able_nodes, held_counts, reallocate
from gpusched_env.baselines.estimates import EstimatingScheduler
from gpusched_env.baselines.themis.apps import Apps
from gpusched_env.baselines.themis.fairness import finish_time_fairness
from gpusched_env.baselines.themis.offering import ALMOST, App, Offering
from gpusched_env.baselines.themis.places import Menu, Place, Places, menu_of
from gpusched_env.portable.keys import rounded_keys
from gpusched_env.simulator import ClusterView, Decision, Lease, Preempt, Resize, Start

APPS: Final = ("job", "tenant")
PAYMENTS: Final = ("gpus", "lease", "none")
LEAST_S: Final = 1e-3  # [s] least run time and remaining run time of a job


@dataclass
class ThemisArbiter(EstimatingScheduler):
    """Lease GPUs by auction to the apps with the worst finish-time fairness; leave the rest to the other apps.

    Finish-time fairness rho is the time that an app needs in the shared cluster, divided by the time that it would need
    on 1/N of the cluster, N = mean number of apps. GPUs are leased. Free GPUs, and those whose lease ends, are offered
    to the apps with the largest rho, which bid their value 1 / rho of different numbers of GPUs.

    Parameters
    ----------
    lease_s : length of a lease [s], default 1,200; > 0
    fairness_knob : parameter f, 0 to 1, default 0.8; the fraction 1 - f of the apps that can use the offer bids,
        those with the largest rho. Near 1 = fair, near 0 = efficient
    app : "job" (default) = every job is an app; "tenant" = all unfinished jobs of a tenant are one app
    payment : hidden payment of a winner that may keep the fraction c of its GPUs: "gpus" (default) = it gets the part
        in whole gangs or sizes, rounded down; "lease" = it gets all for the fraction c of a lease, at least 1/20 of it;
        "none" = it gets all
    seed : seed of the choice among apps that take leftover GPUs, default 0
    estimator, sigma, estimator_seed : source of run times, see :class:`EstimatingScheduler`; default true run times

    Notes
    -----
    docs/themis.md has the steps of an auction and all choices. With payment by leases, no bidder gains by an untrue
    bid; rounding to whole gangs breaks this. A decision point takes O(apps + bidders x GPUs on offer x sizes).

    References
    ----------
    K. Mahajan et al., "Themis: Fair and efficient GPU cluster scheduling", NSDI 2020.
    """

    knows_node_counts = False  # it chooses GPUs itself
    relies_on_decisions = True  # GPUs stay promised to a winner while the last holder writes its checkpoint

    lease_s: float = 1200.0
    fairness_knob: float = 0.8
    app: str = "job"
    payment: str = "gpus"
    seed: int = 0

    def __post_init__(self) -> None:
        """Check the parameters."""
        super().__post_init__()
        check("themis", self, lease_s=FINITE, fairness_knob=Range(0.0, 1.0, "a number from 0 to 1"))
        check("themis", self, app=APPS, payment=PAYMENTS)
        self.needs = ("tenants",) if self.app == "tenant" else ()

    @property
    def name(self) -> str:
        """Name in tables: ``themis``, with ``-lease`` or ``-none`` after it for these payments."""
        return "themis" if self.payment == "gpus" else f"themis-{self.payment}"

    def reset(self, view: ClusterView) -> None:
        """Forget all jobs and leases."""
        super().reset(view)
        self._random = np.random.default_rng(self.seed)
        self._apps = Apps(view, self.app == "tenant")
        self._menus: list[Menu] = []  # by row
        self._known: set[int] = set()  # rows of the jobs that have entered the queue
        self._whole_s = np.zeros(len(view.simulation.instance.workload))  # [s] run times, as their apps count them
        self._grants: dict[int, Place] = {}  # GPUs of each job that has, or is promised, a lease
        self._shares: dict[int, float] = {}  # fraction of its next lease that a job gets, if not all
        self._free = view.cluster.nodes["gpus"].astype(np.int64)  # GPUs of each node that are not in ``_grants``
        self._todo: list[int] = []  # jobs that do not hold their grants yet

    def decide(self, view: ClusterView) -> Iterable[Decision]:
        """Hold an auction if some app can use GPUs; start and resize the winners; renew the leases that go on."""
        unfinished = np.sort(np.concatenate([view.waiting, view.running]))
        self._learn(view, unfinished)
        yield from self._adopt(view)
        ended = view.lease_ended.tolist()
        offer = int(self._free.sum()) + sum(self._grants[job].gpus for job in ended)
        waiting = (job for job in view.waiting.tolist() if job not in self._grants)
        idle = [job for job in waiting if self._menus[job].sizes[0] <= offer]
        held = bool(idle) or any(self._could_do_better(job, offer) for job in ended)
        if held:
            self._hold_auction(view, unfinished, ended, idle)
        if held or self._todo:
            wanted = {job: place.nodes for job, place in self._grants.items()}
            for decision in reallocate(view, wanted, list(self._todo)):
                yield decision
                if isinstance(decision, Start | Resize) and not view.refusal:
                    self._todo.remove(decision.job)
                    yield self._lease(view, decision.job)
        for job in view.lease_ended.tolist():  # gangs that cannot move at once start again elsewhere
            if job in self._grants:
                yield Preempt(job) if job in self._todo else self._lease(view, job)

    def _lease(self, view: ClusterView, job: int) -> Lease:
        return Lease(job, view.now_s + self.lease_s * self._shares.pop(job, 1.0))

    # --- what has happened

    def _learn(self, view: ClusterView, unfinished: np.ndarray) -> None:
        """Add the jobs that have arrived, and take the GPUs of those that have finished."""
        self._menus += [menu_of(view, job) for job in range(len(self._menus), view.arrived)]
        is_new = np.array([job not in self._known for job in unfinished.tolist()], bool)
        self._apps.count(view, unfinished[~is_new])
        new = unfinished[is_new]
        self._known.update(new.tolist())
        for job, seconds in zip(new.tolist(), self.ideal_s(view, new).tolist(), strict=True):
            menu = self._menus[job]
            self._whole_s[job] = max(seconds, LEAST_S)
            self._apps.add(view, job, self._whole_s[job] * view.gpus[job], menu.most, menu.sizes[-1])
        if not self.clairvoyant:  # claims that have been passed
            whole_s = np.maximum(self.ideal_s(view, unfinished), LEAST_S)
            self._apps.add_work(view, unfinished, (whole_s - self._whole_s[unfinished]) * view.gpus[unfinished])
            self._whole_s[unfinished] = whole_s
        self._apps.counted()
        there, waiting = set(unfinished.tolist()), set(view.waiting.tolist())
        for job in list(self._grants):
            if job not in there or (job in waiting and self._is_void(view, job)):
                self._drop(job)

    def _is_void(self, view: ClusterView, job: int) -> bool:
        """Return whether a reservation has preempted a gang, or has closed a node that a waiting job was promised."""
        if job not in self._todo:
            return True
        return not able_nodes(view, [job])[job][self._grants[job].nodes > 0].all()

    def _drop(self, job: int) -> Place:
        """Take the GPUs of a job back."""
        place = self._grants.pop(job)
        self._shares.pop(job, None)
        self._free += place.nodes
        if job in self._todo:
            self._todo.remove(job)
        return place

    def _adopt(self, view: ClusterView) -> Iterable[Decision]:
        """Lease their GPUs to gangs that were started before the run began."""
        strangers = [job for job in view.running[~view.checkpointing].tolist() if job not in self._grants]
        if strangers:
            counts = held_counts(view)
            for job in strangers:
                gpus = int(counts[job].sum())
                self._grants[job] = Place(counts[job], float(gpus), gpus)
                self._free -= counts[job]
                yield self._lease(view, job)

    # --- auctions

    def _could_do_better(self, job: int, offer: int) -> bool:
        """Return whether a job whose lease ends may find a better place or size in an offer of so many GPUs."""
        place = self._grants[job]
        return place.gpus < offer and place.power < self._menus[job].most * ALMOST

    def _hold_auction(self, view: ClusterView, unfinished: np.ndarray, ended: list[int], idle: list[int]) -> None:
        """Grant the GPUs that are free, or whose lease ends, to the jobs ``ended`` and ``idle``."""
        before = {job: self._drop(job) for job in ended}
        apps, rho, left = self._wanting(view, unfinished, np.sort(np.array(ended + idle)))
        ranked = np.argsort(-rounded_keys(rho), kind="stable").tolist()
        count = max(1, math.ceil((1 - Fraction(self.fairness_knob).limit_denominator(10**6)) * len(apps)))
        bidders, outside = [apps[i] for i in ranked[:count]], [apps[i] for i in sorted(ranked[count:])]
        unheld = view.free_by_node.astype(np.int64)
        for job in self._todo:
            unheld -= self._grants[job].nodes
        move_s = view.semantics.resize_cost_s
        offering = Offering(Places(view, self._free), self._menus, before, left, np.maximum(unheld, 0), move_s)
        offering.sell(bidders, self.lease_s, self.payment)
        offering.give_away(outside, self._random, self._used(view, outside, before))
        offering.give_away(bidders, None, self._used(view, bidders, before))
        self._grants |= offering.grants
        self._shares |= offering.shares
        changed = [job for job, place in offering.grants.items() if place is not before.get(job)]
        moves = [job for job in changed if job in before and before[job].gpus == offering.grants[job].gpus]
        self._todo = moves + self._todo + [job for job in changed if job not in moves]

    def _wanting(
        self, view: ClusterView, unfinished: np.ndarray, wanting: np.ndarray
    ) -> tuple[list[App], np.ndarray, np.ndarray]:
        """Return the apps of the jobs ``wanting``, rho of each, and the work left of each job by row [GPU s].

        An app without GPUs counts as if it got its ideal placements a lease later.
        """
        left = np.zeros(view.arrived)
        left[unfinished] = np.maximum(self.remaining_s(view, unfinished), LEAST_S) * view.gpus[unfinished]
        numbers, first = np.unique(self._apps.of(view, wanting), return_inverse=True)
        of_job = self._apps.of(view, unfinished)
        at = np.minimum(np.searchsorted(numbers, of_job), len(numbers) - 1)
        mine = numbers[at] == of_job
        power = np.array([self._grants[job].power if job in self._grants else 0.0 for job in unfinished.tolist()])
        work = np.bincount(at[mine], left[unfinished[mine]], len(numbers))
        held = np.bincount(at[mine], power[mine], len(numbers))
        ideal = np.bincount(first, [self._menus[job].most for job in wanting.tolist()], len(numbers))
        age_s, private_s = view.now_s - self._apps.arrival_s[numbers], self._apps.private_s(view, numbers)
        later_s = np.where(held > 0, age_s, age_s + self.lease_s)
        rho = finish_time_fairness(later_s, work, np.where(held > 0, held, ideal), private_s)
        columns = (age_s.tolist(), work.tolist(), held.tolist(), private_s.tolist())
        apps = [App([], *row) for row in zip(*columns, strict=True)]
        for job, number in zip(wanting.tolist(), first.tolist(), strict=True):
            apps[number].jobs.append(job)
        return apps, rho, left

    def _used(self, view: ClusterView, apps: list[App], before: dict[int, Place]) -> dict[int, np.ndarray]:
        """Return position in ``apps`` -> bool [N], the nodes that an app uses; apps that use none are left out."""
        leased: dict[int, list[int]] = {}
        if self.app == "tenant":
            for job in self._grants:
                leased.setdefault(int(view.tenant[job]), []).append(job)
        found: dict[int, np.ndarray] = {}
        for i, app in enumerate(apps):
            places = [before[job] for job in app.jobs if job in before]
            if self.app == "tenant":
                places += [self._grants[job] for job in leased.get(int(view.tenant[app.jobs[0]]), ())]
            if places:
                found[i] = np.logical_or.reduce([place.nodes > 0 for place in places])
        return found
