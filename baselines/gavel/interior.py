"""Gavel's programs as its published code solves them: by ECOS, whose solutions lie inside the optimal set."""

from __future__ import annotations

import importlib.util
from typing import Final

import numpy as np
from scipy import sparse

from gpusched_env.baselines.gavel.problem import Problem

# A precise ratio leaves shares loose in their last digits, and jobs that should tie would be ordered by noise.
SHARE_DIGITS: Final = 5
SOLVED: Final = 0  # exit flags of ECOS: to full precision
CLOSE: Final = 10  # or close to it


def installed() -> bool:
    """Whether the solver is there: it is an extra."""
    return importlib.util.find_spec("ecos") is not None


def least(
    objective: np.ndarray,
    rows: sparse.sparray,
    limits: np.ndarray,
    cones: int = 0,
    accepted: tuple[int, ...] = (SOLVED, CLOSE),
) -> np.ndarray | None:
    """Minimise objective . x; None if the solver finds no solution.

    Parameters
    ----------
    objective : float64 [N]
    rows, limits : rows x <= limits, float64 [L + 3 cones, N] and [L + 3 cones]
    cones : of the last rows each three ask that limits - rows x = (a, b, c) has a >= sqrt(b^2 + c^2)
    accepted : exit flags that count as a solution

    References
    ----------
    A. Domahidi, E. Chu, S. Boyd, "ECOS: An SOCP Solver for Embedded Systems", ECC 2013.
    """
    import ecos

    shape = {"l": rows.shape[0] - 3 * cones, "q": [3] * cones}
    found = ecos.solve(objective, sparse.csc_matrix(rows), limits, shape, verbose=False)
    return np.array(found["x"]) if found["info"]["exitFlag"] in accepted else None


def highest_level(rows: sparse.sparray, limits: np.ndarray) -> np.ndarray | None:
    """Maximise the last variable; all others are at least 0."""
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

    s_m >= 1 / thr(m) stands for the quotient: a cone, (thr + s)^2 >= (thr - s)^2 + 4. The program is what cvxpy makes
    of the published one, unscaled: an interior solution depends on that.

    Parameters
    ----------
    alone_s : float64 [M], D_m: seconds that the job takes on an equal share

    Returns
    -------
    float64 : X to five digits, then s, then the ratio
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
    """Add that the first variables are at least 0."""
    signs = -sparse.eye_array(count, rows.shape[1])
    return sparse.vstack([rows, signs]), np.concatenate([limits, np.zeros(count)])
