"""Pairs of jobs on the same GPUs, among which Gavel's packed policies choose."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from gpusched_env.baselines.gavel.kinds import KindProgram
from gpusched_env.baselines.gavel.problem import Problem
from gpusched_env.baselines.gavel.program import Entries, Optimum, Program

MOST_JOBS_IN_PAIRS: Final = 64  # with more jobs, variables are (job, kind of partner), which is faster and as good


def worth_sharing(problem: Problem, as_published: bool) -> np.ndarray:
    """Boolean [P, R]: whether each pair of the problem may share GPUs of each type.

    Both must run there, and their normalised rates must add up to more than 1, that of turns; not so as published.
    """
    assert problem.pairs is not None
    assert problem.pair_rates is not None
    gangs = problem.gangs[problem.pairs]
    possible: np.ndarray = (problem.pair_rates > 0).all(axis=1) & (gangs[:, 0] == gangs[:, 1])[:, None]
    if as_published:
        return possible
    with np.errstate(divide="ignore", invalid="ignore"):
        worth = np.nan_to_num(problem.pair_rates / problem.rates[problem.pairs]).sum(axis=1)
    return possible & (worth > 1.0 + 1e-9)


def packed_entries(problem: Problem, worth: np.ndarray) -> Entries:
    """Return the entries of every job alone, and of every pair on the types where it is ``worth`` sharing."""
    assert problem.pairs is not None
    assert problem.pair_rates is not None
    kept, alone = worth.any(axis=1), Entries.alone(problem)
    rates = (problem.pair_rates * worth[:, None, :])[kept]
    return Entries(np.concatenate([alone.members, problem.pairs[kept]]), np.concatenate([alone.rates, rates]))


def solve_packed(
    problem: Problem,
    objective: Callable[[Problem, Entries | Program], Optimum | None],
    most_in_pairs: int = MOST_JOBS_IN_PAIRS,
    as_published: bool = False,
) -> np.ndarray | None:
    """float64 [M + P, R]: shares of single jobs, then of the problem's pairs; None if the solver finds no solution.

    Up to ``most_in_pairs`` jobs, or ``as_published``, a variable is a pair on a type; beyond it, a job beside a kind of
    partner (:class:`KindProgram`). Published: also pairs that sharing cannot help, as an interior solution depends on
    these.
    """
    assert problem.pairs is not None
    assert problem.pair_rates is not None
    jobs = len(problem.gangs)
    worth = worth_sharing(problem, as_published)
    if jobs > most_in_pairs and not as_published:
        found = objective(problem, KindProgram(problem, worth))
        return None if found is None else found.shares
    found = objective(problem, packed_entries(problem, worth))
    if found is None:
        return None
    shares = np.zeros((jobs + len(problem.pairs), len(problem.gpus)))
    shares[np.concatenate([np.ones(jobs, bool), worth.any(axis=1)])] = found.shares
    return shares
