"""The order in which jobs are asked: their sort keys, and sorted arrays of rows."""

from __future__ import annotations

import numpy as np

from gpusched_env.baselines.dally.state import Delay
from gpusched_env.core.handle import helper, kernel
from gpusched_env.core.state import Run
from gpusched_env.portable.keys import rounded_key

Array = np.ndarray

BY_NW, BY_GPU_TIME, BY_ARRIVAL, BY_FIRST_START = range(4)


@kernel
def compared(delay: Delay, nw: float) -> float:
    """Return an Nw as it is compared: rounded, or with all its bits."""
    return rounded_key(nw) if delay.rules["rounded"] else nw


@kernel
def rank(sim: Run, delay: Delay, row: int, left: float, run_s: float, gpu_s: float) -> None:
    """Set Nw and the sort key of a job from its remaining work, running seconds and GPU-seconds."""
    task = delay.tasks[row]
    if run_s > 0.0:
        # The operations and their order are those of the authors' code: with all its bits, their rounding errors
        # decide between jobs that tie in theory, such as jobs without communication, whose Nw is 1.
        task["nw"] = compared(delay, (1.0 - left / task["iterations"]) / (run_s / task["ideal_s"]))
    if delay.rules["priority"] == BY_NW:
        task["key"] = task["nw"]
    elif delay.rules["priority"] == BY_GPU_TIME:
        task["key"] = gpu_s
    elif delay.rules["priority"] == BY_FIRST_START:  # latest first start first; jobs that never started come last
        first_s = sim.jobs[row]["first_start_s"]
        task["key"] = -first_s if first_s < np.inf else np.inf
    else:
        task["key"] = row  # rows ascend by arrival


@kernel
def before(delay: Delay, one: int, other: int) -> bool:
    """Return whether one job is asked before another: smaller key, then longer time without GPUs, then lower row."""
    first = delay.tasks[one]
    second = delay.tasks[other]
    if first["key"] != second["key"]:
        return first["key"] < second["key"]
    if first["last_s"] != second["last_s"]:
        return first["last_s"] < second["last_s"]
    return first["id"] < second["id"]


@helper
def insert(delay: Delay, line: Array, length: int, row: int) -> None:
    """Insert a job into a sorted array of ``length`` jobs."""
    at = length
    while at > 0 and before(delay, row, line[at - 1]):
        line[at] = line[at - 1]
        at -= 1
    line[at] = row


@helper
def remove(line: Array, length: int, row: int) -> None:
    """Remove a job from an array of ``length`` jobs."""
    at = 0
    while line[at] != row:
        at += 1
    for i in range(at, length - 1):
        line[i] = line[i + 1]


@helper
def enqueue(delay: Delay, row: int) -> None:
    """Insert a job that waits into the queue."""
    insert(delay, delay.queue, delay.rules["queued"], row)
    delay.rules["queued"] += 1
