"""The no-preempt loop of SJF-BSBF's prototype without the benefit test (SJF-FFS); docs/sjf_bsbf.md, The algorithm.

Placement ``bsbf``, whole batches, one rack. It shares no code with the simulator: jobs are followed from event to
event. From the prototype (Lai-JX/Scheduler, cluster/switch.py, ``merge_alloc_res``): nodes by their number of jobs,
free GPUs before shared ones, at most two jobs on a GPU. Ours, docs/sjf_bsbf.md: the largest xi of its co-located jobs
slows a job; equal jobs by arrival, then by id.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np


class Played(NamedTuple):
    """When each job starts and ends [s], and on which GPUs."""

    start_s: np.ndarray
    end_s: np.ndarray
    gpus: list[list[int]]


def by_fewest_jobs(residents: list[list[int]], per_node: int) -> list[int]:
    """All GPUs in order: nodes with the fewest distinct jobs first; ties: by node, then by index."""
    nodes = [residents[first : first + per_node] for first in range(0, len(residents), per_node)]
    jobs = [len({job for gpu in node for job in gpu}) for node in nodes]
    order = sorted(range(len(nodes)), key=lambda node: (jobs[node], node))
    return [node * per_node + gpu for node in order for gpu in range(per_node)]


def choose(residents: list[list[int]], per_node: int, gang: int, memory: np.ndarray, job: int) -> list[int]:
    """GPUs for a job now; empty = it stays pending."""
    order = by_fewest_jobs(residents, per_node)
    free = [gpu for gpu in order if not residents[gpu]]
    if len(free) >= gang:
        return free[:gang]
    alone = [gpu for gpu in order if len(residents[gpu]) == 1]
    shared = [gpu for gpu in alone if memory[residents[gpu][0]] + memory[job] <= 1.0]
    return (free + shared)[:gang] if len(free) + len(shared) >= gang else []


def play(
    arrival_s: np.ndarray, gangs: np.ndarray, alone_s: np.ndarray, nodes: int, per_node: int, xi: np.ndarray,
    memory: np.ndarray, round_s: float = 0.0,
) -> Played:  # fmt: skip
    """Play jobs with given run times alone; ``xi[a, b]`` = slowdown of a beside b, ``memory`` = part of a GPU."""
    jobs = len(arrival_s)
    residents: list[list[int]] = [[] for _ in range(nodes * per_node)]
    left, start_s, end_s = alone_s.astype(float), np.full(jobs, math.nan), np.full(jobs, math.nan)
    gpus: list[list[int]] = [[] for _ in range(jobs)]
    now, next_round = 0.0, round_s
    while np.isnan(end_s).any():
        running = np.flatnonzero(~np.isnan(start_s) & np.isnan(end_s)).tolist()
        slow = {
            job: max(xi[job, other] if other != job else 1.0 for gpu in gpus[job] for other in residents[gpu])
            for job in running
        }
        ends = {job: now + left[job] * slow[job] for job in running}
        later = arrival_s[arrival_s > now]
        then = min([*ends.values(), *later[:1].tolist(), next_round if round_s else math.inf])
        for job in running:
            left[job] -= (then - now) / slow[job]
            if ends[job] == then:
                end_s[job] = then
                for gpu in gpus[job]:
                    residents[gpu].remove(job)
        now = then
        if round_s:
            if now < next_round:
                continue
            next_round += round_s
        pending = np.flatnonzero((arrival_s <= now) & np.isnan(start_s)).tolist()
        for job in sorted(pending, key=lambda job: (alone_s[job], arrival_s[job], job)):
            gpus[job] = choose(residents, per_node, int(gangs[job]), memory, job)
            if gpus[job]:
                start_s[job] = now
                for gpu in gpus[job]:
                    residents[gpu].append(job)
    return Played(start_s, end_s, gpus)
