"""The kernel that refuses a job: admission control."""

from __future__ import annotations

import numpy as np

from gpusched_env.core.events import withdraw
from gpusched_env.core.handle import kernel
from gpusched_env.core.refusals import (
    APPLIED,
    HAS_STARTED,
    IS_FINISHED,
    IS_REFUSED,
    IS_RUNNING,
    NO_JOB,
    NOT_ARRIVED,
)
from gpusched_env.core.state import FINISHED, FUTURE, REFUSED, RUNNING, Run


@kernel(lazy=True)
def refuse(sim: Run, row: int) -> int:
    """Let a waiting job that has never run leave the system; the log must have room (``events.has_room``).

    Returns an index into REFUSALS; APPLIED = the job has left.
    """
    w = sim.world
    if row < 0 or row >= w["jobs"]:
        return NO_JOB
    job = sim.jobs[row]
    status = job["status"]
    if status == FUTURE:
        return NOT_ARRIVED
    if status == RUNNING:
        return IS_RUNNING
    if status == FINISHED:
        return IS_FINISHED
    if status == REFUSED:
        return IS_REFUSED
    if job["first_start_s"] != np.inf:
        return HAS_STARTED
    withdraw(sim, row, 0.0)
    return APPLIED
