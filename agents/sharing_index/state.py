"""The arrays of one run of a sharing index."""

from __future__ import annotations

from typing import Final

import numpy as np

from gpusched_env.core.handle import Handle, array

MEMORY_DTYPE: Final = np.dtype(
    [
        ("gang", "<f8"),  # weight of ln(gang size) in a key
        ("listed", "<i8"),  # entries of ``order``
        ("option", "<i8"),  # sub-batch of the job that starts
    ]
)


class SharingState(Handle):
    """The arrays of one run; jobs are named by their rows."""

    memory = array(MEMORY_DTYPE)
    weights = array(np.float64, "terms")  # of a pair, in the order of rule.TERMS
    order = array(np.int32, "jobs")  # waiting jobs, smallest key first
    scratch = array(np.int32, "jobs")
    keys = array(np.float64, "jobs")
    ranks = array(np.float64, "jobs")
