"""The arrays of list schedulers."""

from __future__ import annotations

from typing import Final

import numpy as np

from gpusched_env.baselines.estimates import Estimates
from gpusched_env.core.handle import array

LIST_DTYPE: Final = np.dtype(
    [
        # rules, fixed
        ("order", "<i8"),  # ARRIVAL, SIZE, ATTAINED, QUEUES
        ("preempts", "<i8"),  # 1 = running jobs may be preempted
        ("strict", "<i8"),  # 1 = the first job that does not fit blocks all jobs behind it
        ("by_gpus", "<i8"),  # 1 = sizes are multiplied by the gang size
        ("largest", "<i8"),  # 1 = the largest job comes first
        ("backfills", "<i8"),  # 1 = EASY backfill behind the first job that does not fit
        ("incumbents", "<i8"),  # 1 = running jobs come first in their queue
        ("by_entry", "<i8"),  # 1 = within a queue, jobs are ordered by the times at which they entered it
        ("tail", "<i8"),  # 1 = jobs that change their queue go to its tail, and running jobs move ahead of waiting ones
        ("by_held", "<i8"),  # 1 = service is the time for which a gang has held its GPUs
        ("by_claims", "<i8"),  # 1 = the queue of a job follows from its estimated GPU time if that exceeds its service
        ("knob", "<f8"),  # a job that has waited for this multiple of its service is promoted; inf = none is
        ("asks", "<i8"),  # 1 = some job has no claim of its user, or run times are predicted
        ("rule", "<i8"),  # placement rule
        ("skewed_rule", "<i8"),  # placement rule of models with more skew than ``packlimit``
        ("packlimit", "<f8"),
        ("choices", "<i8"),  # flags of core/sharing/choices.py by which jobs that preempt nobody share GPUs; -1 = never
        ("if_full", "<i8"),  # 1 = they do so even if no GPU is free
        ("monotone", "<i8"),  # 1 = a gang that finds no place finds none after further starts either
        ("goes_on", "<i8"),  # 1 = after the starts, jobs are backfilled, or the policy asks to be woken
        ("alone", "<i8"),  # 1 = nobody else has made or makes decisions
        ("round_s", "<f8"),  # [s] length of a round; 0 = no rounds
        ("longest_s", "<f8"),  # [s] run time of the longest job on the ideal placement
        ("along", "<i8"),  # LIST, LINES, HEAD
        # state of a decision point
        ("phase", "<i8"),
        ("listed", "<i8"),  # entries of ``order``
        ("whole", "<i8"),  # 1 = these are all waiting and running jobs
        ("walked", "<i8"),  # entries in use of ``walk``: along LINES running jobs (runners.py), else jobs to backfill
        ("apart", "<i8"),  # entries of ``walk`` not taken yet at this decision point
        ("taken", "<i8"),  # entries in use of ``tail``: running jobs taken at this decision point
        ("taken_gpus", "<i8"),  # [GPU] held by the taken jobs
        ("shadow_s", "<f8"),  # [s] time of the reservation of EASY
        ("extra", "<i8"),  # [GPU] left over at this time
        # state of a run
        ("returns", "<i8"),  # releases of GPUs counted up to the last walk
        ("lined", "<i8"),  # arrivals that have been put into a line
        ("leaving", "<i8"),  # entries in use of ``left``: jobs that join a line as soon as they wait
        ("changing", "<i8"),  # gangs in the heap of queue_changes.py
        ("counted_s", "<f8"),  # [s] time up to which ``held_s`` is known
        ("barren", "<i8"),  # rounds in a row that have found no gang at work
        ("ended", "<i8"),  # jobs that had left the system at the last round
    ]
)
QUEUED_DTYPE: Final = np.dtype(
    [
        ("forgiven_s", "<f8"),  # [s] service up to the last promotion
        ("waits_since_s", "<f8"),  # [s] time of the last promotion
        ("held_s", "<f8"),  # [s] time for which the job has held GPUs
        ("entered_s", "<f8"),  # [s] time at which it entered its queue, 0 = on arrival; with ``tail``, its place
        ("queue", "<i8"),  # its queue at the last decision point at which jobs waited
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


class ListState(Estimates):
    """The arrays of one run; jobs are named by their rows."""

    memory = array(LIST_DTYPE)
    skew = array(np.float64, "jobs")
    slowest_s = array(np.float64, "backfilled")  # [s] of an iteration on the slowest placement, for EASY
    queued = array(QUEUED_DTYPE, "jobs")
    thresholds = array(np.float64, "thresholds")  # [GPU s] upper bounds of all queues but the last
    history = array(np.float64, "history")  # [GPU s] sizes of past jobs, ascending; empty = no Gittins index
    totals = array(np.float64, "totals")  # [GPU s] sums of the first sizes of ``history``; entry 0 is 0
    walk = array(np.int32, "jobs")
    scratch = array(np.int32, "jobs")
    keys = array(np.float64, "jobs")
    ranks = array(np.float64, "jobs")
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
