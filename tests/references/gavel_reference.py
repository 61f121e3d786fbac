"""Gavel's programs in another formulation: dense, unscaled, rates as variables, by an interior-point solver.

Water filling by one probe a job (a choice of docs/gavel.md; the published code solves a program with whole numbers),
finish-time fairness by plain bisection. Programs: Narayanan et al., OSDI 2020. Only optimal values are compared, so the
solution that a solver chooses, and how its shares are rounded, cannot matter.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import linprog

from gpusched_env.baselines.gavel.problem import Problem

Array = np.ndarray


def feasible_set(problem: Problem) -> tuple[Array, Array, Array, Array, int]:
    """Variables X [M R], thr [M], t; inequality and equality rows as (A, b, E, f), and the number of variables."""
    jobs, types = problem.rates.shape
    size = jobs * types + jobs + 1
    rows, limits = [], []
    for m in range(jobs):
        row = np.zeros(size)
        row[m * types : (m + 1) * types] = 1.0
        rows.append(row)
        limits.append(1.0)
    for r in range(types):
        row = np.zeros(size)
        row[r : jobs * types : types] = problem.gangs
        rows.append(row)
        limits.append(float(problem.gpus[r]))
    equal = np.zeros((jobs, size))
    for m in range(jobs):
        equal[m, m * types : (m + 1) * types] = problem.rates[m]
        equal[m, jobs * types + m] = -1.0
    return np.array(rows), np.array(limits), equal, np.zeros(jobs), size


def solve(problem: Problem, objective: Array, more: Array, at_most: Array) -> float | None:
    rows, limits, equal, values, _ = feasible_set(problem)
    options = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
    found = linprog(
        -objective, np.vstack([rows, more]), np.concatenate([limits, at_most]), equal, values,
        bounds=(0, None), method="highs-ipm", options=options,
    )  # fmt: skip
    return -float(found.fun) if found.status == 0 else None


def least_scaled(problem: Problem, scale: Array, rising: Array | None = None, level: Array | None = None) -> float:
    """Largest t with scale_m thr(m) >= t for the rising jobs and >= their level for all others."""
    jobs, types = problem.rates.shape
    size = jobs * types + jobs + 1
    rising = np.ones(jobs, bool) if rising is None else rising
    more, at_most = np.zeros((jobs, size)), np.zeros(jobs)
    for m in range(jobs):
        more[m, jobs * types + m] = -scale[m]
        if rising[m]:
            more[m, -1] = 1.0
        else:
            assert level is not None
            at_most[m] = -level[m] * (1 - 1e-9)
    objective = np.zeros(size)
    objective[-1] = 1.0
    value = solve(problem, objective, more, at_most)
    assert value is not None
    return value


def filled_levels(problem: Problem) -> Array:
    """Water filling by probes: a job is frozen if it cannot rise while all other jobs keep their levels."""
    jobs, types = problem.rates.shape
    scale = problem.fairness_scale()
    rising, level = np.ones(jobs, bool), np.zeros(jobs)
    while rising.any():
        level[rising] = least_scaled(problem, scale, rising, level)
        stuck = []
        for m in np.flatnonzero(rising):
            more = np.zeros((jobs, jobs * types + jobs + 1))
            more[np.arange(jobs), jobs * types + np.arange(jobs)] = -scale
            objective = np.zeros(more.shape[1])
            objective[jobs * types + m] = scale[m]
            best = solve(problem, objective, more, -level * (1 - 1e-9))
            assert best is not None
            if best <= level[m] * (1 + 1e-6):
                stuck.append(m)
        assert stuck
        rising[stuck] = False
    return level


def least_rho(problem: Problem, isolated_s: Array, isolated_rate: Array) -> float:
    """Finish-time fairness: bisect rho to the least value whose rates are feasible."""
    alone_s = isolated_s + problem.steps_left / isolated_rate
    low, high = float((problem.age_s / alone_s).max()), 1.0
    while not _can(problem, high, alone_s):
        high *= 2
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (low, middle) if _can(problem, middle, alone_s) else (middle, high)
    return high


def _can(problem: Problem, rho: float, alone_s: Array) -> bool:
    spare = rho * alone_s - problem.age_s
    return bool((spare > 0).all()) and least_scaled(problem, spare / problem.steps_left) >= 1.0
