"""What jobs are ordered by: a key, a rank among equal keys, and then the row; and how keys change as time passes."""

from __future__ import annotations

from typing import Final

from gpusched_env.baselines.listed.state import ListState
from gpusched_env.core.events import attained_service, productive_s, seconds_left
from gpusched_env.core.handle import kernel
from gpusched_env.core.state import ACTIVE, Run

# How jobs are ordered.
ARRIVAL, SIZE, ATTAINED, QUEUES = range(4)

_TOLERANCE: Final = 1e-6  # [GPU s]: times of changes are computed from attained service and back
_PACE: Final = 1e-12  # by which a gang may run slower than on the ideal placement, of its pace: below all rounding
# What was computed once, and what the clock of now makes of it, are this close: [s], and [s] for each second of it.
NEAR_S: Final = 1e-3
NEAR: Final = 1e-9


@kernel
def queue_of(plan: ListState, attained: float) -> int:
    """Queue of a job by its attained service (Tiresias, NSDI 2019, section 3.2)."""
    queue = 0
    for i in range(len(plan.thresholds)):
        if plan.thresholds[i] - _TOLERANCE <= attained:
            queue += 1
    return queue


@kernel
def size_of(sim: Run, plan: ListState, row: int) -> float:
    """Sort key of a job: what is left of its run time, or what it has attained."""
    job = sim.jobs[row]
    if plan.memory["order"] == SIZE:
        size = seconds_left(sim, row)
    else:
        size = job["service_s"] + productive_s(sim, job["replica"])
    return size * job["gpus"] if plan.memory["by_gpus"] else size


@kernel
def queue_key(sim: Run, plan: ListState, row: int) -> float:
    """Sort key of a job by its queue; within a queue, running jobs may come first."""
    key = 2.0 * queue_of(plan, attained_service(sim, row))
    return key + 1.0 if plan.memory["incumbents"] and sim.jobs[row]["replica"] < 0 else key


@kernel
def set_key(sim: Run, plan: ListState, row: int) -> None:
    """Set what a job is ordered by."""
    r = plan.memory
    if r["order"] == QUEUES:
        plan.ranks[row] = sim.jobs[row]["first_start_s"]
        plan.keys[row] = queue_key(sim, plan, row)
    elif r["order"] != ARRIVAL:
        plan.keys[row] = size_of(sim, plan, row)
        plan.ranks[row] = 1.0 if r["order"] == SIZE and sim.jobs[row]["replica"] < 0 else 0.0


@kernel
def pace_of(plan: ListState, gpus: int) -> float:
    """How fast the key of a running job of so many GPUs changes, if it keeps pace [1/s]."""
    r = plan.memory
    if r["order"] == QUEUES:
        return 0.0
    pace = 1.0 if r["order"] == ATTAINED else -1.0
    return pace * gpus if r["by_gpus"] else pace


@kernel
def keeps_pace(sim: Run, plan: ListState, row: int) -> bool:
    """Tell whether a running job's key changes by ``pace_of`` until it stops, but for a change of queue."""
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
