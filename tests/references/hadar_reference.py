"""Hadar by brute force: FIND_ALLOC, the best round, the best schedule.

No code of the authors is public. Utilities, candidates, their order and the guard against slow spreads are those of the
reconstruction in docs/hadar.md, which names its own choices. Tests compare values, so the order of equal payoffs cannot
matter. The prices are the question's; tests compute them by hand.
"""

from __future__ import annotations

import itertools
import math
from functools import cache

import numpy as np

from gpusched_env.baselines.hadar.search import Round
from gpusched_env.problem.cluster import MACHINE, NETWORK, RACK
from gpusched_env.problem.instance import Instance


def utility(job: np.void, end_s: float) -> float:
    """Worth / time since the arrival; the lower limit of 1 s is ours (docs/hadar.md)."""
    return float(job["worth"]) / max(end_s - float(job["since_s"]), 1.0)


def rate_on(question: Round, i: int, counts: np.ndarray) -> float:
    """Rate of job ``i`` with a given number of GPUs of each node: that of its slowest type."""
    used = np.flatnonzero(counts)
    one_rack = len(set(question.nodes["rack"][used].tolist())) == 1
    tier = MACHINE if len(used) == 1 else RACK if one_rack else NETWORK
    return float(question.rates[question.jobs["job_class"][i], tier, question.nodes["gpu_type"][used]].min())


def find(question: Round, i: int, free: np.ndarray) -> float:
    """Largest payoff of FIND_ALLOC's candidates, by their definition; 0 = no candidate pays."""
    job, nodes = question.jobs[i], question.nodes
    alone = question.rates[job["job_class"], job["tier"], nodes["gpu_type"]]
    price = question.prices[np.arange(len(nodes)), nodes["gpus"] - free]
    candidates = [np.eye(len(nodes), dtype=int)[node] * job["gpus"] for node in np.flatnonzero(free >= job["gpus"])]
    for threshold in sorted(set(alone.tolist()), reverse=True):
        counts = np.zeros(len(nodes), int)
        for node in np.lexsort((np.arange(len(nodes)), -free, price)).tolist():
            if alone[node] >= threshold:
                counts[node] = min(free[node], job["gpus"] - counts.sum())
        if counts.sum() == job["gpus"] and (counts > 0).sum() >= 2:
            candidates.append(counts)
    best = 0.0
    for counts in candidates:
        rate = rate_on(question, i, counts)
        if rate > 0 and ((counts > 0).sum() == 1 or rate >= job["least_rate"]):
            rounds = math.ceil(job["remaining"] / rate / question.round_s)
            end_s = question.now_s + job["remaining"] / rate
            best = max(best, utility(job, end_s) - rounds * float((price * counts).sum()))
    return best


def splits(gang: int, free: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Every way to take a gang from the free GPUs."""
    return [counts for counts in itertools.product(*(range(n + 1) for n in free)) if sum(counts) == gang]


def best_round(question: Round) -> float:
    """Largest sum of utilities over all placements of all sets of jobs in one round, without prices."""

    def best(i: int, free: tuple[int, ...]) -> float:
        if i == len(question.jobs):
            return 0.0
        value = best(i + 1, free)
        for counts in splits(int(question.jobs["gpus"][i]), free):
            rate = rate_on(question, i, np.array(counts))
            if rate > 0:
                end_s = question.now_s + float(question.jobs["remaining"][i]) / rate
                value = max(
                    value, utility(question.jobs[i], end_s) + best(i + 1, tuple(np.subtract(free, counts).tolist()))
                )
        return value

    return best(0, tuple(question.nodes["gpus"].tolist()))


def best_schedule(instance: Instance, worth: np.ndarray, round_s: float) -> float:
    """Largest sum of ``worth`` / JCT over all schedules in rounds; all jobs arrive at 0, and moves are free."""
    rates, classes = 1 / instance.iteration_s, instance.job_class
    gangs, nodes = instance.workload.jobs["gpus"], instance.cluster.nodes
    capacity = tuple(nodes["gpus"].tolist())

    def rate(job: int, counts: tuple[int, ...]) -> float:
        used = np.flatnonzero(counts)
        tier = MACHINE if len(used) == 1 else NETWORK  # one rack a node, so all spread placements have the same rate
        return float(rates[classes[job], tier, nodes["gpu_type"][used]].min())

    def rounds(job: int, free: tuple[int, ...]) -> list[tuple[float, ...]]:
        """Rates of the jobs from ``job`` on, for every way to use the free GPUs."""
        if job == len(gangs):
            return [()]
        found = {(0.0, *rest) for rest in rounds(job + 1, free)}
        for counts in splits(int(gangs[job]), free):
            left = tuple(np.subtract(free, counts).tolist())
            found |= {(rate(job, counts), *rest) for rest in rounds(job + 1, left)}
        return sorted(found)

    choices = rounds(0, capacity)
    longest_s = instance.iterations / rates.min(axis=(1, 2))[classes]
    last = int(np.ceil(longest_s / round_s).sum())  # enough to run the jobs one after the other on the slowest type

    @cache
    def best(remaining: tuple[float, ...], number: int) -> float:
        if not any(remaining) or number == last:
            return 0.0
        value = 0.0
        for chosen in choices:
            total, after = 0.0, []
            for job, (left, speed) in enumerate(zip(remaining, chosen, strict=True)):
                done = left > 0 and speed * round_s >= left * (1 - 1e-12)
                if done:
                    total += worth[job] / (number * round_s + left / speed)
                after.append(0.0 if done else round(left - speed * round_s, 6) if left > 0 else 0.0)
            if tuple(after) != remaining:
                value = max(value, total + best(tuple(after), number + 1))
        return value

    return best(tuple(instance.iterations.tolist()), 0)
