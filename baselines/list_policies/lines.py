"""Lists of jobs, their sorting, and lines of waiting jobs.

There is one line for each gang size. A line is a binary heap of the rows ``waiters[begin : begin + count]``. Its first
entry is the job that comes first. The key and the rank of a job do not change while it waits.
"""

from __future__ import annotations

import numpy as np

from gpusched_env.baselines.list_policies.state import ListState
from gpusched_env.core.handle import helper
from gpusched_env.core.state import Run

Array = np.ndarray


@helper
def mark_jobs(sim: Run, member: Array, with_running: bool) -> None:
    """Set ``member`` of the waiting jobs, and of the running ones."""
    w = sim.world
    for i in range(w["waiting"]):
        member[sim.waiting[w["first_waiting"] + i]] = 1
    if with_running:
        for i in range(w["running"]):
            member[sim.replicas[sim.running[i]]["job"]] = 1


@helper
def append_marked(sim: Run, order: Array, member: Array, count: int, with_running: bool) -> int:
    """Append the jobs that are still marked to a list of ``count`` jobs; return its length."""
    w = sim.world
    for i in range(w["waiting"]):
        row = sim.waiting[w["first_waiting"] + i]
        if member[row] == 1:
            member[row] = 0
            order[count] = row
            count += 1
    if with_running:
        for i in range(w["running"]):
            row = sim.replicas[sim.running[i]]["job"]
            if member[row] == 1:
                member[row] = 0
                order[count] = row
                count += 1
    return count


@helper
def before(keys: Array, ranks: Array, one: int, other: int) -> bool:
    """Return whether a job comes before another: by key, then by rank, then by row."""
    if keys[one] != keys[other]:
        return keys[one] < keys[other]
    if ranks[one] != ranks[other]:
        return ranks[one] < ranks[other]
    return one < other


@helper
def join_line(lines: Array, waiters: Array, keys: Array, ranks: Array, number: int, row: int) -> None:
    """Insert a job into a line."""
    line = lines[number]
    begin = line["begin"]
    at = line["count"]
    line["count"] += 1
    while at > 0:
        above = waiters[begin + (at - 1) // 2]
        if not before(keys, ranks, row, above):
            break
        waiters[begin + at] = above
        at = (at - 1) // 2
    waiters[begin + at] = row


@helper
def leave_line(lines: Array, waiters: Array, keys: Array, ranks: Array, number: int) -> None:
    """Remove the first job of a line."""
    line = lines[number]
    begin = line["begin"]
    line["count"] -= 1
    last = line["count"]
    row = waiters[begin + last]
    at = 0
    while 2 * at + 1 < last:
        child = 2 * at + 1
        below = waiters[begin + child]
        if child + 1 < last:
            beside = waiters[begin + child + 1]
            if before(keys, ranks, beside, below):
                child += 1
                below = beside
        if not before(keys, ranks, below, row):
            break
        waiters[begin + at] = below
        at = child
    waiters[begin + at] = row


@helper
def first_line(plan: ListState, most: int, passes: bool) -> int:
    """Find the line whose first job comes first among all gangs of up to ``most`` GPUs; -1 = no such job waits.

    ``passes``: ignore gang sizes for which no placement has been found.
    """
    best = -1
    first = -1
    for number in range(len(plan.lines)):
        line = plan.lines[number]
        if line["count"] > 0 and line["gpus"] <= most and not (passes and plan.failed[line["gpus"]]):
            row = plan.waiters[line["begin"]]
            if best < 0 or before(plan.keys, plan.ranks, row, first):
                best = number
                first = row
    return best


@helper
def sort_rows(order: Array, scratch: Array, keys: Array, ranks: Array, count: int) -> None:
    """Sort rows by natural merge sort, which takes one pass over rows that are sorted already."""
    while True:
        begin = 0
        runs = 0
        while begin < count:
            middle = begin + 1
            while middle < count and before(keys, ranks, order[middle - 1], order[middle]):
                middle += 1
            end = middle
            if middle < count:
                end = middle + 1
                while end < count and before(keys, ranks, order[end - 1], order[end]):
                    end += 1
                for i in range(begin, middle):
                    scratch[i] = order[i]
                i = begin
                j = middle
                for at in range(begin, end):
                    if i < middle and (j >= end or before(keys, ranks, scratch[i], order[j])):
                        order[at] = scratch[i]
                        i += 1
                    else:
                        order[at] = order[j]
                        j += 1
                    if i == middle:
                        break
            runs += 1
            begin = end
        if runs <= 1:
            return
