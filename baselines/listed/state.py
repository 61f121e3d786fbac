"""The arrays of the compiled loop of list schedulers."""

from __future__ import annotations

from typing import Final

import numpy as np

from gpusched_env.core.handle import Handle, array

LIST_DTYPE: Final = np.dtype(
    [
        ("order", "<i8"),  # ARRIVAL, SIZE, ATTAINED, QUEUES
        ("preempts", "<i8"),  # 1 = running jobs may be preempted
        ("strict", "<i8"),  # 1 = the first job that does not fit blocks all jobs behind it
        ("by_gpus", "<i8"),  # 1 = sizes are multiplied by the gang size
        ("incumbents", "<i8"),  # 1 = running jobs come first in their queue
        ("rule", "<i8"),  # placement rule
        ("skewed_rule", "<i8"),  # placement rule of models with more skew than ``packlimit``
        ("packlimit", "<f8"),
        ("monotone", "<i8"),  # 1 = a gang that finds no place finds none after further starts either
        ("round_s", "<f8"),  # [s] length of a round of LAS
        ("longest_s", "<f8"),  # [s] run time of the longest job on the ideal placement
        ("along", "<i8"),  # LIST, LINES, HEAD
        ("until_s", "<f8"),  # [s] when to stop
        # state of the loop
        ("phase", "<i8"),
        ("at", "<i8"),  # next entry of the list
        ("listed", "<i8"),  # entries of ``order``
        ("walked", "<i8"),  # entries in use of ``walk``: jobs to start, or along LINES running jobs (runners.py)
        ("apart", "<i8"),  # entries of ``walk`` not taken yet at this decision point
        ("taken", "<i8"),  # entries in use of ``tail``: running jobs taken at this decision point
        ("taken_gpus", "<i8"),  # [GPU] held by the taken jobs
        ("returns", "<i8"),  # releases of GPUs counted up to the last walk
        ("idle", "<i8"),
        ("lined", "<i8"),  # arrivals that have been put into a line
        ("leaving", "<i8"),  # entries in use of ``left``: jobs that join a line as soon as they wait
        ("changing", "<i8"),  # gangs in the heap of changes.py
        ("reads_round", "<i8"),  # 1 = LAS decided here: wake at its next round
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
        ("count", "<i8"),  # entries in use, sorted; ended jobs stay until they are found
        ("room", "<i8"),  # capacity
        ("taken", "<i8"),  # entries at its end taken at this decision point, or ended
    ]
)


class ListState(Handle):
    """The arrays of one run; jobs are named by their rows."""

    memory = array(LIST_DTYPE)
    skew = array(np.float64, "jobs")
    thresholds = array(np.float64, "thresholds")  # [GPU s] upper bounds of all queues but the last
    history = array(np.float64, "history")  # [GPU s] sizes of past jobs, ascending; empty = no Gittins index
    totals = array(np.float64, "totals")  # [GPU s] sums of the first sizes of ``history``; entry 0 is 0
    order = array(np.int32, "jobs")
    walk = array(np.int32, "jobs")
    scratch = array(np.int32, "jobs")
    keys = array(np.float64, "jobs")
    ranks = array(np.float64, "jobs")
    rules = array(np.int32, "jobs")  # placement rule of each entry of ``order``
    verdict = array(np.int32, "jobs")  # verdict of core/planning.py on each entry of ``order``
    member = array(np.int8, "jobs")
    failed = array(np.int8, "gangs")  # 1 = a gang of this size found no place
    lines = array(LINE_DTYPE, "lines")
    line_of = array(np.int32, "gangs")  # index of the line of each gang size
    waiters = array(np.int32, "jobs")
    left = array(np.int32, "left")  # jobs that are being stopped, or that cannot start yet
    runners = array(RUNNERS_DTYPE, "lines")
    runner_rows = array(np.int32, "runners")
    levels = array(np.float64, "jobs")
    tail = array(np.int32, "replicas")
    changes_s = array(np.float64, "replicas")
    heap = array(np.int32, "replicas")
    places = array(np.int32, "replicas")
    near = array(np.int32, "replicas")
