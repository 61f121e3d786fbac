"""The kernel that refuses a job: admission control."""

from __future__ import annotations

import numpy as np

from gpusched_env.core.events import start_refusal, withdraw
from gpusched_env.core.handle import kernel
from gpusched_env.core.refusals import APPLIED, HAS_STARTED
from gpusched_env.core.state import Run


@kernel(lazy=True)
def refuse(sim: Run, row: int) -> int:
    """Let a waiting job that has never run leave the system; the log must have room (``events.has_room``).

    Returns an index into REFUSALS; APPLIED = the job has left.
    """
    refusal = start_refusal(sim, row)
    if refusal != APPLIED:
        return refusal
    if sim.jobs[row]["first_start_s"] != np.inf:
        return HAS_STARTED
    withdraw(sim, row, 0.0)
    return APPLIED
