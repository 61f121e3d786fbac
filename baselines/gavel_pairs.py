"""Two jobs on the same GPUs: the pairs that Gavel's packed policies may choose."""

from __future__ import annotations

import numpy as np

from gpusched_env.baselines.gavel_problem import Problem
from gpusched_env.baselines.gavel_program import Entries


def with_pairs(problem: Problem, pairs: np.ndarray, rates: np.ndarray) -> Entries:
    """Every job alone, and every pair that is worth its GPUs somewhere.

    Parameters
    ----------
    pairs : int [P, 2], positions of two jobs of equal gang size
    rates : float64 [P, 2, R], steps a second of each of the two together; 0 = they do not fit

    Notes
    -----
    On a type where the two together get no more than one GPU's worth of work done, taking turns serves them as well:
    the pair is dropped there, which loses nothing. Constraints are one row a job, so jobs may have any number of pairs.
    """
    alone = Entries.alone(problem)
    gangs = problem.gangs[pairs]
    with np.errstate(divide="ignore", invalid="ignore"):
        worth = np.nan_to_num(rates / problem.rates[pairs]).sum(axis=1)
    useful = (worth > 1.0 + 1e-9) & (rates > 0).all(axis=1) & (gangs[:, 0] == gangs[:, 1])[:, None]
    kept = useful.any(axis=1)
    return Entries(
        np.concatenate([alone.members, pairs[kept]]),
        np.concatenate([alone.rates, (rates * useful[:, None, :])[kept]]),
    )
