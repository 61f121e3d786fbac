"""Gavel's programs solved by ECOS, the solver of its published code, whose solutions lie inside the optimal set."""

from __future__ import annotations

import importlib.util
from typing import Final

import numpy as np
from scipy import sparse

from gpusched_env.baselines.gavel.problem import Problem

# The solution of the program has a precise ratio, but imprecise shares. Without rounding, noise would break ties.
SHARE_DIGITS: Final = 5
SOLVED: Final = 0  # exit flag of ECOS: solved to full precision
CLOSE: Final = 10  # exit flag of ECOS: solved to reduced precision


def installed() -> bool:
    """Whether ECOS is installed; it is an optional dependency."""
    return importlib.util.find_spec("ecos") is not None


def least(
    objective: np.ndarray,
    rows: sparse.sparray,
    limits: np.ndarray,
    cones: int = 0,
    accepted: tuple[int, ...] = (SOLVED, CLOSE),
) -> np.ndarray | None:
    """Minimise objective . x; None if the solver finds no solution.

    The rows demand rows x <= limits; the last 3 x ``cones`` rows are cones: each three rows limits - rows x = (a, b, c)
    demand a >= sqrt(b^2 + c^2). ``accepted`` are exit flags that count as a solution.

    References
    ----------
    A. Domahidi, E. Chu, S. Boyd, "ECOS: An SOCP Solver for Embedded Systems", ECC 2013.
    """
    import ecos

    shape = {"l": rows.shape[0] - 3 * cones, "q": [3] * cones}
    found = ecos.solve(objective, sparse.csc_matrix(rows), limits, shape, verbose=False)
    return np.array(found["x"]) if found["info"]["exitFlag"] in accepted else None


def highest_level(rows: sparse.sparray, limits: np.ndarray) -> np.ndarray | None:
    """Maximise the last variable under rows x <= limits; all other variables are at least 0."""
    count = rows.shape[1] - 1
    objective = np.zeros(count + 1)
    objective[-1] = -1.0
    return least(objective, *_not_negative(rows, limits, count))


def inside(rows: sparse.sparray, limits: np.ndarray) -> np.ndarray | None:
    """Find x >= 0 with rows x <= limits, to full precision; None if the solver finds none."""
    count = rows.shape[1]
    return least(np.zeros(count), *_not_negative(rows, limits, count), accepted=(SOLVED,))


def least_finish_time_ratio(
    problem: Problem, alone_s: np.ndarray, throughput: sparse.sparray, base: sparse.sparray, limits: np.ndarray
) -> np.ndarray | None:
    """Minimise the largest (t_m + R_m / thr(m)) / D_m over X >= 0, base X <= limits, thr = throughput X.

    s_m >= 1 / thr(m) replaces the quotient: the cone (thr + s)^2 >= (thr - s)^2 + 4, as cvxpy makes it of the published
    formulation, unscaled. ``alone_s`` : float64 [M], D_m. Returns X rounded to five digits, then s, then the ratio.
    """
    jobs, count = throughput.shape
    wide = sparse.hstack([base, sparse.csr_array((base.shape[0], jobs + 1))])
    rows, bounds = _not_negative(wide, limits, count)
    inverse, ratio = sparse.eye_array(jobs), sparse.csr_array(np.full((jobs, 1), -1.0))
    ratios = sparse.hstack([sparse.csr_array((jobs, count)), inverse * (problem.steps_left / alone_s), ratio])
    sums, differences = ([-throughput, sign * inverse, sparse.csr_array((jobs, 1))] for sign in (-1.0, 1.0))
    sides = sparse.vstack([sparse.hstack(sums), sparse.hstack(differences), sparse.csr_array((jobs, count + jobs + 1))])
    cones = sides.tocsr()[np.arange(3 * jobs).reshape(3, jobs).T.ravel()]
    objective = np.zeros(count + jobs + 1)
    objective[-1] = 1.0
    all_limits = np.concatenate([bounds, -problem.age_s / alone_s, np.tile([0.0, 0.0, 2.0], jobs)])
    found = least(objective, sparse.vstack([rows, ratios, cones]), all_limits, cones=jobs)
    if found is not None:
        found[:count] = np.round(found[:count], SHARE_DIGITS)
    return found


def _not_negative(rows: sparse.sparray, limits: np.ndarray, count: int) -> tuple[sparse.sparray, np.ndarray]:
    """Append the rows x >= 0 for the first ``count`` variables."""
    signs = -sparse.eye_array(count, rows.shape[1])
    return sparse.vstack([rows, signs]), np.concatenate([limits, np.zeros(count)])
