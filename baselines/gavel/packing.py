"""Gavel's packed policies without a program: FIFO whose queue joins running jobs, and Gandiva's random pairs."""

from __future__ import annotations

import random
from typing import Final

import numpy as np

from gpusched_env.baselines.gavel.problem import Problem
from gpusched_env.baselines.gavel.queues import one_type_each, serve_fastest

JOINS_FROM: Final = 1.5  # sum of normalised rates above which a job of the queue joins a running one
STAYS_FROM: Final = 1.0  # sum of normalised rates, over both jobs and all types, below which a pair is dissolved


def padded(problem: Problem, shares: np.ndarray) -> np.ndarray:
    """float64 [M + P, R]: shares of single jobs, and none of pairs."""
    assert problem.pairs is not None
    return np.concatenate([shares, np.zeros((len(problem.pairs), shares.shape[1]))])


def pair_numbers(problem: Problem) -> np.ndarray:
    """int64 [M, M]: which pair two jobs are, the earlier one first; -1 = they cannot share GPUs."""
    assert problem.pairs is not None
    numbers = np.full((len(problem.gangs), len(problem.gangs)), -1)
    numbers[tuple(problem.pairs.T)] = np.arange(len(problem.pairs))
    return numbers


def normalised(problem: Problem) -> np.ndarray:
    """float64 [P, 2, R]: rates of the members of each pair over their rates alone; 0 where one cannot run at all."""
    assert problem.pairs is not None
    assert problem.pair_rates is not None
    alone = problem.rates[problem.pairs]
    found: np.ndarray = np.divide(problem.pair_rates, alone, out=np.zeros_like(problem.pair_rates), where=alone > 0)
    return found


def fifo_packed(problem: Problem, order: list[int]) -> np.ndarray:
    """FIFO on the fastest type; then the heads of the queue join the single running jobs with which they do best.

    A job joins one of equal gang size if their normalised rates sum to more than 1.5, and the queue stops at the first
    that finds none. Jobs that were passed over do not join.

    Parameters
    ----------
    order : columns of the GPU types; of equally fast types the first counts

    References
    ----------
    stanford-futuredata/gavel, scheduler/policies/fifo.py. There, of gangs, the first job that fits nowhere is passed
    over when the queue joins; here it is the first to join.
    """
    assert problem.pairs is not None
    type_of, stop = serve_fastest(problem, order)
    shares = padded(problem, one_type_each(problem, type_of))
    jobs = len(problem.gangs)
    worth = np.vstack([normalised(problem).sum(axis=1), np.zeros((1, shares.shape[1]))])  # the last: no such pair
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
    """Random pairs of jobs share time where jobs want more GPUs than there are (Xiao et al., OSDI 2018), as in Gavel.

    While all jobs fit, each has an equal share of each type. Else jobs without a partner are grouped at random, and
    pairs and the jobs that are left have equal shares. A pair is dissolved at the next solution if its normalised
    rates, summed over both jobs and all types, are below 1, or if one of them is 0: so it may stay where every type
    loses.

    Parameters
    ----------
    seed : of the draws

    References
    ----------
    stanford-futuredata/gavel, scheduler/policies/gandiva.py.
    """

    def __init__(self, seed: int = 0) -> None:
        self._random = random.Random(seed)
        self._partner: dict[int, int] = {}  # by row, both ways

    def __call__(self, problem: Problem) -> np.ndarray:
        """Give X."""
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
        chosen = [row for row in rows if row < self._partner.get(row, rows[-1] + 1)]  # the first of each pair
        for row in chosen:
            part = problem.gpus / len(chosen) / problem.gangs[at[row]]
            part = part / max(1.0, part.sum())
            if row not in self._partner:
                shares[at[row]] = part
            elif (pair := number[at[row], at[self._partner[row]]]) >= 0:  # others can share GPUs of no type
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
