"""Gavel's objectives as pure functions from a problem to an optimum.

A function returns None if the solver finds no solution. For the policies that ignore GPU types, pass
``problem.agnostic()`` or ``problem.at_reference()`` as the problem.

D. Narayanan et al., "Heterogeneity-Aware Cluster Scheduling Policies for Deep Learning Workloads", OSDI 2020.
"""

from __future__ import annotations

from typing import Final, TypeAlias

import numpy as np

from gpusched_env.baselines.gavel.problem import Problem
from gpusched_env.baselines.gavel.program import INTERIOR, SLACKS, Entries, Optimum, Program, program_of

Feasible: TypeAlias = Entries | Program | None
"""The entries that may get GPUs, or a program over these entries; None = no job shares GPUs."""

PRECISION: Final = 1e-7  # relative precision of a finish-time fairness
LEAST_S, MOST_S, RATIO = 100.0, 1e6, 1.05  # bounds [s] and final ratio of the published search for the makespan
WIDENINGS: Final = 6  # by a factor of ten each, before the published search gives up
MOST_STEPS: Final = 60  # of the search for rho: bisection alone needs half as many for PRECISION


def max_min_fairness(problem: Problem, entries: Feasible = None, tie_break: str = "vertex") -> Optimum | None:
    """Least attained service: maximise the least z_m thr(m) / (w_m thr_prop(m)) (section 4.1)."""
    return program_of(problem, entries).max_min(problem.fairness_scale(), tie_break)


def water_filling(problem: Problem, entries: Feasible = None, tie_break: str = "vertex") -> Optimum | None:
    """Max-min fairness beyond the first bottleneck: if the rates of some jobs cannot rise, raise those of the others.

    The published code finds the jobs that cannot rise with a Boolean program. By strict complementarity, these are the
    jobs whose constraints have positive multipliers, so one linear program per level suffices. Equal jobs rise
    together.
    """
    program, scale = program_of(problem, entries), problem.fairness_scale()
    level = np.full(len(scale), np.nan)
    alike = None
    if entries is None or problem.kinds is not None:
        kinds = np.zeros(len(scale)) if problem.kinds is None else problem.kinds
        columns = np.column_stack([scale[:, None] * problem.rates, problem.gangs, kinds])
        alike = np.unique(columns, axis=0, return_inverse=True)[1].reshape(-1)
    while True:
        tries = (program.max_min(scale, "vertex", level, slack=slack) for slack in SLACKS)
        found = next(filter(None, tries), None)
        if found is None:
            return None
        stuck = found.binding
        if not stuck.any():  # all multipliers are rounded to 0, so no job can rise by more than a rounding error
            stuck = np.isnan(level)
        if alike is not None:
            stuck = np.isin(alike, alike[stuck]) & np.isnan(level)
        level[stuck] = found.value
        if np.isfinite(level).all():
            break
    if tie_break == "two_stage":
        better = program.most(program.gain_of(scale), level / scale * (1.0 - PRECISION))
        found = found if better is None else better
    return found._replace(value=float(level.min()))


def min_total_duration(problem: Problem, entries: Feasible = None, tie_break: str = "vertex") -> Optimum | None:
    """Find the smallest T such that every job gets thr(m) >= R_m / T; the value of the optimum is 1 / T."""
    return program_of(problem, entries).max_min(1.0 / problem.steps_left, tie_break)


def bisected_total_duration(problem: Problem, entries: Feasible = None, tie_break: str = "vertex") -> Optimum | None:
    """Find T as :func:`min_total_duration` does, but by the published search, with the shares of the last feasible T.

    It bisects at the arithmetic mean until the bounds differ by 5 %; None if no T up to 10^11 s is feasible.
    """
    program = program_of(problem, entries)
    best, least_s, most_s = None, LEAST_S, MOST_S
    for _ in range(WIDENINGS):
        while most_s > RATIO * least_s:
            middle_s = (least_s + most_s) / 2
            found = program.any_with(problem.steps_left / middle_s, tie_break)
            if found is None:
                least_s = middle_s
            else:
                best, most_s = found._replace(value=1.0 / middle_s), middle_s
        if best is not None:
            break
        least_s, most_s = most_s, most_s * 10
    return best


