"""Finish-time fairness as the Themis paper defines it (section 3), for an app of one or several jobs.

Work is counted in GPU seconds on the ideal placement. The power of GPUs is the work that they do in a second: a gang of
four GPUs that runs at 5/6 of its ideal speed has a power of 20/6.
"""

from __future__ import annotations

from typing import TypeVar

import numpy as np

Real = TypeVar("Real", float, np.ndarray)


def private_time_s(work: Real, power: Real, contenders: Real) -> Real:
    """Return T_id, the time that an app would need on 1 / ``contenders`` of the cluster [s].

    ``work`` of the whole app [GPU s], ``power`` of all GPUs that it could use [GPU], ``contenders`` = N_avg, mean
    number of apps in the system while it was there.
    """
    return contenders * (work / power)


def finish_time_fairness(age_s: Real, left: Real, power: Real, private_s: Real) -> Real:
    """Return rho = T_sh / T_id of an app that keeps GPUs of this power until its end.

    ``age_s`` since the app arrived [s], ``left`` : work [GPU s], ``power`` of its GPUs [GPU], ``private_s`` : T_id [s].
    """
    return (age_s + left / power) / private_s
