"""Themis: apps bid for GPUs at the end of leases; a partial allocation with hidden payments; leftover GPUs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, NamedTuple

import numpy as np

from gpusched_env.baselines.elastic.reallocation import able_nodes, held_counts, reallocate
from gpusched_env.baselines.estimates import EstimatingScheduler
from gpusched_env.baselines.themis.apps import Apps
from gpusched_env.baselines.themis.fairness import finish_time_fairness
from gpusched_env.baselines.themis.leftovers import Step, next_step
from gpusched_env.baselines.themis.partial_allocation import Bid, hold_auction
from gpusched_env.baselines.themis.places import Menu, Place, Places, menu_of
from gpusched_env.errors import SchedulerError, unknown_name
from gpusched_env.portable.keys import rounded_key, rounded_keys
from gpusched_env.simulator import ClusterView, Decision, Lease, Resize, Start

APPS: Final = ("job", "tenant")
PAYMENTS: Final = ("gpus", "lease", "none")
LEAST_S: Final = 1e-3  # [s] least run time and remaining run time of a job
LEAST_SHARE: Final = 0.05  # of a lease, which must not be empty


class Rung(NamedTuple):
    """One entry of a bid: GPUs for jobs of the app."""

    gpus: int  # [GPU] in all
    sizes: dict[int, int]  # job -> its GPUs
    power: float  # of all these GPUs, if the app alone took them from the offer


@dataclass
class ThemisArbiter(EstimatingScheduler):
    """Lease GPUs by auction to the apps with the worst finish-time fairness; leave the rest to the other apps.

    Finish-time fairness rho is the time that an app needs in the shared cluster, divided by the time that it would need
    on 1/N of the cluster, N = mean number of apps. GPUs are leased. Free GPUs, and those whose lease ends, are offered
    to the apps with the largest rho, which bid their value 1 / rho of different numbers of GPUs.

    Parameters
    ----------
    lease_s : length of a lease [s], default 1,200; > 0
    fairness_knob : parameter f, 0 to 1, default 0.8; the fraction 1 - f of the apps that want GPUs bids, those with the
        largest rho. Near 1 = fair, near 0 = efficient
    app : "job" (default) = every job is an app; "tenant" = all unfinished jobs of a tenant are one app
    payment : hidden payment of a winner that may keep the fraction c of its GPUs: "gpus" (default) = it gets the part
        in whole gangs or sizes, rounded down; "lease" = it gets all for the fraction c of a lease, at least 1/20 of it;
        "none" = it gets all
    seed : seed of the choice among apps that take leftover GPUs, default 0
    estimator, sigma, estimator_seed : source of run times, see :class:`EstimatingScheduler`; default true run times

    Notes
    -----
    An auction is held when GPUs are free or at the end of their lease and some app can use them:

    1. Apps that want GPUs are ranked by rho. An app without GPUs counts as if it got its ideal placement a lease later.
    2. Each bidder tells its rho for each number of GPUs that it can use. Its jobs get their smallest size in order of
       arrival, then larger sizes. The rate of a gang is that on the tightest place in the offer. Without GPUs, the
       smallest entry comes a lease later.
    3. The auction is exact (``partial_allocation.py``), and so are its payments. A winner that may keep no whole gang
       gets nothing. With payment by leases, no bidder gains by an untrue bid; rounding to whole gangs breaks this.
    4. Leftover GPUs go to apps that have not bid: first to those that already use these machines, by seeded random
       choice, one gang or size at a time; then to the bidders, the largest rho first.

    Jobs that keep their number of GPUs keep their GPUs, and pay nothing for it. A job whose lease has ended and that
    gets nothing is preempted. docs/themis.md lists all choices. A decision point takes O(apps + bidders x GPUs on offer
    x sizes).

    References
    ----------
    K. Mahajan et al., "Themis: Fair and efficient GPU cluster scheduling", NSDI 2020.
    """

    relies_on_decisions = True  # GPUs stay promised to a winner while the last holder writes its checkpoint

    lease_s: float = 1200.0
    fairness_knob: float = 0.8
    app: str = "job"
    payment: str = "gpus"
    seed: int = 0

    def __post_init__(self) -> None:
        """Check the parameters."""
        super().__post_init__()
        if not 0 < self.lease_s < math.inf:
            raise SchedulerError(f"themis: lease_s is {self.lease_s}: give a finite number of seconds > 0")
        if not 0 <= self.fairness_knob <= 1:
            raise SchedulerError(f"themis: fairness_knob is {self.fairness_knob}: give a number of 0 to 1")
        if self.app not in APPS:
            raise SchedulerError(f"themis: {unknown_name('app', self.app, APPS)}")
        if self.payment not in PAYMENTS:
            raise SchedulerError(f"themis: {unknown_name('payment', self.payment, PAYMENTS)}")

    @property
    def name(self) -> str:
        """Name in tables."""
        return "themis"

    def reset(self, view: ClusterView) -> None:
        """Forget all jobs and leases."""
        super().reset(view)
        self._random = np.random.default_rng(self.seed)
        self._apps = Apps(view, self.app == "tenant")
        self._menus: list[Menu] = []  # by row
        self._least = np.zeros(len(view.simulation.instance.workload), np.int64)  # [GPU] smallest size, by row
        self._grants: dict[int, Place] = {}  # GPUs of each job that has, or is promised, a lease
        self._share: dict[int, float] = {}  # fraction of its next lease that a job gets, if not all

    def decide(self, view: ClusterView) -> Iterable[Decision]:
        """Hold an auction if some app can use GPUs; carry out promises; renew the leases of jobs that keep theirs."""
        unfinished = np.sort(np.concatenate([view.waiting, view.running]))
        changed = self._update(view, unfinished)
        ended = set(view.lease_ended.tolist())
        waiting = [job for job in view.waiting.tolist() if job not in self._grants]
        free = view.cluster.nodes["gpus"].astype(np.int64)
        for job, place in self._grants.items():
            if job not in ended:
                free -= place.nodes
        total = int(free.sum())
        if any(self._least[job] <= total for job in waiting) or any(len(self._menus[job].sizes) > 1 for job in ended):
            self._auction(view, unfinished, sorted(ended.union(waiting)), Places(view, free))
            changed = True
        if changed or any(job in self._grants for job in view.waiting.tolist()):
            for decision in reallocate(view, {job: place.nodes for job, place in self._grants.items()}):
                yield decision
                if isinstance(decision, Start | Resize) and not view.refusal:
                    yield self._lease(view, decision.job)
        for job in view.lease_ended.tolist():
            if job in self._grants:
                yield self._lease(view, job)

    def _lease(self, view: ClusterView, job: int) -> Lease:
        return Lease(job, view.now_s + self.lease_s * self._share.pop(job, 1.0))

    def _update(self, view: ClusterView, unfinished: np.ndarray) -> bool:
        """Learn which jobs have arrived and finished; return whether gangs must be adopted or promises are void."""
        known = len(self._menus)
        self._apps.count(view, unfinished[: np.searchsorted(unfinished, known)])
        new = np.arange(known, view.arrived)
        for job, seconds in zip(new.tolist(), self.ideal_s(view, new) * np.ones(len(new)), strict=True):
            menu = menu_of(view, job)
            self._menus.append(menu)
            self._least[job] = menu.sizes[0]
            self._apps.add(view, job, max(seconds, LEAST_S) * view.gpus[job], menu.most, menu.sizes[-1])
        self._apps.counted()
        there = set(unfinished.tolist())
        running = set(view.running.tolist())
        closed = view.open_nodes(unfinished[:0]) is not None
        for job, place in list(self._grants.items()):
            shut = closed and job not in running and not able_nodes(view, [job])[job][place.nodes > 0].all()
            if job not in there or shut:
                del self._grants[job]
        strangers = [job for job in view.running[~view.checkpointing].tolist() if job not in self._grants]
        if strangers:  # gangs of a run that began without this scheduler
            held = held_counts(view)
            self._grants |= {job: Place(held[job], float(held[job].sum())) for job in strangers}
        return bool(strangers)

    # --- an auction

    def _auction(self, view: ClusterView, unfinished: np.ndarray, wanting: list[int], offer: Places) -> None:
        """Grant the GPUs of an offer to the jobs ``wanting``, which hold none or are at the end of their lease."""
        before = {job: self._grants.pop(job) for job in wanting if job in self._grants}
        jobs_of: dict[int, list[int]] = {}
        for job, app in zip(wanting, self._apps.of(view, np.array(wanting)).tolist(), strict=True):
            jobs_of.setdefault(app, []).append(job)
        apps = np.array(sorted(jobs_of))
        age_s, left, held, private_s = self._state(view, unfinished, apps)
        ideal = np.array([sum(self._menus[job].most for job in jobs_of[app]) for app in apps.tolist()])
        wait_s = np.where(held > 0, 0.0, self.lease_s)
        rho = finish_time_fairness(age_s + wait_s, left, np.where(held > 0, held, ideal), private_s)
        ranked = np.argsort(-rounded_keys(rho), kind="stable")
        count = max(1, math.ceil((1 - Fraction(self.fairness_knob).limit_denominator(10**6)) * len(apps)))
        ladders: dict[int, list[Rung]] = {}
        bids: list[Bid] = []
        for i in ranked[:count].tolist():
            app = int(apps[i])
            ladders[app] = self._rungs(jobs_of[app], before, offer)
            bids.append(self._bid(ladders[app], *(float(array[i]) for array in (age_s, left, held, private_s))))
        sizes: dict[int, dict[int, int]] = {app: {} for app in jobs_of}
        self._grant_awards(bids, ladders, before, sizes, offer)
        outside = [int(app) for app in apps[np.sort(ranked[count:])]]
        own = {app: self._nodes_of(view, jobs_of[app], before) for app in jobs_of} if offer.total else {}
        self._leftovers(outside, True, jobs_of, before, sizes, own, offer)
        self._leftovers(list(ladders), False, jobs_of, before, sizes, own, offer)

    def _state(
        self, view: ClusterView, unfinished: np.ndarray, apps: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Return age [s], work left [GPU s], power of leased GPUs [GPU] and T_id [s] of each of the apps."""
        of_job = self._apps.of(view, unfinished)
        left_s = np.maximum(self.remaining_s(view, unfinished), LEAST_S)
        power = np.array([self._grants[job].power if job in self._grants else 0.0 for job in unfinished.tolist()])
        at = np.searchsorted(apps, of_job)
        mine = (at < len(apps)) & (apps[np.minimum(at, len(apps) - 1)] == of_job)
        left = np.bincount(at[mine], left_s[mine] * view.gpus[unfinished[mine]], len(apps))
        held = np.bincount(at[mine], power[mine], len(apps))
        return view.now_s - self._apps.arrival_s[apps], left, held, self._apps.private_s(view, apps)

    def _rungs(self, jobs: list[int], before: dict[int, Place], offer: Places) -> list[Rung]:
        """Return what an app can do with different numbers of GPUs, from none to as many as it can use."""
        sizes: dict[int, int] = {}
        powers: dict[int, float] = {}
        rungs, total, jobs = [Rung(0, {}, 0.0)], 0, list(jobs)
        while step := next_step(jobs, sizes, self._menus, offer.total - total):
            place = self._place(step, before, None, offer)
            if place is None:
                jobs.remove(step.job)
                continue
            sizes[step.job], powers[step.job] = step.size, place.power
            total += step.more
            rungs.append(Rung(total, dict(sizes), sum(powers.values())))
        return rungs

    def _bid(self, rungs: Sequence[Rung], age_s: float, left: float, held: float, private_s: float) -> Bid:
        """Return the value 1 / rho of each entry."""
        wait_s, idle = (0.0, held) if held > 0 else (self.lease_s, rungs[min(1, len(rungs) - 1)].power or 1.0)
        rho = [finish_time_fairness(age_s + wait_s, left, idle, private_s)]
        rho += [finish_time_fairness(age_s, left, held + rung.power, private_s) for rung in rungs[1:]]
        return {rung.gpus: rounded_key(1.0 / value) for rung, value in zip(rungs, rho, strict=True)}

    def _grant_awards(
        self,
        bids: Sequence[Bid],
        ladders: dict[int, list[Rung]],
        before: dict[int, Place],
        sizes: dict[int, dict[int, int]],
        offer: Places,
    ) -> None:
        """Hold the auction; grant each winner what it may keep. Gangs that stay where they are come first."""
        grants: list[tuple[int, Step]] = []
        for app, award in zip(ladders, hold_auction(bids, offer.total), strict=True):
            may = award.kept if self.payment == "gpus" else award.won
            rung = max((one for one in ladders[app] if one.gpus <= may), key=lambda one: one.gpus)
            for job, size in rung.sizes.items():
                grants.append((app, Step(job, size, size)))
                if self.payment == "lease":
                    self._share[job] = max(float(award.share), LEAST_SHARE)
        for app, step in sorted(grants, key=lambda grant: not _stays(grant[1], before)):
            place = self._place(step, before, None, offer)
            if place is not None:
                self._grant(step, place, sizes[app], offer)

    def _place(self, step: Step, before: dict[int, Place], own: np.ndarray | None, offer: Places) -> Place | None:
        """Return the GPUs for a step: those that the job has, if their number stays and they are on offer."""
        if _stays(step, before) and offer.fits(before[step.job]):
            return before[step.job]
        return offer.best(step.job, step.size, self._menus[step.job], own)

    def _grant(self, step: Step, place: Place, sizes: dict[int, int], offer: Places) -> None:
        offer.take(place)
        self._grants[step.job] = place
        sizes[step.job] = step.size

    # --- GPUs that the auction leaves

    def _nodes_of(self, view: ClusterView, jobs: list[int], before: dict[int, Place]) -> np.ndarray:
        """Bool [N]: nodes that an app uses now."""
        used = np.zeros(len(view.cluster.nodes), bool)
        if self.app == "tenant":
            tenant = view.tenant[jobs[0]]
            jobs = jobs + [job for job in self._grants if view.tenant[job] == tenant]
        for job in jobs:
            place = before.get(job) or self._grants.get(job)
            if place is not None:
                used |= place.nodes > 0
        return used

    def _leftovers(
        self,
        apps: list[int],
        at_random: bool,
        jobs_of: dict[int, list[int]],
        before: dict[int, Place],
        sizes: dict[int, dict[int, int]],
        own: dict[int, np.ndarray],
        offer: Places,
    ) -> None:
        """Grant GPUs step by step to ``apps``, first to those that use nodes with free GPUs; else in order."""
        jobs = {app: list(jobs_of[app]) for app in apps}
        while (total := offer.total) > 0:
            steps = {app: step for app in apps if (step := next_step(jobs[app], sizes[app], self._menus, total))}
            if not steps:
                return
            free = offer.free > 0
            among = [app for app in steps if (own[app] & free).any()] or list(steps)
            app = among[int(self._random.integers(len(among))) if at_random else 0]
            step = steps[app]
            had = self._grants.get(step.job)
            if had is not None:
                offer.put_back(had)
            place = self._place(step, before, own[app], offer)
            if place is None:
                jobs[app].remove(step.job)
                place = had
            if place is not None:
                self._grant(step._replace(size=int(place.nodes.sum())), place, sizes[app], offer)


def _stays(step: Step, before: dict[int, Place]) -> bool:
    return step.job in before and int(before[step.job].nodes.sum()) == step.size
