"""SJF-BCO's search: a limit theta on the charge of a GPU, and a size kappa that separates small from large gangs."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import numpy as np

from gpusched_env.baselines.bco.kernels import Book
from gpusched_env.baselines.bco.rehearsal import NoPlaceError, Rehearser
from gpusched_env.portable.elementary import power

GRID: Final = np.array([0.8 * power(7.5, i / 9) for i in range(10)])  # theta / mean load of a GPU

# (theta [s], maximum size of a small gang): writes the plan to the book of the rehearser, which it returns
MakePlan = Callable[[float, float], Book]


class Trial(NamedTuple):
    """The earliest end of the last job that the search has found so far, and the parameters that gave it."""

    end_s: float
    theta_s: float
    small: float


def try_all(
    rehearser: Rehearser, make: MakePlan, theta_s: float, sizes: Sequence[float], best: Trial
) -> tuple[Trial, list[float]]:
    """Rehearse theta with every split into small and large gangs; return the earliest trial, ``best`` included (ties).

    Also returns the sizes for which a larger theta might change the placements.
    """
    bound = []
    for small in sizes:
        try:
            plan = make(theta_s, small)
            end_s = rehearser.end_s(best.end_s)  # any end after best.end_s gives inf
        except NoPlaceError:  # theta leaves a job unplaced; the paper's loop would compare the makespan of the others
            bound.append(small)
            continue
        if plan.memory["binding"]:
            bound.append(small)
        if end_s < best.end_s:
            best = Trial(end_s, theta_s, small)
    return best, bound


def by_grid(
    rehearser: Rehearser, make: MakePlan, thetas_s: Sequence[float], sizes: Sequence[float], horizon_s: float
) -> Trial:
    """Try every theta, in ascending order, with every split into small and large gangs."""
    best = Trial(horizon_s, math.inf, sizes[0])
    for theta_s in thetas_s:
        best, sizes = try_all(rehearser, make, theta_s, sizes, best)
        if not sizes:
            break
    return best


def by_bisection(
    rehearser: Rehearser, make: MakePlan, largest_s: int, sizes: Sequence[float], horizon_s: float
) -> Trial:
    """Bisect theta in whole seconds (algorithm 1): below after an improvement, else above; it may miss better plans."""
    best = Trial(horizon_s, math.inf, sizes[0])
    low, high = 1, largest_s
    while low <= high:
        theta_s = (low + high) // 2
        found, _ = try_all(rehearser, make, theta_s, sizes, best)
        if found.end_s < best.end_s:
            best, high = found, theta_s - 1
        else:
            low = theta_s + 1
    return best
