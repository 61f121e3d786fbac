"""EDF: earliest deadline first, each job on as many GPUs as it can use; with or without admission control."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from gpusched_env.baselines.deadlines.plans import Clock
from gpusched_env.baselines.deadlines.slots import LATE_S, TICK_S, Ask, SlotScheduler, change_cost_s
from gpusched_env.errors import SchedulerError, unknown_name
from gpusched_env.simulator import ClairvoyantView

SIZES: Final = ("fastest", "largest")


@dataclass
class EarliestDeadlineFirst(SlotScheduler):
    """Give each job, earliest deadline first, the largest of its sizes that is free; preempt the others.

    Parameters
    ----------
    admission : True = refuse the arrivals of a slot if, with them, a job would miss a deadline that it would keep
        without them, or one of them would miss its own
    slot_s : length of a slot [s]; 0 = every event is handled at once
    sizes : "fastest" = our rule: a job gets at most the size with the largest rate. "largest" = the rule of
        ElasticFlow's simulator: a job gets at most its largest size, even if a smaller one is faster; a slot begins
        with a decision, at a whole second, not at a multiple of ``slot_s``; admission tests arrivals one by one, in
        their order, and refuses each with which any job in the system would miss its deadline

    Notes
    -----
    Jobs without deadlines come last, by arrival; admission never refuses them. Ties: the earliest arrival. A decision
    takes O(n), with admission O(n^2) for each test, n = jobs in the system. One property of the simulator is left out:
    if two jobs give GPUs back at the end of the same slot, its forecasts may lose those of one of them.

    References
    ----------
    gudiandian/ElasticFlow, ``ElasticFlow/scheduler``, policies ``edf`` and ``edf-accessctrl`` (Apache-2.0).
    """

    admission: bool = False
    slot_s: float = 60.0
    sizes: str = "fastest"

    def __post_init__(self) -> None:
        """Check the parameters."""
        if self.sizes not in SIZES:
            raise SchedulerError(f"{self.name}: {unknown_name('rule of sizes', self.sizes, SIZES)}")

    @property
    def name(self) -> str:
        """Name in tables."""
        return "edf-admission" if self.admission else "edf"

    def next_slot_s(self, now_s: float) -> float:
        """Return the begin of the first slot that begins now or later [s]."""
        if self.sizes == "fastest" or self._in_rounds:  # rounds need not begin at whole seconds
            return super().next_slot_s(now_s)
        return max(float(math.ceil(now_s - LATE_S)), self._decided_s + self._slot_s)

    def options(self, view: ClairvoyantView, job: int) -> tuple[list[int], list[float]]:
        """Return the sizes that a job may have, from 0, and its rates there."""
        if self.sizes == "fastest":
            return super().options(view, job)
        return [0, *view.sizes(job).tolist()], [0.0, *view.size_rates(job).tolist()]

    def counts(self, view: ClairvoyantView, now_s: float, jobs: list[Ask], arrivals: set[int]) -> dict[int, int]:
        """Admit, and grant GPUs in the order of the deadlines."""
        order = sorted(jobs, key=lambda ask: (ask.deadline_s, ask.job))
        if self.admission:
            refused = self._refused(view, now_s, order, arrivals)
            arrivals -= refused
            order = [ask for ask in order if ask.job not in refused]
        return granted(order, view.cluster.gpus)

    def _refused(self, view: ClairvoyantView, now_s: float, order: list[Ask], arrivals: set[int]) -> set[int]:
        """Return the arrivals that admission refuses."""
        gpus, cost_s = view.cluster.gpus, change_cost_s(view)
        new = {ask.job for ask in order if ask.job in arrivals and ask.deadline_s < math.inf}
        if not new:
            return set()
        if self.sizes == "fastest":
            clock = Clock(self._slot_s, cost_s)
            old = [ask for ask in order if ask.job not in new]
            return set() if missed(order, gpus, now_s, clock) <= missed(old, gpus, now_s, clock) else new
        clock = Clock(self._slot_s, cost_s, now_s)
        refused = set(new)
        for job in sorted(new):
            tried = [ask for ask in order if ask.job == job or ask.job not in refused]
            if not missed(tried, gpus, now_s, clock):
                refused.remove(job)
        return refused


def granted(order: list[Ask], gpus: int) -> dict[int, int]:
    """Return the number of GPUs of each job: in this order, the largest size that is free."""
    counts = {}
    for ask in order:
        counts[ask.job] = ask.sizes[ask.most(gpus)]
        gpus -= counts[ask.job]
    return counts


def missed(order: list[Ask], gpus: int, now_s: float, clock: Clock) -> set[int]:
    """Return the jobs that would miss their deadlines if no more jobs arrived, in the order of the deadlines."""
    late: set[int] = set()
    todo = [ask for ask in order if ask.deadline_s < math.inf]
    while todo:
        counts = granted(todo, gpus)
        begin_s = {
            ask.job: now_s + (clock.cost_s if counts[ask.job] != ask.held else ask.delay_s)
            for ask in todo
            if counts[ask.job] > 0
        }
        rate = {ask.job: ask.rates[ask.sizes.index(counts[ask.job])] for ask in todo}
        if not begin_s:  # no job fits on the cluster
            return late | {ask.job for ask in todo}
        end_s = {ask.job: begin_s[ask.job] + ask.left / rate[ask.job] for ask in todo if ask.job in begin_s}
        until_s = max(clock.align(min(end_s.values())), now_s)
        rest = []
        for ask in todo:
            if end_s.get(ask.job, math.inf) <= until_s + TICK_S:
                if end_s[ask.job] > ask.deadline_s + TICK_S:
                    late.add(ask.job)
                continue
            first_s = begin_s.get(ask.job, until_s)
            done = rate[ask.job] * max(until_s - first_s, 0.0)
            rest.append(ask._replace(left=ask.left - done, held=counts[ask.job], delay_s=max(first_s - until_s, 0.0)))
        todo, now_s = rest, until_s
    return late
