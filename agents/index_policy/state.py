"""The arrays of one run of an index policy."""

from __future__ import annotations

from typing import Final

import numpy as np

from gpusched_env.core.handle import array
from gpusched_env.core.planning import Walk

MEMORY_DTYPE: Final = np.dtype(
    [
        ("hold", "<f8"),  # subtracted from the score of a running job
        ("least_run_s", "<f8"),  # [s] progress that a gang makes before it may be preempted
        ("move_factor", "<f8"),  # a gang moves if it has lost this many times what a move costs by its placement
        ("reach", "<i8"),  # largest number of neighbours on either side to whom a job gives evidence
        ("burst_s", "<f8"),  # [s] time between the submissions of two jobs of one burst at most
        ("series_s", "<f8"),  # [s] of two jobs of one series at most
        ("censored", "<i8"),  # levels that a job that has not finished is expected to reach beyond its own
        ("listed", "<i8"),  # entries of ``order``
        # of a decision point, see decisions.py
        ("stage", "<i8"),
        ("planned", "<i8"),  # entries of ``order`` that the plan is about
    ]
)


class IndexState(Walk):
    """The arrays of one run; jobs are named by their rows."""

    memory = array(MEMORY_DTYPE)
    thresholds_s = array(np.float64, "thresholds")  # [s] ascending; service reaches level i + 1 at entry i
    scores = array(np.float64, "classes", "predictions", "levels")  # small scores come first
    aging = array(np.float64, "levels")  # subtracted from the score of a job that has waited for so long
    widths = array(np.int32, "widths")  # placement rules of patient jobs, tightest first
    patience_s = array(np.float64, "classes", "widths")  # [s] for how long a waiting job accepts only such a placement
    tightest = array(np.int32, "classes")  # tightest tier that can hold a gang in the empty cluster
    ideal_s = array(np.float64, "classes")  # [s] of one iteration on the tightest placement
    scratch = array(np.int32, "jobs")
    keys = array(np.float64, "jobs")
    ranks = array(np.float64, "jobs")
    member = array(np.int8, "jobs")
    earlier = array(np.int32, "jobs")  # the job of equal gang size submitted before; -1 = none
    later = array(np.int32, "jobs")
    evidence = array(np.int32, "jobs")  # 1 + level that the job has reached, or is expected to reach; 0 = never ran
    # For each job, of the other jobs of its burst and of its series (the last axis):
    told = array(np.int32, "jobs", "ties")  # sum of their evidence
    tellers = array(np.int32, "jobs", "ties")  # number of those that have evidence
