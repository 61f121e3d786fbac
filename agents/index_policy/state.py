"""The arrays of one run of an index policy."""

from __future__ import annotations

from typing import Final

import numpy as np

from gpusched_env.core.handle import array
from gpusched_env.core.planning import Walk
from gpusched_env.prediction import History

MEMORY_DTYPE: Final = np.dtype(
    [
        ("held", "<f8"),  # by which the score of a running job is divided
        ("patience", "<f8"),  # a gang waits for a tight placement this many times what a wider one costs
        ("move_factor", "<f8"),  # a gang moves if it has lost this many times what a move costs by its placement
        # Jobs that had arrived and ended when the tables were last brought up to date; -1 = never
        ("arrived", "<i8"),
        ("finished", "<i8"),
        ("listed", "<i8"),  # entries of ``order``
        # of a decision point, see decisions.py
        ("stage", "<i8"),
        ("planned", "<i8"),  # entries of ``order`` that the plan is about
    ]
)


class IndexState(Walk):
    """The arrays of one run; jobs are named by their rows."""

    history: History | None = None  # of the run; a copy of the arrays reads it from the run again

    memory = array(MEMORY_DTYPE)
    gang = array(np.float64, "classes")  # by what the gang size of each job class multiplies
    index_s = array(np.float64, "kinds", "levels")  # [s] Gittins index, by the class of the history
    left_s = array(np.float64, "kinds", "levels")  # [s] mean time left
    class_of = array(np.int32, "jobs")  # class of each job in the history
    widths = array(np.int32, "widths")  # placement rules of patient jobs, tightest first
    excess = array(np.float64, "classes", "narrow")  # by what part the placement after each width lengthens iterations
    tightest = array(np.int32, "classes")  # tightest tier that can hold a gang in the empty cluster
    ideal_s = array(np.float64, "classes")  # [s] of one iteration on the tightest placement
    scratch = array(np.int32, "jobs")
    keys = array(np.float64, "jobs")
    ranks = array(np.float64, "jobs")
    member = array(np.int8, "jobs")
