"""What jobs are ordered by: a key, a rank among equal keys, and then the row; and how keys change as time passes."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from gpusched_env.core.events import attained_service, productive_s, seconds_left
from gpusched_env.simulator.jit import helper, int64
from gpusched_env.core.state import ACTIVE

Array = np.ndarray[Any, Any]

# How jobs are ordered.
ARRIVAL, SIZE, ATTAINED, QUEUES = range(4)

_TOLERANCE: Final = 1e-6  # [GPU s]: times of changes are computed from attained service and back
_PACE: Final = 1e-12  # by which a gang may run slower than on the ideal placement, of its pace: below all rounding
# What was computed once, and what the clock of now makes of it, are this close: [s], and [s] for each second of it.
NEAR_S: Final = 1e-3
NEAR: Final = 1e-9


@helper
def queue_of(thresholds: Array, attained: float) -> int:
    """Queue of a job by its attained service (Tiresias, NSDI 2019, section 3.2)."""
    queue = int64(0)
    for i in range(len(thresholds)):
        if thresholds[i] - _TOLERANCE <= attained:
            queue += 1
    return queue


@helper
def size_of(world: Array, jobs: Array, replicas: Array, list_: Array, b: int, row: int) -> float:
    """Sort key of a job: what is left of its run time, or what it has attained."""
    job = jobs[b, row]
    if list_[0]["order"] == SIZE:
        size = seconds_left(world, jobs, replicas, b, row)
    else:
        size = job["service_s"] + productive_s(world, replicas, b, int64(job["replica"]))
    return size * job["gpus"] if list_[0]["by_gpus"] else size


@helper
def queue_key(world: Array, jobs: Array, replicas: Array, list_: Array, thresholds: Array, b: int, row: int) -> float:
    """Sort key of a job by its queue; within a queue, running jobs may come first."""
    key = 2.0 * queue_of(thresholds, attained_service(world, jobs, replicas, b, row))
    return key + 1.0 if list_[0]["incumbents"] and jobs[b, row]["replica"] < 0 else key


@helper
def set_key(
    world: Array, jobs: Array, replicas: Array, list_: Array, thresholds: Array, keys: Array, ranks: Array, b: int,
    row: int,
) -> None:
    """Set what a job is ordered by."""
    r = list_[0]
    if r["order"] == QUEUES:
        ranks[row] = jobs[b, row]["first_start_s"]
        keys[row] = queue_key(world, jobs, replicas, list_, thresholds, b, row)
    elif r["order"] != ARRIVAL:
        keys[row] = size_of(world, jobs, replicas, list_, b, row)
        ranks[row] = 1.0 if r["order"] == SIZE and jobs[b, row]["replica"] < 0 else 0.0


@helper
def pace_of(list_: Array, gpus: int) -> float:
    """How fast the key of a running job of so many GPUs changes, if it keeps pace [1/s]."""
    r = list_[0]
    if r["order"] == QUEUES:
        return 0.0
    pace = 1.0 if r["order"] == ATTAINED else -1.0
    return pace * gpus if r["by_gpus"] else pace


@helper
def keeps_pace(world: Array, jobs: Array, replicas: Array, list_: Array, b: int, row: int) -> bool:
    """Tell whether a running job's key changes by ``pace_of`` until it stops, but for a change of queue."""
    w = world[b]
    job = jobs[b, row]
    gang = replicas[b, job["replica"]]
    if gang["phase"] != ACTIVE:
        return False
    order = list_[0]["order"]
    if order == QUEUES:
        return True
    if gang["since_s"] > w["clock_s"]:
        return False
    if order == ATTAINED:
        return True
    by_the_piece = w["slot_s"] > 0.0 or w["step_iterations"] > 0.0
    if by_the_piece or (w["contention"] > 0 and gang["first_use"] >= 0):
        return False
    return abs(job["iterations"] * gang["iteration_s"] - job["ideal_s"]) <= _PACE * job["ideal_s"]
