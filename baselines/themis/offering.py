"""One auction of Themis: apps bid for the GPUs on offer, winners pay, and the other apps get what is left."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np

from gpusched_env.baselines.themis.fairness import finish_time_fairness
from gpusched_env.baselines.themis.partial_allocation import Bid, hold_auction
from gpusched_env.baselines.themis.places import Menu, Place, Places
from gpusched_env.portable.keys import rounded_key

LEAST_SHARE: Final = 0.05  # of a lease, which must not be empty
ALMOST: Final = 1.0 - 1e-9  # a smaller part of the largest power is less than it


class Step(NamedTuple):
    """The next GPUs that an app would take: ``job`` gets ``size`` GPUs, ``more`` than it has."""

    job: int
    size: int  # [GPU]
    more: int  # [GPU]


class Rung(NamedTuple):
    """One entry of a bid: GPUs for jobs of the app."""

    gpus: int  # [GPU] in all
    sizes: dict[int, int]  # job -> its GPUs
    power: float  # of all these GPUs, if the app alone took them from the offer


@dataclass
class App:
    """An app that wants GPUs: jobs that wait or whose lease ends, its age, work left [GPU s], power held, T_id [s]."""

    jobs: list[int]
    age_s: float = 0.0
    left: float = 0.0
    held: float = 0.0
    private_s: float = 1.0
    sizes: dict[int, int] = field(default_factory=dict)  # GPUs granted so far, by job

    def next_step(self, sizes: Mapping[int, int], menus: Sequence[Menu], gpus: int) -> Step | None:
        """Return the next step of the app if its jobs have ``sizes`` and ``gpus`` GPUs are left; None = it has none.

        Every job gets its smallest size, in order; then the job with the fewest GPUs gets its next size. Ties: the
        first job.
        """
        best: Step | None = None
        for job in self.jobs:
            menu, had = menus[job].sizes, sizes.get(job, 0)
            if had == 0:
                if menu[0] <= gpus:
                    return Step(job, menu[0], menu[0])
            elif had != menu[-1]:
                size = menu[menu.index(had) + 1]
                if size - had <= gpus and (best is None or had < sizes.get(best.job, 0)):
                    best = Step(job, size, size - had)
        return best

    def bid(self, rungs: Sequence[Rung], lease_s: float) -> Bid:
        """Return the value 1 / rho of each entry; without any GPUs, the smallest entry comes a lease later."""
        wait_s, idle = (0.0, self.held) if self.held > 0 else (lease_s, rungs[min(1, len(rungs) - 1)].power or 1.0)
        rho = {0: finish_time_fairness(self.age_s + wait_s, self.left, idle, self.private_s)}
        for rung in rungs[1:]:
            rho[rung.gpus] = finish_time_fairness(self.age_s, self.left, self.held + rung.power, self.private_s)
        return {gpus: rounded_key(1.0 / value) for gpus, value in rho.items()}


@dataclass
class Offering:
    """The GPUs on offer, and who gets them.

    ``before`` : GPUs that the jobs whose lease ends hold until now; ``left`` : work of each row [GPU s]; ``idle`` :
    int64 [N], GPUs that no gang holds, to which alone a gang moves; ``move_s`` : time without progress after a move.
    """

    places: Places
    menus: Sequence[Menu]
    before: Mapping[int, Place]
    left: np.ndarray
    idle: np.ndarray
    move_s: float
    grants: dict[int, Place] = field(default_factory=dict)  # job -> its GPUs
    shares: dict[int, float] = field(default_factory=dict)  # job -> fraction of its lease, if not all

    def rungs(self, app: App) -> list[Rung]:
        """Return what an app can do with different numbers of GPUs, from none to as many as it can use."""
        sizes: dict[int, int] = {}
        powers: dict[int, float] = {}
        rungs, gpus, total = [Rung(0, {}, 0.0)], 0, self.places.total
        able = App(list(app.jobs))
        while step := able.next_step(sizes, self.menus, total - gpus):
            place = self._place(step)
            if place is None:
                able.jobs.remove(step.job)
                continue
            sizes[step.job], powers[step.job] = step.size, place.power
            gpus += step.more
            rungs.append(Rung(gpus, dict(sizes), sum(powers.values())))
        return rungs

    def sell(self, bidders: Sequence[App], lease_s: float, payment: str) -> None:
        """Hold the auction, and grant each winner what it may keep; gangs that need not move choose first."""
        ladders = [self.rungs(app) for app in bidders]
        bids = [app.bid(rungs, lease_s) for app, rungs in zip(bidders, ladders, strict=True)]
        grants: list[tuple[App, Step]] = []
        for app, rungs, award in zip(bidders, ladders, hold_auction(bids, self.places.total), strict=True):
            may = award.kept if payment == "gpus" else award.won
            rung = [one for one in rungs if one.gpus <= may][-1]
            grants += [(app, Step(job, size, size)) for job, size in rung.sizes.items()]
            if payment == "lease":
                self.shares |= dict.fromkeys(rung.sizes, max(float(award.share), LEAST_SHARE))
        for app, step in sorted(grants, key=lambda grant: not self._stays(grant[1].job, grant[1].size)):
            place = self._place(step)
            if place is not None:
                self._grant(app, step.job, place)
            else:  # it pays nothing for what it may get of the leftover GPUs
                self.shares.pop(step.job, None)

    def give_away(
        self, apps: Sequence[App], random: np.random.Generator | None, used: Mapping[int, np.ndarray]
    ) -> None:
        """Give what is left to apps, one step at a time.

        ``random`` draws, first among apps that use nodes with free GPUs; None = the app with the fewest steps so far.
        ``used`` : position in ``apps`` -> bool [N], nodes that the app uses, to which its gangs go.
        """
        able, turns = [App(list(app.jobs)) for app in apps], [0] * len(apps)
        while (total := self.places.total) > 0:
            steps = {
                i: step
                for i, app in enumerate(apps)
                if (step := able[i].next_step(app.sizes, self.menus, total)) is not None
            }
            if not steps:
                return
            if random is None:
                i = min(steps, key=lambda i: (turns[i], i))
                turns[i] += 1
            else:
                free = self.places.free > 0
                among = [i for i in steps if i in used and (used[i] & free).any()] or list(steps)
                i = among[int(random.integers(len(among)))]
            job = steps[i].job
            had = self.grants.get(job)
            if had is not None:
                self._take_back(job)
            place = self._place(steps[i], used.get(i))
            if place is None:
                able[i].jobs.remove(job)
                place = had
            if place is not None:
                self._grant(apps[i], job, place)

    def _grant(self, app: App, job: int, place: Place) -> None:
        self.places.take(place)
        self.grants[job] = place
        app.sizes[job] = place.gpus
        if self._stays(job, place.gpus):
            self.idle += self.before[job].nodes - place.nodes

    def _take_back(self, job: int) -> None:
        place = self.grants.pop(job)
        self.places.put_back(place)
        if self._stays(job, place.gpus):
            self.idle -= self.before[job].nodes - place.nodes

    def _place(self, step: Step, used: np.ndarray | None = None) -> Place | None:
        """Return GPUs for a step. A gang whose size stays moves only if it would end earlier by more than the move."""
        job, menu = step.job, self.menus[step.job]
        if not self._stays(job, step.size) or not self.places.fits(self.before[job]):
            return self.places.best(job, step.size, menu, used)
        here = self.before[job]
        if here.power >= menu.most * ALMOST:
            return here
        there = self.places.within(job, step.size, menu, np.minimum(self.places.free, self.idle + here.nodes))
        if there is None or self.left[job] / here.power <= self.left[job] / there.power + self.move_s:
            return here
        return there

    def _stays(self, job: int, size: int) -> bool:
        """Return whether a job holds so many GPUs until now."""
        return job in self.before and self.before[job].gpus == size
