"""Pairs of jobs on the same GPUs, among which Gavel's packed policies choose."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from gpusched_env.baselines.gavel.kinds import KindProgram
from gpusched_env.baselines.gavel.problem import Problem
from gpusched_env.baselines.gavel.program import Entries, Optimum, Program

MOST_JOBS_IN_PAIRS: Final = 64  # with more jobs, variables are (job, kind of partner), which is faster and as good


def useful(problem: Problem, pairs: np.ndarray, rates: np.ndarray) -> np.ndarray:
    """Boolean [P, R]: whether sharing helps: the normalised rates of a pair add up to more than 1, that of turns."""
    with np.errstate(divide="ignore", invalid="ignore"):
        worth = np.nan_to_num(rates / problem.rates[pairs]).sum(axis=1)
    found: np.ndarray = (worth > 1.0 + 1e-9) & possible(problem, pairs, rates)
    return found


def possible(problem: Problem, pairs: np.ndarray, rates: np.ndarray) -> np.ndarray:
    """Boolean [P, R]: whether each pair can share GPUs of each type."""
    gangs = problem.gangs[pairs]
    found: np.ndarray = (rates > 0).all(axis=1) & (gangs[:, 0] == gangs[:, 1])[:, None]
    return found


def with_pairs(problem: Problem, pairs: np.ndarray, rates: np.ndarray, worth: np.ndarray | None = None) -> Entries:
    """Return the entries of every job alone, and of every pair for which sharing can help on some type.

    ``pairs`` : int [P, 2], jobs of equal gang size; ``rates`` : float64 [P, 2, R], steps/s of each of the two together,
    0 = they do not fit; ``worth`` : Boolean [P, R], None = :func:`useful`. A job may be in any number of pairs.
    """
    worth = useful(problem, pairs, rates) if worth is None else worth
    kept = worth.any(axis=1)
    alone = Entries.alone(problem)
    return Entries(
        np.concatenate([alone.members, pairs[kept]]),
        np.concatenate([alone.rates, (rates * worth[:, None, :])[kept]]),
    )


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
    worth = (possible if as_published else useful)(problem, problem.pairs, problem.pair_rates)
    if jobs > most_in_pairs and not as_published:
        found = objective(problem, KindProgram(problem, worth))
        return None if found is None else found.shares
    entries = with_pairs(problem, problem.pairs, problem.pair_rates, worth)
    found = objective(problem, entries)
    if found is None:
        return None
    shares = np.zeros((jobs + len(problem.pairs), len(problem.gpus)))
    kept = worth.any(axis=1)
    shares[np.concatenate([np.ones(jobs, bool), kept])] = found.shares
    return shares
