"""The list of waiting jobs: ascending rows, from ``first_waiting`` on, so that who leaves or comes moves few others.

The oldest job leaves a long queue, and the newest joins it, without a move.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from gpusched_env.simulator.jit import helper, int64

if TYPE_CHECKING:
    from gpusched_env.simulator.state import State

Array = np.ndarray[Any, Any]


def waiting_rows(state: State, b: int) -> Array:
    """int32: rows of an environment's waiting jobs, ascending; what the next decision may write into."""
    first = state.world["first_waiting"][b]
    return state.waiting[b, first : first + state.world["waiting"][b]]


@helper
def place_of(world: Array, waiting: Array, b: int, row: int) -> int:
    """Find where in the list a job stands, or would stand."""
    at = int64(world[b]["first_waiting"])
    end = at + int64(world[b]["waiting"])
    while at < end:
        middle = (at + end) // 2
        if waiting[b, middle] < row:
            at = middle + 1
        else:
            end = middle
    return at


@helper
def enqueue(world: Array, waiting: Array, b: int, row: int) -> None:
    """Put a job into the list."""
    w = world[b]
    first, count = int64(w["first_waiting"]), int64(w["waiting"])
    if first + count == waiting.shape[1]:  # there is room before it: not all jobs wait
        for i in range(count):
            waiting[b, i] = waiting[b, first + i]
        first = int64(0)
        w["first_waiting"] = 0
    at = first + count
    if count > 0 and waiting[b, at - 1] > row:
        at = place_of(world, waiting, b, row)
    if first > 0 and at - first < first + count - at:
        for i in range(first, at):
            waiting[b, i - 1] = waiting[b, i]
        at -= 1
        w["first_waiting"] -= 1
    else:
        for i in range(first + count, at, -1):
            waiting[b, i] = waiting[b, i - 1]
    waiting[b, at] = row
    w["waiting"] += 1


@helper
def dequeue(world: Array, waiting: Array, b: int, row: int) -> None:
    """Take a job out of the list."""
    w = world[b]
    first, last = int64(w["first_waiting"]), int64(w["first_waiting"] + w["waiting"] - 1)
    at = first if waiting[b, first] == row else place_of(world, waiting, b, row)
    if at - first < last - at:
        for i in range(at, first, -1):
            waiting[b, i] = waiting[b, i - 1]
        w["first_waiting"] += 1
    else:
        for i in range(at, last):
            waiting[b, i] = waiting[b, i + 1]
    w["waiting"] -= 1
