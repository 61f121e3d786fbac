"""The list of waiting jobs: their rows in ascending order, from index ``first_waiting`` of the array ``waiting`` on.

An insertion or a removal shifts the shorter side of the list. Removing the first job and appending a job take O(1).
"""

from __future__ import annotations

import numpy as np

from gpusched_env.core.handle import helper
from gpusched_env.core.state import Run


def waiting_rows(sim: Run) -> np.ndarray:
    """int32: rows of the waiting jobs, ascending, as a view that the next decision may change."""
    first = sim.world["first_waiting"]
    return sim.waiting[first : first + sim.world["waiting"]]


@helper
def place_of(sim: Run, row: int) -> int:
    """Find the index of a job in the list or, if it is not in the list, the index at which it would be inserted."""
    at = sim.world["first_waiting"]
    end = at + sim.world["waiting"]
    while at < end:
        middle = (at + end) // 2
        if sim.waiting[middle] < row:
            at = middle + 1
        else:
            end = middle
    return at


@helper
def enqueue(sim: Run, row: int) -> None:
    """Insert a job into the list."""
    w = sim.world
    first, count = w["first_waiting"], w["waiting"]
    if first + count == sim.waiting.shape[0]:  # the unused entries are before the list
        for i in range(count):
            sim.waiting[i] = sim.waiting[first + i]
        first = 0
        w["first_waiting"] = 0
    at = first + count
    if count > 0 and sim.waiting[at - 1] > row:
        at = place_of(sim, row)
    if first > 0 and at - first < first + count - at:
        for i in range(first, at):
            sim.waiting[i - 1] = sim.waiting[i]
        at -= 1
        w["first_waiting"] -= 1
    else:
        for i in range(first + count, at, -1):
            sim.waiting[i] = sim.waiting[i - 1]
    sim.waiting[at] = row
    w["waiting"] += 1


@helper
def dequeue(sim: Run, row: int) -> None:
    """Remove a job from the list."""
    w = sim.world
    first, last = w["first_waiting"], (w["first_waiting"] + w["waiting"] - 1)
    at = first if sim.waiting[first] == row else place_of(sim, row)
    if at - first < last - at:
        for i in range(at, first, -1):
            sim.waiting[i] = sim.waiting[i - 1]
        w["first_waiting"] += 1
    else:
        for i in range(at, last):
            sim.waiting[i] = sim.waiting[i + 1]
    w["waiting"] -= 1