def finish_time_fairness(
    problem: Problem,
    isolated_s: np.ndarray,
    isolated_rate: np.ndarray,
    entries: Feasible = None,
    tie_break: str = "vertex",
) -> Optimum | None:
    """Minimise the largest rho_m = (t_m + R_m / thr(m)) / (I_m + R_m / thr_iso(m)) (section 4.2).

    Parameters
    ----------
    isolated_s : float64 [M], I_m: time that the steps done so far would have taken on an equal share [s]
    isolated_rate : float64 [M], thr_iso: present rate on an equal share [steps/s]

    Notes
    -----
    For a given rho, the condition thr(m) >= R_m / (rho D_m - t_m) is linear, where D_m is the denominator. A linear
    program finds the largest factor by which these rates of all jobs can be multiplied. The excess, factor - 1, grows
    with rho, and the secant method finds its root. The largest rho_m of every solution is an upper bound of the
    optimum, and a rho whose excess is not positive is a lower bound.
    """
    program = program_of(problem, entries)
    alone_s = isolated_s + problem.steps_left / isolated_rate
    if tie_break == INTERIOR:
        return program.least_finish_time_ratio(problem, alone_s)
    lower = float(((problem.age_s + problem.steps_left / program.fastest) / alone_s).max())
    found = program.max_min(alone_s / problem.steps_left, tie_break)
    if found is None:
        return None

    def rho_of(optimum: Optimum) -> float:
        with np.errstate(divide="ignore"):  # the solver may leave a job with next to no steps without a share
            return float(((problem.age_s + problem.steps_left / optimum.throughput) / alone_s).max())

    best, upper = found, rho_of(found)
    trial = upper
    seen: list[tuple[float, float]] = []
    for _ in range(MOST_STEPS):
        if upper - lower <= PRECISION * upper:
            break
        found = program.max_min((trial * alone_s - problem.age_s) / problem.steps_left, tie_break, unit=1.0)
        if found is None:
            return None
        seen = [*seen[-1:], (trial, found.value - 1.0)]
        if found.value <= 1.0 + PRECISION / 3:  # a rho smaller by PRECISION would need more than there is
            lower = max(lower, trial * (1.0 - PRECISION))
        if (rho := rho_of(found)) < upper:
            best, upper = found, rho
        trial = _next_trial(seen, lower, upper)
    return best._replace(value=upper)


def _next_trial(seen: list[tuple[float, float]], lower: float, upper: float) -> float:
    """Return the root of the line through the last two points (rho, excess), or the midpoint if it is out of bounds."""
    if len(seen) == 2 and seen[0][1] != seen[1][1]:
        (first, excess), (second, less) = seen
        secant = second - less * (second - first) / (less - excess)
        if lower < secant < upper:
            return secant
    return upper if len(seen) == 1 else (lower + upper) / 2


def max_sum_throughput(problem: Problem, entries: Feasible = None) -> Optimum | None:
    """Maximise the sum of all throughputs; gang sizes have no weight."""
    program = program_of(problem, entries)
    return program.most(program.gain_of(np.ones(len(problem.gangs))))


def max_throughput_by_cost(problem: Problem, deadlines: bool = False) -> Optimum | None:
    """Maximise the sum of T_mr X_mr / price_r, as published; if not all deadlines can be met, all are dropped."""
    program, gain = Program(problem), problem.rates / problem.prices
    if deadlines:
        with np.errstate(divide="ignore"):
            least = np.where(problem.slack_s > 0, problem.steps_left / problem.slack_s, np.inf)
        found = program.most(gain, least) if np.isfinite(least).all() else None
        if found is not None:
            return found
    return program.most(gain)
