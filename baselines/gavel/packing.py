"""Gavel's packed policies without a program: FIFO whose queue joins running jobs, and Gandiva's random pairs."""

from __future__ import annotations

import random
from typing import Final

import numpy as np

from gpusched_env.baselines.gavel.problem import Problem
from gpusched_env.baselines.gavel.queues import one_type_each, serve_fastest

JOINS_FROM: Final = 1.5  # least sum of normalised rates for a queued job to join a running one
STAYS_FROM: Final = 1.0  # least sum of normalised rates, over both jobs and all types, for a pair to stay


def padded(problem: Problem, shares: np.ndarray) -> np.ndarray:
    """float64 [M + P, R]: the shares of single jobs, and zeros for pairs."""
    assert problem.pairs is not None
    return np.concatenate([shares, np.zeros((len(problem.pairs), shares.shape[1]))])


def pair_numbers(problem: Problem) -> np.ndarray:
    """int64 [M, M]: index of the pair of two jobs, the earlier job first; -1 = they cannot share GPUs."""
    assert problem.pairs is not None
    numbers = np.full((len(problem.gangs), len(problem.gangs)), -1)
    numbers[tuple(problem.pairs.T)] = np.arange(len(problem.pairs))
    return numbers


def normalised(problem: Problem) -> np.ndarray:
    """float64 [P, 2, R]: rate of each member of each pair / its rate alone; 0 where that member cannot run alone."""
    assert problem.pairs is not None
    assert problem.pair_rates is not None
    alone = problem.rates[problem.pairs]
    found: np.ndarray = np.divide(problem.pair_rates, alone, out=np.zeros_like(problem.pair_rates), where=alone > 0)
    return found


def fifo_packed(problem: Problem, order: list[int]) -> np.ndarray:
    """FIFO on the fastest type; then each queued job joins a running job of equal gang size that has no partner.

    The partner has the largest sum of the two normalised rates, which must exceed 1.5, else no later job joins. Jobs
    that FIFO skipped do not join. stanford-futuredata/gavel, scheduler/policies/fifo.py; there the first gang for which
    no type has enough GPUs does not join either.
    """
    assert problem.pairs is not None
    type_of, stop = serve_fastest(problem, order)
    shares = padded(problem, one_type_each(problem, type_of))
    jobs = len(problem.gangs)
    worth = np.vstack([normalised(problem).sum(axis=1), np.zeros((1, shares.shape[1]))])  # last row: no such pair
    number = pair_numbers(problem)
    singles = np.flatnonzero(shares[:jobs].any(axis=1))
    columns = shares[singles].argmax(axis=1)
    for job in range(stop, jobs):
        if not len(singles):
            break
        pairs = number[singles, job]
        best = int(worth[pairs, columns].argmax())
        pair, column = pairs[best], columns[best]
        if worth[pair, column] <= JOINS_FROM:
            break
        shares[singles[best], column], shares[jobs + pair, column] = 0.0, 1.0
        singles, columns = np.delete(singles, best), np.delete(columns, best)
    return shares


class Gandiva:
    """Gandiva in Gavel's form: if jobs request more GPUs than there are, random pairs of jobs share GPUs.

    If all jobs fit, each job has an equal share of each type. Otherwise jobs without a partner are paired at random,
    and the pairs and the remaining single jobs have equal shares. At the next solution, a pair is dissolved if one of
    its normalised rates is 0, or if the sum of these rates over both jobs and all types is below 1. So a pair may stay
    although sharing is worse than taking turns on every type.

    Parameters
    ----------
    seed : seed of the draws

    References
    ----------
    W. Xiao et al., "Gandiva", OSDI 2018; stanford-futuredata/gavel, scheduler/policies/gandiva.py.
    """

    def __init__(self, seed: int = 0) -> None:
        self._random = random.Random(seed)
        self._partner: dict[int, int] = {}  # by row, both ways

    def __call__(self, problem: Problem) -> np.ndarray:
        """Compute X."""
        assert problem.pairs is not None
        rows = problem.rows.tolist()
        at = {row: job for job, row in enumerate(rows)}
        number = pair_numbers(problem)
        together = normalised(problem)
        for row, other in list(self._partner.items()):
            known = row in at and other in at
            pair = number[at[min(row, other)], at[max(row, other)]] if known else -1
            if pair < 0 or (together[pair] <= 0).any() or together[pair].sum() < STAYS_FROM:
                del self._partner[row]
        if problem.gangs.sum() <= problem.gpus.sum():
            return padded(problem, problem.isolated)
        self._group([row for row in rows if row not in self._partner], at, problem.gangs)
        shares = padded(problem, np.zeros_like(problem.rates))
        # the first member of each pair, and single jobs
        chosen = [row for row in rows if row < self._partner.get(row, rows[-1] + 1)]
        for row in chosen:
            part = problem.gpus / len(chosen) / problem.gangs[at[row]]
            part = part / max(1.0, part.sum())
            if row not in self._partner:
                shares[at[row]] = part
            elif (pair := number[at[row], at[self._partner[row]]]) >= 0:  # pair -1 shares GPUs of no type
                shares[len(rows) + pair] = part
        return shares

    def _group(self, unpaired: list[int], at: dict[int, int], gangs: np.ndarray) -> None:
        for _ in range(len(unpaired)):
            if len(unpaired) < 2:
                break
            first, second = self._random.sample(unpaired, 2)
            if gangs[at[first]] != gangs[at[second]]:
                continue
            unpaired.remove(first)
            unpaired.remove(second)
            self._partner |= {first: second, second: first}
