"""The time shares that minimise the largest finish-time fairness rho."""

from __future__ import annotations

from typing import Final

import numpy as np

from gpusched_env.portable.arrays import total

_HALVINGS: Final = 60  # of the bisection: enough for the precision of a float64


def max_min_shares(
    waited_s: np.ndarray, left_s: np.ndarray, fair_s: np.ndarray, gangs: np.ndarray, gpus: int
) -> np.ndarray:
    """float64: share x of the time, 0 < x <= 1, for which each job should hold its gang from now on.

    They minimise the largest rho = (waited + left / x) / T_ideal, with at most ``gpus`` GPUs on average. For a given
    rho, x = left / (rho T_ideal - waited); the smallest feasible rho is found by bisection.
    """

    def shares(rho: float) -> np.ndarray:
        return left_s / np.maximum(rho * fair_s - waited_s, left_s)

    # Below ``low`` some job would need a share above 1. ``high`` is feasible: no share exceeds gpus / sum of gangs, or
    # all gangs fit at once.
    low = float(((waited_s + left_s) / fair_s).max())
    high = float(((waited_s + left_s * np.maximum(1.0, gangs.sum() / gpus)) / fair_s).max())
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        if total(gangs * shares(middle)) <= gpus:
            high = middle
        else:
            low = middle
    return shares(high)
