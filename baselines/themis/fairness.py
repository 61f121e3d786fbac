"""Finish-time fairness, and the shares of time that make the worst of it as good as can be."""

from __future__ import annotations

from typing import Final

import numpy as np

from gpusched_env.portable.arrays import total

_HALVINGS: Final = 60  # of the bisection: more than a float64 can tell apart


def fair_time_s(ideal_s: np.ndarray, gangs: np.ndarray, share: np.ndarray) -> np.ndarray:
    """float64 [s]: T_ideal, run time on a share of the cluster; a gang larger than the share takes so much longer.

    Parameters
    ----------
    ideal_s : run time of each whole job on the best placement [s]
    gangs : GPUs of each job
    share : the cluster's GPUs over the mean number of contending jobs [GPU]
    """
    return ideal_s * np.maximum(1.0, gangs / share)


def finish_time_fairness(waited_s: np.ndarray, left_s: np.ndarray, fair_s: np.ndarray) -> np.ndarray:
    """float64: rho = T_shared / T_ideal, if each job got its whole gang on the best placement now.

    Parameters
    ----------
    waited_s : time in the system so far [s]
    left_s : run time left on the best placement [s]
    fair_s : T_ideal, see :func:`fair_time_s` [s]

    References
    ----------
    K. Mahajan et al., "Themis: Fair and efficient GPU cluster scheduling", NSDI 2020, section 3.
    """
    return (waited_s + left_s) / fair_s


def max_min_shares(
    waited_s: np.ndarray, left_s: np.ndarray, fair_s: np.ndarray, gangs: np.ndarray, gpus: int
) -> np.ndarray:
    """float64: the share x of the time, 0 < x <= 1, for which each job should hold its gang from now on.

    Minimises the largest rho = (waited + left / x) / T_ideal where the gangs together use ``gpus`` GPUs at most. x for
    a given rho is left / (rho T_ideal - waited), so that the least rho is found by bisection.

    Parameters
    ----------
    waited_s, left_s : as in :func:`finish_time_fairness` [s]
    fair_s : T_ideal [s]
    gangs, gpus : GPUs of each job, of the cluster
    """

    def shares(rho: float) -> np.ndarray:
        return left_s / np.maximum(rho * fair_s - waited_s, left_s)

    # Below ``low`` some job would have to run more than all the time; at ``high`` each uses at most its part of the
    # cluster, or all of it.
    low = float(((waited_s + left_s) / fair_s).max())
    high = float(((waited_s + left_s * np.maximum(1.0, gangs.sum() / gpus)) / fair_s).max())
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        if total(gangs * shares(middle)) <= gpus:
            high = middle
        else:
            low = middle
    return shares(high)
