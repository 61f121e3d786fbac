"""Order of jobs: by key, then by rank, then by row; and the rate at which keys change."""

from __future__ import annotations

from typing import Final

from gpusched_env.baselines.listed.state import ListState
from gpusched_env.core.events import attained_service, productive_s, seconds_left
from gpusched_env.core.handle import kernel
from gpusched_env.core.state import ACTIVE, Run

# The orders.
ARRIVAL, SIZE, ATTAINED, QUEUES = range(4)

_TOLERANCE: Final = 1e-6  # [GPU s] for rounding errors of the attained service at a computed change of queue
_PACE: Final = 1e-12  # maximum relative loss of speed of a gang that counts as running at its ideal speed
# A stored time and the same time recomputed at a later clock differ by less than NEAR_S [s] + NEAR x time.
NEAR_S: Final = 1e-3
NEAR: Final = 1e-9


@kernel
def queue_of(plan: ListState, attained: float) -> int:
    """Return the queue of a job by its attained service (Tiresias, NSDI 2019, section 3.2)."""
    queue = 0
    for i in range(len(plan.thresholds)):
        if plan.thresholds[i] - _TOLERANCE <= attained:
            queue += 1
    return queue


@kernel
def size_of(sim: Run, plan: ListState, row: int) -> float:
    """Return the sort key of a job: remaining run time or attained service [s], or gang size x this time [GPU s]."""
    job = sim.jobs[row]
    if plan.memory["order"] == SIZE:
        size = seconds_left(sim, row)
    else:
        size = job["service_s"] + productive_s(sim, job["replica"])
    return size * job["gpus"] if plan.memory["by_gpus"] else size


@kernel
def queue_key(sim: Run, plan: ListState, row: int) -> float:
    """Return the sort key of a job by its queue; with ``incumbents``, running jobs come first in their queue."""
    key = 2.0 * queue_of(plan, attained_service(sim, row))
    return key + 1.0 if plan.memory["incumbents"] and sim.jobs[row]["replica"] < 0 else key


@kernel
def set_key(sim: Run, plan: ListState, row: int) -> None:
    """Set the key and the rank of a job."""
    r = plan.memory
    if r["order"] == QUEUES:
        plan.ranks[row] = sim.jobs[row]["first_start_s"]
        plan.keys[row] = queue_key(sim, plan, row)
    elif r["order"] != ARRIVAL:
        plan.keys[row] = size_of(sim, plan, row)
        plan.ranks[row] = 1.0 if r["order"] == SIZE and sim.jobs[row]["replica"] < 0 else 0.0


@kernel
def pace_of(plan: ListState, gpus: int) -> float:
    """Rate at which the key of a running gang of ``gpus`` GPUs changes at its ideal speed [1/s]."""
    r = plan.memory
    if r["order"] == QUEUES:
        return 0.0
    pace = 1.0 if r["order"] == ATTAINED else -1.0
    return pace * gpus if r["by_gpus"] else pace


@kernel
def keeps_pace(sim: Run, plan: ListState, row: int) -> bool:
    """Return whether a running job's key will change at the rate ``pace_of`` until it stops or changes its queue."""
    w = sim.world
    job = sim.jobs[row]
    gang = sim.replicas[job["replica"]]
    if gang["phase"] != ACTIVE:
        return False
    order = plan.memory["order"]
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
