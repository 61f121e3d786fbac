"""Order of jobs: by key, then by rank, then by row; and the rate at which keys change."""

from __future__ import annotations

from typing import Final

import numpy as np

from gpusched_env.baselines.estimates import NOISY, USER, claim_of, revised_at_s
from gpusched_env.baselines.list_policies.state import ListState
from gpusched_env.core.events import attained_service, productive_s, seconds_left
from gpusched_env.core.handle import helper, kernel
from gpusched_env.core.state import ACTIVE, Run

# The orders.
ARRIVAL, SIZE, ATTAINED, QUEUES = range(4)

_TOLERANCE: Final = 1e-6  # [GPU s] for rounding errors of the attained service at a computed change of queue
_PACE: Final = 1e-12  # maximum relative loss of speed of a gang that counts as running at its ideal speed
# A stored time and the same time recomputed at a later clock differ by less than NEAR_S [s] + NEAR x time.
NEAR_S: Final = 1e-3
NEAR: Final = 1e-9


@helper
def gang_of(sim: Run, row: int) -> int:
    """Return the number of GPUs that a job requests; of a rigid job, it is in the hot part of the record."""
    return sim.jobs[row]["asked"] if sim.world["elastic"] else sim.jobs[row]["gpus"]


@kernel(lazy=True)
def whole_s(sim: Run, plan: ListState, row: int) -> float:
    """Return the estimate of the whole run time of a job [s]."""
    job = sim.jobs[row]
    if plan.source["estimator"] >= USER:
        return claim_of(sim, plan, row, job["service_s"] + productive_s(sim, job["replica"]))
    return job["ideal_s"] * plan.told[row] if plan.source["estimator"] == NOISY else job["ideal_s"]


@helper
def queue_of(sim: Run, plan: ListState, row: int, attained: float) -> int:
    """Return the queue of a job by its attained service (Tiresias, NSDI 2019, section 3.2), or by all that it needs."""
    service = attained
    if plan.memory["by_claims"]:
        service = max(attained, gang_of(sim, row) * whole_s(sim, plan, row))
    queue = 0
    for i in range(len(plan.thresholds)):
        if plan.thresholds[i] - _TOLERANCE <= service:
            queue += 1
    return queue


@helper
def service_of(sim: Run, plan: ListState, row: int) -> float:
    """Return the time of progress of a job [s]; with ``by_held`` the time for which it has held its GPUs."""
    job = sim.jobs[row]
    if plan.memory["by_held"]:
        return plan.queued[row]["held_s"]
    return job["service_s"] + productive_s(sim, job["replica"])


@helper
def demoting_service(sim: Run, plan: ListState, row: int) -> float:
    """Return the attained service of a job since its last promotion [GPU s]."""
    service = service_of(sim, plan, row)
    if plan.memory["knob"] < np.inf:
        service -= plan.queued[row]["forgiven_s"]
    return gang_of(sim, row) * service


@kernel(lazy=True)
def claim_left_s(sim: Run, plan: ListState, row: int) -> float:
    """Return the rest of the claim of a job [s]."""
    had_s = sim.jobs[row]["service_s"] + productive_s(sim, sim.jobs[row]["replica"])
    return max(claim_of(sim, plan, row, had_s) - had_s, 0.0)


@kernel(lazy=True)
def revised_in_s(sim: Run, plan: ListState, row: int) -> float:
    """Return for how long a job makes progress from now on before its claim changes [s]."""
    had_s = sim.jobs[row]["service_s"] + productive_s(sim, sim.jobs[row]["replica"])
    return max(revised_at_s(sim, plan, row, had_s) - had_s, 0.0)


@helper
def estimated_s(sim: Run, plan: ListState, row: int) -> float:
    """Return the estimate of the run time that a job has left [s] (estimates.py)."""
    if plan.source["estimator"] >= USER:
        return claim_left_s(sim, plan, row)
    left_s = seconds_left(sim, row)
    return left_s * plan.told[row] if plan.source["estimator"] == NOISY else left_s


@helper
def size_of(sim: Run, plan: ListState, row: int) -> float:
    """Return the sort key of a job: remaining run time or attained service [s], or gang size x this time [GPU s]."""
    job = sim.jobs[row]
    if plan.memory["order"] == ATTAINED:
        if plan.memory["by_gpus"]:
            return attained_service(sim, row)
        return job["service_s"] + productive_s(sim, job["replica"])
    size = estimated_s(sim, plan, row)
    if plan.memory["by_gpus"]:
        size *= gang_of(sim, row)
    return -size if plan.memory["largest"] else size


@helper
def queue_key(sim: Run, plan: ListState, row: int) -> float:
    """Return the sort key of a job by its queue; with ``incumbents``, running jobs come first in their queue."""
    key = 2.0 * queue_of(sim, plan, row, demoting_service(sim, plan, row))
    return key + 1.0 if plan.memory["incumbents"] and sim.jobs[row]["replica"] < 0 else key


@kernel
def set_key(sim: Run, plan: ListState, row: int) -> None:
    """Set the key and the rank of a job."""
    r = plan.memory
    key = 0.0
    rank = 0.0
    if r["order"] == QUEUES:
        rank = plan.queued[row]["entered_s"] if r["by_entry"] else sim.jobs[row]["first_start_s"]
        key = queue_key(sim, plan, row)
    elif r["order"] != ARRIVAL:
        key = size_of(sim, plan, row)
        rank = 1.0 if r["order"] == SIZE and sim.jobs[row]["replica"] < 0 else 0.0
    plan.keys[row] = key
    plan.ranks[row] = rank


@helper
def pace_of(plan: ListState, gpus: int) -> float:
    """Rate at which the key of a running gang of ``gpus`` GPUs changes at its ideal speed [1/s]."""
    r = plan.memory
    if r["order"] == QUEUES:
        return 0.0
    pace = 1.0 if r["order"] == ATTAINED else -1.0
    return pace * gpus if r["by_gpus"] else pace


@helper
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
