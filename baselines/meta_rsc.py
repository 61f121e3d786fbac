"""The policy of Meta's research clusters: priorities, preemption after two hours, at most seven days."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from gpusched_env.baselines.checking import AT_LEAST_0, POSITIVE, check
from gpusched_env.baselines.estimates import is_strict
from gpusched_env.problem.tenants import PRIORITY
from gpusched_env.simulator import ClusterView, Decision, Lease, Preempt, Scheduler, Start, Wait


@dataclass
class MetaRsc(Scheduler):
    """Start jobs by priority; a job may preempt gangs of lower priority that have run for two hours.

    A gang runs for seven days at most; then it is preempted, and is behind the waiting jobs of its priority.

    Parameters
    ----------
    exempt_s : time [s] for which a gang runs before it may be preempted, default 2 hours; 0 = until the next event
    limit_s : longest time [s] for which a gang runs, default 7 days
    strikes : a server that has crashed so many times within ``window_s`` gets no jobs, default 3; 0 = never mind
    window_s : see ``strikes`` [s], default 28 days
    placement : placement rule of all jobs; default best fit

    Notes
    -----
    The paper's are the two times, that failed jobs are requeued, and that servers that fail again and again are taken
    out; ours the rest. It finds these servers by many signals, we count crashes; gangs that are too large for the other
    servers still use them. Priority is the attribute ``priority_class``; ties go to the earliest arrival, or end of
    seven days, then to the lower row. Victims are gangs of the lowest class, of these the latest start, until there are
    enough GPUs; what a job with victims needs is kept for it. A job that neither fits nor has enough victims lets
    others pass, unless the scenario's queue is strict. A new start begins two hours and seven days anew.

    References
    ----------
    A. Kokolis et al., "Revisiting Reliability in Large-Scale Machine Learning Research Clusters", HPCA 2025
    (arXiv 2410.21680).
    """

    exempt_s: float = 7_200.0
    limit_s: float = 604_800.0
    strikes: int = 3
    window_s: float = 2_419_200.0
    placement: str = "pack"
    name = "meta-rsc"
    remembers_gpus = relies_on_decisions = True

    def __post_init__(self) -> None:
        """Check the parameters."""
        check("meta-rsc", self, exempt_s=AT_LEAST_0, limit_s=POSITIVE, strikes=AT_LEAST_0, window_s=POSITIVE)

    def reset(self, view: ClusterView) -> None:
        """Forget an earlier run."""
        self._begun_s: dict[int, float] = {}  # job -> its latest start
        self._queued_s: dict[int, float] = {}  # job -> end of its latest seven days
        self._kept: dict[int, np.ndarray] = {}  # job with victims -> Boolean [G], GPUs that nobody else gets

    def decide(self, view: ClusterView) -> Iterable[Decision]:
        """Start jobs in order of priority, with victims if need be."""
        for job in view.lease_ended.tolist():
            self._queued_s[job] = view.now_s
            yield Preempt(job)
        classes = view.told(PRIORITY, 0.0)
        self._preempted = True
        while self._preempted:  # victims may fit into what is left of their GPUs
            self._preempted = False
            yield from self._serve_all(view, classes)
        due_s = [self._begun(view, job) + self.exempt_s for job in view.running.tolist()]
        later_s = [time_s for time_s in due_s if time_s > view.now_s]
        if later_s and len(view.waiting):
            yield Wait(min(later_s))

    def _serve_all(self, view: ClusterView, classes: np.ndarray) -> Iterator[Decision]:
        """Serve the waiting jobs in order of priority."""
        waiting = view.waiting.tolist()
        self._kept = {job: gpus for job, gpus in self._kept.items() if job in waiting}
        waiting.sort(key=lambda job: (-classes[job], self._queued_s.get(job, view.arrival_s[job]), job))
        self._failed = set[tuple[float, int]]()  # alike jobs fail as well, until gangs are preempted
        for job in waiting:
            kind = classes[job], int(view.job_class[job])
            if kind in self._failed and job not in self._kept:
                continue
            yield from self._serve(view, job, classes)
            if view.held_gpus(np.array([job]))[0] == 0:
                if is_strict(view, False):
                    break
                self._failed.add(kind)

    def _serve(self, view: ClusterView, job: int, classes: np.ndarray) -> Iterator[Decision]:
        """Start a job, or preempt gangs for it, or neither."""
        usable, gang = np.ones(view.cluster.gpus, bool), int(view.gpus[job])
        if self.strikes:
            crashes = view.crashes
            recent = crashes["node"][crashes["start_s"] > view.now_s - self.window_s]
            counts = np.bincount(recent, minlength=len(view.cluster.nodes))
            steady = (counts < self.strikes)[view.cluster.node_of_gpu]
            usable &= steady | (steady.sum() < gang)
        for other, gpus in self._kept.items():
            usable &= ~gpus | (other == job)
        if job not in self._kept:
            victims, wanted = self._victims(view, job, classes, usable)
            for victim in victims:
                yield Preempt(victim)
            if victims:
                self._kept[job] = wanted
                self._failed.clear()
                self._preempted = True
        if chosen := view.where(job, self.placement, usable):
            yield Start(job, gpus=chosen)
            self._begun_s[job] = view.now_s
            self._kept.pop(job, None)
            if self.limit_s < np.inf:
                yield Lease(job, view.now_s + self.limit_s)
        elif job in self._kept and not (self._kept[job] & (view.holders >= 0)).any():
            del self._kept[job]  # a server has crashed, or the rule asks for more

    def _victims(
        self, view: ClusterView, job: int, classes: np.ndarray, usable: np.ndarray
    ) -> tuple[list[int], np.ndarray]:
        """Return the gangs to preempt for a job, and the GPUs that it then needs, Boolean [G]; no gang = it waits."""
        able, gang = view.able_gpus(np.array([job])), int(view.gpus[job])
        usable = usable if able is None else usable & able[0]
        free = np.flatnonzero(usable & view.is_free)
        wanted, victims = np.zeros(len(usable), bool), list[int]()
        stopping, holders = set(view.running[view.checkpointing].tolist()), view.holders
        order = [
            (classes[one], -begun_s, -one)
            for one in view.running.tolist()
            if classes[one] < classes[job] and one not in stopping
            # also without exemption, no gang is preempted when it has just started
            if (begun_s := self._begun(view, one)) < view.now_s and begun_s + self.exempt_s <= view.now_s
        ]
        for victim in [-one for _, _, one in sorted(order)]:
            if len(free) + wanted.sum() >= gang:
                break
            held = usable & (holders == victim)
            if held.any():
                victims.append(victim)
                wanted |= held
        lacking = gang - int(wanted.sum())
        if lacking > len(free):
            return [], wanted
        wanted[free[: max(lacking, 0)]] = True
        return victims, wanted

    def _begun(self, view: ClusterView, job: int) -> float:
        """Return the latest start of a running gang [s]."""
        return self._begun_s.get(job, float(view.first_start_s[job]))
