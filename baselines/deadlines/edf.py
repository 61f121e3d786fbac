"""EDF: earliest deadline first, each job on as many GPUs as it can use; with or without admission control."""

from __future__ import annotations

import math
from dataclasses import dataclass

from gpusched_env.baselines.deadlines.plans import Clock
from gpusched_env.baselines.deadlines.slots import TICK_S, Ask, SlotScheduler, change_cost_s
from gpusched_env.simulator import ClairvoyantView


@dataclass
class EarliestDeadlineFirst(SlotScheduler):
    """Give each job, earliest deadline first, its largest useful size that is free; preempt the others.

    Parameters
    ----------
    admission : True = refuse the arrivals of a slot if, with them, a job would miss a deadline that it would keep
        without them, or one of them would miss its own
    slot_s : length of a slot [s], as in ElasticFlow; 0 = every event is handled at once

    Notes
    -----
    The most useful size is that with the largest rate. Jobs without deadlines come last, by arrival; admission never
    refuses them. Ties: the earliest arrival. A decision takes O(n), with admission O(n^2), n = jobs in the system.

    References
    ----------
    gudiandian/ElasticFlow, ``ElasticFlow/scheduler``, policies ``edf`` and ``edf-accessctrl`` (Apache-2.0).
    """

    admission: bool = False
    slot_s: float = 60.0

    @property
    def name(self) -> str:
        """Name in tables."""
        return "edf-admission" if self.admission else "edf"

    def counts(self, view: ClairvoyantView, now_s: float, jobs: list[Ask], arrivals: set[int]) -> dict[int, int]:
        """Admit, and grant GPUs in the order of the deadlines."""
        order = sorted(jobs, key=lambda ask: (ask.deadline_s, ask.job))
        gpus = view.cluster.gpus
        new = {ask.job for ask in jobs if ask.job in arrivals and ask.deadline_s < math.inf}
        if self.admission and new:
            clock = Clock(self._slot_s, change_cost_s(view))
            old = [ask for ask in order if ask.job not in new]
            if not missed(order, gpus, now_s, clock) <= missed(old, gpus, now_s, clock):
                arrivals -= new
                order = old
        return granted(order, gpus)


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
