"""The arrays of one run of a sharing index."""

from __future__ import annotations

from typing import Final

import numpy as np

from gpusched_env.core.handle import Handle, array

# Weights of the score by which a job joins a running gang; see ``rule.SharingRule``.
TERMS: Final = ("bias", "benefit", "longer", "larger", "slowed", "split", "crowd")

MEMORY_DTYPE: Final = np.dtype(
    [
        ("gang", "<f8"),  # weight of ln(gang size) in a key
        ("hold", "<f8"),  # by how much the key of a gang must exceed that of a job that preempts it
        ("listed", "<i8"),  # entries of ``order``
        ("at", "<i8"),  # next entry of ``order``
        ("walks", "<i8"),  # 1 = the walk of this decision point has begun
        ("job", "<i8"),  # row of the job that a decision is about
        ("option", "<i8"),  # sub-batch of the job that starts
        # of the compiled loop
        ("phase", "<i8"),
        ("idle", "<i8"),
        ("until_s", "<f8"),  # [s] when to stop
    ]
)


class SharingState(Handle):
    """The arrays of one run; jobs are named by their rows."""

    memory = array(MEMORY_DTYPE)
    weights = array(np.float64, "terms")
    order = array(np.int32, "jobs")  # waiting and running jobs, smallest key first
    scratch = array(np.int32, "jobs")
    keys = array(np.float64, "jobs")
    ranks = array(np.float64, "jobs")
    member = array(np.int8, "jobs")  # scratch: 1 = is in the system, and not in ``order`` yet
    victims = array(np.int8, "jobs")  # scratch: 1 = would be preempted
