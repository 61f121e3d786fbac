"""Running jobs in order, so that who comes last is known at once.

Jobs whose keys change at the same pace stand in a sorted list, one for each gang size: their order does not change, nor
does the level of each, which is its key less what the clock has added. Only at a change of queue does one leave. All
others are in ``walk``, whose keys are computed anew at each decision point: gangs that have just started, restore or
are being checkpointed, and, where what is left counts, those that do not run as fast as on the ideal placement.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from gpusched_env.baselines.key_kernels import NEAR, NEAR_S, QUEUES, keeps_pace, pace_of, set_key
from gpusched_env.baselines.line_kernels import before, sort_rows
from gpusched_env.simulator.jit import helper, int64

Array = np.ndarray[Any, Any]

# What is known of a job's place: ``member``.
NOWHERE, IN_WALK, IN_LIST = range(3)

RUNNERS_DTYPE: Final = np.dtype(
    [
        ("begin", "<i8"),  # first entry of ``runner_rows`` of this gang size
        ("count", "<i8"),  # entries in use, in order; jobs that have ended stay until somebody looks
        ("room", "<i8"),  # entries that it has
        ("taken", "<i8"),  # entries at its end that this decision point has taken, or passed over since they have ended
    ]
)


@helper
def _jobs_before(runners: Array, runner_rows: Array, levels: Array, ranks: Array, number: int, row: int) -> int:
    """Count the jobs of a list that come before another one."""
    begin = runners[number]["begin"]
    low = int64(0)
    high = int64(runners[number]["count"])
    while low < high:
        middle = (low + high) // 2
        if before(levels, ranks, int64(runner_rows[begin + middle]), row):
            low = middle + 1
        else:
            high = middle
    return low


@helper
def join_runners(
    jobs: Array, runners: Array, runner_rows: Array, levels: Array, ranks: Array, member: Array, b: int, number: int,
    row: int,
) -> None:
    """Put a running job into the list of its gang size."""
    list_ = runners[number]
    begin = list_["begin"]
    if list_["count"] == list_["room"]:  # twice as many as can run, so that half of it becomes free
        kept = 0
        for i in range(begin, begin + list_["count"]):
            if jobs[b, runner_rows[i]]["replica"] >= 0:
                runner_rows[begin + kept] = runner_rows[i]
                kept += 1
        list_["count"] = kept
    at = _jobs_before(runners, runner_rows, levels, ranks, number, row)
    for i in range(begin + list_["count"], begin + at, -1):
        runner_rows[i] = runner_rows[i - 1]
    runner_rows[begin + at] = row
    list_["count"] += 1
    member[row] = IN_LIST


@helper
def leave_runners(
    list_: Array, runners: Array, runner_rows: Array, levels: Array, ranks: Array, walk: Array, member: Array,
    number: int, row: int, runs: bool,
) -> None:
    """Take a job out of the list of its gang size, if it is there; if it holds GPUs (``runs``), it goes to ``walk``."""
    if member[row] == IN_LIST:
        of_size = runners[number]
        begin = of_size["begin"]
        at = begin + _jobs_before(runners, runner_rows, levels, ranks, number, row)
        of_size["count"] -= 1
        for i in range(at, begin + of_size["count"]):
            runner_rows[i] = runner_rows[i + 1]
        member[row] = NOWHERE
        if runs:
            note_runner(list_, walk, member, row)


@helper
def note_runner(list_: Array, walk: Array, member: Array, row: int) -> None:
    """Add a running job to ``walk``, unless it is still there from an earlier start."""
    if member[row] == NOWHERE:
        member[row] = IN_WALK
        walk[list_[0]["walked"]] = row
        list_[0]["walked"] += 1


@helper
def line_up_runners(
    world: Array, jobs: Array, replicas: Array, list_: Array, thresholds: Array, line_of: Array, runners: Array,
    runner_rows: Array, levels: Array, walk: Array, scratch: Array, keys: Array, ranks: Array, member: Array, b: int,
) -> None:
    """Bring ``walk`` up to date: who has stopped leaves, who keeps pace joins a list, all others are sorted."""
    r = list_[0]
    count = int64(0)
    for i in range(r["walked"]):
        row = int64(walk[i])
        if jobs[b, row]["replica"] < 0:
            member[row] = NOWHERE
            continue
        set_key(world, jobs, replicas, list_, thresholds, keys, ranks, b, row)
        if keeps_pace(world, jobs, replicas, list_, b, row):
            gpus = int64(jobs[b, row]["gpus"])
            levels[row] = keys[row] - pace_of(list_, gpus) * world[b]["clock_s"]
            join_runners(jobs, runners, runner_rows, levels, ranks, member, b, int64(line_of[gpus]), row)
        else:
            walk[count] = row
            count += 1
    r["walked"] = count
    sort_rows(walk, scratch, keys, ranks, count)
    r["apart"] = count
    r["taken"] = 0
    r["taken_gpus"] = 0
    for number in range(len(runners)):
        runners[number]["taken"] = 0


@helper
def last_runner(
    world: Array, jobs: Array, list_: Array, lines: Array, runners: Array, runner_rows: Array, levels: Array,
    walk: Array, keys: Array, ranks: Array, b: int,
) -> tuple[int, int]:
    """Find the running job that comes last of those not taken, but for rounding: its list, -1 = none, and its row.

    Jobs that have ended are cleared away from the ends of the lists.
    """
    found = int64(-1)
    last = int64(-1)
    if list_[0]["apart"] > 0:
        found = int64(len(runners))
        last = int64(walk[list_[0]["apart"] - 1])
    for number in range(len(runners)):
        of_size = runners[number]
        row = int64(-1)
        while of_size["taken"] < of_size["count"]:
            row = int64(runner_rows[of_size["begin"] + of_size["count"] - 1 - of_size["taken"]])
            if jobs[b, row]["replica"] >= 0:
                break
            if of_size["taken"] == 0:  # it has ended
                of_size["count"] -= 1
            else:
                of_size["taken"] += 1
        if of_size["taken"] < of_size["count"]:
            keys[row] = levels[row] + pace_of(list_, int64(lines[number]["gpus"])) * world[b]["clock_s"]
            if found < 0 or before(keys, ranks, last, row):
                found = int64(number)
                last = row
    return found, last


@helper
def rounding(world: Array, list_: Array, lines: Array, b: int) -> float:
    """Difference of keys below which levels do not tell who comes first; 0 = they always do."""
    if list_[0]["order"] == QUEUES:
        return 0.0
    pace = abs(pace_of(list_, int64(lines[len(lines) - 1]["gpus"])))
    return (NEAR_S + NEAR * (world[b]["clock_s"] + list_[0]["longest_s"])) * pace


@helper
def take_last(
    world: Array, jobs: Array, replicas: Array, list_: Array, thresholds: Array, lines: Array, runners: Array,
    runner_rows: Array, levels: Array, walk: Array, tail: Array, keys: Array, ranks: Array, near: float, b: int,
    number: int, row: int,
) -> None:
    """Take the job that ``last_runner`` has found, and all whose keys are nearly the same; set the keys of all."""
    r = list_[0]
    while True:
        lowest = keys[row]
        tail[r["taken"]] = row
        r["taken"] += 1
        r["taken_gpus"] += replicas[b, jobs[b, row]["replica"]]["gpus"]
        if number == len(runners):
            r["apart"] -= 1
        else:
            runners[number]["taken"] += 1
        set_key(world, jobs, replicas, list_, thresholds, keys, ranks, b, row)
        number, row = last_runner(
            world, jobs, list_, lines, runners, runner_rows, levels, walk, keys, ranks, b
        )
        if number < 0 or near == 0.0 or keys[row] + near < lowest:
            return
