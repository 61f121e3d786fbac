"""Brute force: the least makespan of a few contending gangs, over every choice of servers at every event.

It shares no code with the package: rates follow from SJF-BCO (MobiHoc 2022), section 4.1.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from network_interference import degradation, straddling


@dataclass(frozen=True)
class Gangs:
    """A few gangs that arrive at time 0, on servers behind one switch; k-way contention, no overlap.

    Parameters
    ----------
    sizes : GPUs of each server
    gangs : GPUs of each gang
    iterations, compute_s : of each gang
    wire_bytes : over each edge of the gang's ring
    inside_Bps, between_Bps, xi1, alpha : as in Contention and TopologySpec; clamped
    """

    sizes: tuple[int, ...]
    gangs: tuple[int, ...]
    iterations: tuple[float, ...]
    compute_s: tuple[float, ...]
    wire_bytes: tuple[float, ...]
    inside_Bps: float
    between_Bps: float
    xi1: float
    alpha: float

    def tau_s(self, placed: dict[int, tuple[int, ...]]) -> dict[int, float]:
        """Seconds of one iteration of each running gang, from its GPUs on each server."""
        rows = sorted(placed)
        found = {}
        for job, contenders in zip(rows, straddling([placed[job] for job in rows]), strict=True):
            # at least one contender: ours, because with eq. 7 alone a gang could be faster than alone (docs/network.md)
            loss = degradation(max(1.0, self.xi1 * contenders), self.alpha)
            rate = self.between_Bps / loss if contenders else self.inside_Bps
            found[job] = self.compute_s[job] + self.wire_bytes[job] / rate
        return found

    def bounds_s(self) -> np.ndarray:
        """float64 [2, J]: least and largest seconds of one iteration, tau^l and tau^u."""
        worst = degradation(max(1.0, self.xi1 * max(self.sizes)), self.alpha)
        wire, compute = np.array(self.wire_bytes), np.array(self.compute_s)
        return np.array([compute + wire / self.inside_Bps, compute + wire / self.between_Bps * worst])

    def places(self, job: int, free: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
        """All numbers of GPUs on each server that add up to a gang."""
        for counts in itertools.product(*(range(count + 1) for count in free)):
            if sum(counts) == self.gangs[job]:
                yield counts


def least_makespan_s(problem: Gangs) -> float:
    """Least makespan over all schedules that start gangs at time 0 or at the end of another gang."""
    best = np.inf

    def play(now: float, left: dict[int, float], running: dict[int, tuple[int, ...]]) -> None:
        nonlocal best
        if now >= best:
            return
        if not left:
            best = now
            return
        waiting = [job for job in left if job not in running]
        used = np.array(list(running.values()), int).reshape(-1, len(problem.sizes)).sum(axis=0)
        for start in every_start(waiting, tuple((np.array(problem.sizes) - used).tolist())):
            active = running | start
            if not active:
                continue
            tau = problem.tau_s(active)
            seconds = min(left[job] * tau[job] for job in active)
            after = {job: n - (seconds / tau[job] if job in active else 0.0) for job, n in left.items()}
            after = {job: n for job, n in after.items() if n > 1e-9}
            play(now + seconds, after, {job: place for job, place in active.items() if job in after})

    def every_start(waiting: list[int], free: tuple[int, ...]) -> Iterator[dict[int, tuple[int, ...]]]:
        if not waiting:
            yield {}
            return
        yield from every_start(waiting[1:], free)
        for place in problem.places(waiting[0], free):
            rest = tuple(have - take for have, take in zip(free, place, strict=True))
            yield from ({waiting[0]: place} | others for others in every_start(waiting[1:], rest))

    play(0.0, dict(enumerate(problem.iterations)), {})
    return best
