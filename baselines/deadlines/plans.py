"""Plans of jobs with deadlines over the free GPUs of the future, and the minimum satisfactory share of ElasticFlow."""

from __future__ import annotations

import math
from typing import NamedTuple

from gpusched_env.baselines.deadlines.slots import TICK_S, WHOLE, Ask


class Part(NamedTuple):
    """A time in which a job has a number of GPUs."""

    start_s: float
    end_s: float  # [s] the GPUs are free from here on: the end of a slot
    gpus: int


class Plan(NamedTuple):
    """The GPUs of a job over time, when it finishes [s], and the GPU time that it takes [GPU s]."""

    parts: list[Part]
    end_s: float
    gpu_s: float

    def now(self, time_s: float) -> int:
        """Return the number of GPUs at a time [s]."""
        return sum(part.gpus for part in self.parts if part.start_s <= time_s < part.end_s)


class Free:
    """The number of free GPUs over time, a step function."""

    def __init__(self, start_s: float, gpus: int) -> None:
        self.times_s = [start_s]
        self.gpus = [gpus]

    def take(self, plan: Plan, sign: int = 1) -> None:
        """Subtract the GPUs of a plan; ``sign`` -1 adds them."""
        for part in plan.parts:
            first, end = self._cut(part.start_s), self._cut(part.end_s)
            for i in range(first, end):
                self.gpus[i] -= sign * part.gpus
        self._merge()

    def _cut(self, time_s: float) -> int:
        """Return the index of the period that begins at a time; a period is cut in two if necessary."""
        times = self.times_s
        if time_s == math.inf:
            return len(times)
        at = len(times)
        while at > 0 and times[at - 1] >= time_s:
            at -= 1
        if at == len(times) or times[at] != time_s:
            times.insert(at, time_s)
            self.gpus.insert(at, self.gpus[at - 1])
        return at

    def _merge(self) -> None:
        keep = [i for i in range(len(self.gpus)) if i == 0 or self.gpus[i] != self.gpus[i - 1]]
        self.times_s = [self.times_s[i] for i in keep]
        self.gpus = [self.gpus[i] for i in keep]

    def after(self, time_s: float) -> Free:
        """Return the part from a time on."""
        rest = Free(time_s, 0)
        first = max(i for i, start in enumerate(self.times_s) if start <= time_s)
        rest.times_s, rest.gpus = [time_s, *self.times_s[first + 1 :]], self.gpus[first:]
        return rest


class Clock(NamedTuple):
    """Rules of time of all plans [s].

    ``slot_s`` : length of a slot, at whose end jobs give GPUs back; 0 = at once. ``cost_s`` : time without progress
    when a job gets another number of GPUs. ``start_s`` : begin of a slot.
    """

    slot_s: float
    cost_s: float
    start_s: float = 0.0

    def align(self, time_s: float) -> float:
        """Return the end of the slot in which a job finishes [s]."""
        if self.slot_s == 0:
            return time_s
        return self.start_s + math.ceil((time_s - TICK_S - self.start_s) / self.slot_s) * self.slot_s


def minimum_share(ask: Ask, free: Free, clock: Clock) -> Plan | None:
    """Return the plan of a job with its minimum satisfactory share; None = the job misses its deadline with any share.

    For each size q, the free periods are walked backwards from the deadline, each with the largest free size up to q.
    The first q that reaches the work is the share: the job gets q from there on, and the next smaller size before it.
    """
    times, gpus = free.times_s, free.gpus
    last = len(times) - 1
    while last >= 0 and times[last] >= ask.deadline_s:
        last -= 1
    enough = ask.left * (1.0 - WHOLE)
    for share in range(1, len(ask.sizes)):
        done, at = 0.0, last + 1
        while at > 0 and done < enough:
            at -= 1
            end_s = times[at + 1] if at < last else ask.deadline_s
            done += ask.rates[ask.most(min(ask.sizes[share], gpus[at]))] * (end_s - times[at])
        if done >= enough:
            plan = walk(ask, free, clock, share, at)
            if plan.end_s <= ask.deadline_s + TICK_S:
                return plan
    return None


def walk(ask: Ask, free: Free, clock: Clock, share: int, begin: int) -> Plan:
    """Return the plan of a job that has a size from a period on, and the next smaller size before it."""
    parts: list[Part] = []
    left, gpu_s, held = ask.left, 0.0, ask.held
    for i, start_s in enumerate(free.times_s):
        end_s = free.times_s[i + 1] if i + 1 < len(free.times_s) else math.inf
        at = ask.most(min(ask.sizes[share if i >= begin else share - 1], free.gpus[i]))
        size, rate = ask.sizes[at], ask.rates[at]
        first_s = start_s
        if size > 0:
            first_s += clock.cost_s if size != held else ask.delay_s if i == 0 else 0.0
            finish_s = first_s + left / rate
            if finish_s <= end_s + TICK_S:
                parts.append(Part(start_s, clock.align(finish_s), size))
                return Plan(_joined(parts), finish_s, gpu_s + size * (finish_s - start_s))
            parts.append(Part(start_s, end_s, size))
            gpu_s += size * (end_s - start_s)
            left -= rate * max(end_s - first_s, 0.0)
        held = size
    return Plan(parts, math.inf, math.inf)


def _joined(parts: list[Part]) -> list[Part]:
    joined: list[Part] = []
    for part in parts:
        if joined and joined[-1].gpus == part.gpus and joined[-1].end_s == part.start_s:
            joined.append(Part(joined.pop().start_s, part.end_s, part.gpus))
        else:
            joined.append(part)
    return joined
