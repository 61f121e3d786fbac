"""ElasticFlow's simulator, policies ``edf`` and ``edf-accessctrl``, without change costs: written from its source.

Source: pkusys/ElasticFlow, ``ElasticFlow/scheduler`` (Apache-2.0): ``scheduler.py`` (``edf_sim_allocation``,
``EDF_estimate_all_jobs``, ``one_queue_edf_sim_jobs``, ``one_queue_edf_sim_jobs_access_control``), ``jobs.py``
(``add_job``, ``run_all_jobs``, the events) and ``utils.py`` (``align_to_time_slot``). Its rules, oddities included:

* The decision points are events, arrivals and ends. One that follows another within a slot waits until the slot of
  *that* one is over; slots have no common origin.
* A job may use at most the largest number of GPUs that its table has, 64 and its batch, even where fewer are faster.
* A forecast walks through the jobs in the order of their deadlines. Ends are rounded up to seconds. GPUs return at the
  first multiple of a slot after the end, counted from now; if another return is forecast at that time, it is lost.
* Admission tests the arrivals of an event one by one, in the order of their submission, and declines one if, with it,
  any job in the system would miss its deadline.

Placement is left out: gangs and machines are powers of two, so that every set of gangs that has enough GPUs fits.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

SLOT_S = 60


@dataclass(eq=False)
class Job:
    """A job of a list; times in seconds, ``rates`` = iterations per second by number of GPUs, ascending."""

    submit_s: int
    left: float
    deadline_s: int
    rates: dict[int, float]
    batch: int
    gpus: int = 0
    end_s: int = 0
    started: bool = False
    next_end_s: int = 0
    plan: dict[int, int] = field(default_factory=dict)

    @property
    def most(self) -> int:
        return min(64, self.batch, max(self.rates))


@dataclass(eq=False)
class Event:
    time_s: int
    starts: list[Job] = field(default_factory=list)
    ends: list[Job] = field(default_factory=list)


class Simulator:
    """A run of a list; ``met`` holds the jobs that ended by their deadlines, ``missed`` the others."""

    def __init__(self, jobs: list[Job], gpus: int, admission: bool) -> None:
        self.gpus, self.admission = gpus, admission
        self.present: list[Job] = []  # in the system, waiting jobs included
        self.met: list[Job] = []
        self.missed: list[Job] = []
        self.events: list[Event] = []
        for job in sorted(jobs, key=lambda job: job.submit_s):
            self.event(job.submit_s).starts.append(job)

    def play(self) -> float:
        """Return the share of deadlines met."""
        elapsed_s, now_s = 0, self.events[0].time_s
        while self.events:
            self.run(elapsed_s, now_s)
            event = self.events[0]
            for job in event.ends:
                self.present.remove(job)
                (self.missed if job.end_s > job.deadline_s else self.met).append(job)
            if self.admission:
                self.admit(event)
            else:
                self.forecast(self.present + event.starts, now_s)
                self.present += event.starts
                self.apply(self.present, now_s)
            self.events.remove(event)
            if not self.events:
                break
            self.merge(now_s)
            elapsed_s, now_s = self.events[0].time_s - now_s, self.events[0].time_s
        assert not self.present
        return len(self.met) / (len(self.met) + len(self.missed))

    def run(self, elapsed_s: int, now_s: int) -> None:
        for job in self.present:
            if job.gpus == 0:
                continue
            seconds = elapsed_s - max(now_s - job.end_s, 0)
            rate = job.rates[job.gpus]
            if job.left <= seconds * rate and job.end_s > now_s:  # the forecast was too late
                begin_s = now_s - elapsed_s
                self.move(job, now_s)
                job.end_s = begin_s + math.ceil(job.left / rate)
            job.left -= seconds * rate

    def admit(self, event: Event) -> None:
        now_s, changed = event.time_s, False
        for job in event.starts:
            if self.forecast([*self.present, job], now_s):
                self.present.append(job)
                self.apply(self.present, now_s)
                changed = True
            else:
                self.missed.append(job)
        if not changed:
            self.forecast(self.present, now_s)
            for job in self.present:
                job.gpus = job.plan[now_s]
            # the code leaves the end of a job that it preempts here as it was
            self.apply([job for job in self.present if job.gpus > 0], now_s)

    def apply(self, jobs: list[Job], now_s: int) -> None:
        for job in jobs:
            job.gpus = job.plan[now_s]
            if job.started:
                self.move(job, job.next_end_s)
            elif job.gpus > 0:
                job.started, job.end_s = True, job.next_end_s
                self.event(job.end_s).ends.append(job)

    def forecast(self, jobs: list[Job], now_s: int) -> bool:
        """Plan all jobs; return whether all meet their deadlines."""
        jobs.sort(key=lambda job: job.deadline_s)
        free = {now_s: self.gpus}
        timely = True
        for job in jobs:
            timely = self.plan(job, now_s, free) and timely
            steps = sorted(free.items())
            free = dict(step for step, before in zip(steps, [(0, -1), *steps], strict=False) if step[1] != before[1])
        return timely

    def plan(self, job: Job, now_s: int, free: dict[int, int]) -> bool:
        """Plan a job over the step function of free GPUs, and take its GPUs from it."""
        most, left, timely = min(job.most, self.gpus), job.left, True
        times_s = sorted(free)
        job.plan = {}
        for begin_s, until_s in zip(times_s, [*times_s[1:], math.inf], strict=True):
            last = until_s == math.inf
            available = self.gpus if last else free[begin_s]  # the code takes it for granted that all jobs have ended
            gpus = most if available >= most else max((size for size in job.rates if size <= available), default=0)
            job.plan[begin_s] = gpus
            if gpus > 0:
                end_s = math.ceil(begin_s + left / job.rates[gpus])
                if end_s <= until_s:
                    before = self.gpus - gpus if last else free[begin_s]
                    aligned_s = now_s + math.ceil((end_s - now_s) / SLOT_S) * SLOT_S
                    free[begin_s] = available - gpus
                    if last:
                        free[aligned_s] = self.gpus
                    elif end_s not in free:
                        free[aligned_s] = before
                    job.next_end_s = end_s
                    return timely and end_s <= job.deadline_s
                free[begin_s] -= gpus
                left -= (until_s - begin_s) * job.rates[gpus]
            timely = timely and until_s <= job.deadline_s
        raise AssertionError("a job without an end")

    def merge(self, now_s: int) -> None:
        """Put off the events of this slot until its end."""
        self.events.sort(key=lambda event: event.time_s)
        first = self.events[0]
        following_s = first.time_s
        while following_s - now_s <= SLOT_S and len(self.events) > 1:
            first.time_s = now_s + SLOT_S
            second = self.events[1]
            if second.time_s - now_s > SLOT_S:
                break
            following_s = second.time_s
            first.starts += second.starts
            first.ends += second.ends
            self.events.remove(second)

    def event(self, time_s: int) -> Event:
        for event in self.events:
            if event.time_s == time_s:
                return event
        self.events.append(Event(time_s))
        return self.events[-1]

    def move(self, job: Job, end_s: int) -> None:
        """Give a started job another end."""
        if job.end_s == end_s:
            return
        for event in self.events:
            if event.time_s == job.end_s and job in event.ends:
                event.ends.remove(job)
                if not event.starts and not event.ends:
                    self.events.remove(event)
                break
        job.end_s = end_s
        ends = self.event(end_s).ends
        if job not in ends:
            ends.append(job)
