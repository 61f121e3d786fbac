"""What the compiled loop of list scheduling remembers: every array once."""

from __future__ import annotations

from typing import Final

import numpy as np

from gpusched_env.core.handle import Handle, array

LIST_DTYPE: Final = np.dtype(
    [
        ("order", "<i8"),  # ARRIVAL, SIZE, ATTAINED, QUEUES
        ("preempts", "<i8"),  # 1 = running jobs may be preempted
        ("strict", "<i8"),  # 1 = the first job that does not fit blocks all behind it
        ("by_gpus", "<i8"),  # 1 = sizes are multiplied by the gang
        ("incumbents", "<i8"),  # 1 = running jobs lead their queue
        ("rule", "<i8"),  # placement rule
        ("skewed_rule", "<i8"),  # that of models with more skew than ``packlimit``
        ("packlimit", "<f8"),
        ("monotone", "<i8"),  # 1 = what does not fit fits no better once others have been placed
        ("round_s", "<f8"),  # [s] of LAS
        ("longest_s", "<f8"),  # [s] run time of the longest job on the ideal placement
        ("along", "<i8"),  # LIST, LINES, HEAD
        ("until_s", "<f8"),  # [s] when to stop
        # where it stands
        ("phase", "<i8"),
        ("at", "<i8"),  # entry of the list that comes next
        ("listed", "<i8"),  # entries of ``order``
        ("walked", "<i8"),  # entries of ``walk``: what is walked along, or, along LINES, who runs (runners.py)
        ("apart", "<i8"),  # entries of ``walk`` that this decision point has not taken
        ("taken", "<i8"),  # running jobs that it has taken, ``tail``
        ("taken_gpus", "<i8"),  # that they hold [GPU]
        ("returns", "<i8"),  # gangs that had given GPUs back then
        ("idle", "<i8"),
        ("lined", "<i8"),  # jobs that have arrived and joined a line
        ("leaving", "<i8"),  # entries of ``left``: jobs that join a line when they wait again
        ("changing", "<i8"),  # gangs in the heap of changes of queue
        ("reads_round", "<i8"),  # 1 = this decision point is a round of LAS
    ]
)
LINE_DTYPE: Final = np.dtype(
    [
        ("gpus", "<i8"),  # gang size of its jobs [GPU]
        ("begin", "<i8"),  # its first entry of ``waiters``
        ("count", "<i8"),  # its entries in use
    ]
)
RUNNERS_DTYPE: Final = np.dtype(
    [
        ("begin", "<i8"),  # first entry of ``runner_rows`` of this gang size
        ("count", "<i8"),  # entries in use, in order; jobs that have ended stay until somebody looks
        ("room", "<i8"),  # entries that it has
        ("taken", "<i8"),  # entries at its end that this decision point has taken, or passed over since they have ended
    ]
)


class ListState(Handle):
    """The arrays of one run; jobs are named by their rows."""

    memory = array(LIST_DTYPE)
    skew = array(np.float64, "jobs")
    thresholds = array(np.float64, "thresholds")  # [GPU s] upper bounds of all queues but the last
    order = array(np.int32, "jobs")
    walk = array(np.int32, "jobs")
    scratch = array(np.int32, "jobs")
    keys = array(np.float64, "jobs")
    ranks = array(np.float64, "jobs")
    rules = array(np.int32, "jobs")  # numbers of placement rules, of the entries of ``order``
    verdict = array(np.int32, "jobs")  # of the entries of ``order``
    member = array(np.int8, "jobs")
    failed = array(np.int8, "gangs")  # 1 = a gang of this size found no place
    lines = array(LINE_DTYPE, "lines")
    line_of = array(np.int32, "gangs")  # line of each gang size
    waiters = array(np.int32, "jobs")
    left = array(np.int32, "left")  # who is stopped, who cannot start yet, who was stopped before
    runners = array(RUNNERS_DTYPE, "lines")
    runner_rows = array(np.int32, "runners")
    levels = array(np.float64, "jobs")
    tail = array(np.int32, "replicas")
    changes_s = array(np.float64, "replicas")
    heap = array(np.int32, "replicas")
    places = array(np.int32, "replicas")
    near = array(np.int32, "replicas")
