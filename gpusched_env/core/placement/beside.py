"""Placement beside one running gang, which the caller names (the environment's action "join")."""

from __future__ import annotations

from gpusched_env.core.handle import kernel
from gpusched_env.core.placement.shared import EVERYWHERE, append_by_id, append_gpus_of
from gpusched_env.core.sharing.partners import has_room
from gpusched_env.core.state import ACTIVE, WAITING, Run


@kernel
def room_beside(sim: Run, kind: int, option: int, number: int) -> int:
    """Count the GPUs of a running gang that have room for a job class with a sub-batch; 0 during its checkpoint."""
    count = 0
    if sim.replicas[number]["phase"] != ACTIVE:
        return count
    seat = sim.replicas[number]["first_gpu"]
    while seat >= 0:
        gpu = seat % sim.world["gpus"]
        if has_room(sim, kind, option, gpu):
            count += 1
        seat = sim.gpu_next[seat]
    return count


@kernel(lazy=True)
def find_beside(sim: Run, row: int, partner: int, option: int) -> tuple[int, int]:
    """Write the GPUs on which a waiting job would join the running job ``partner`` to ``chosen``; reserve nothing.

    The job gets the partner's GPUs that have room, in ascending order, then free GPUs. ``option`` is an index into
    ``sub_batches``; -1 = the largest sub-batch with which the job fits. Returns the number of GPUs (0 = the job does
    not fit) and the index of the sub-batch.
    """
    most = sim.world["jobs"]
    if row < 0 or row >= most or sim.jobs[row]["status"] != WAITING or sim.world["gpu_jobs"] == 1:
        return 0, 0
    if partner < 0 or partner >= most or sim.jobs[partner]["replica"] < 0:
        return 0, 0
    number = sim.jobs[partner]["replica"]
    if sim.replicas[number]["phase"] != ACTIVE:
        return 0, 0
    gang = sim.jobs[row]["gpus"]
    kind = sim.jobs[row]["job_class"]
    for size in range(sim.sub_batches.shape[1]):
        if sim.sub_batches[kind, size, 0]["sub_steps"] == 0 or (option >= 0 and size != option):
            continue
        at = append_gpus_of(sim, row, 0, size, number, EVERYWHERE)
        if at > 0:
            at = append_by_id(sim, row, at, size, False, EVERYWHERE)
        if at == gang:
            return gang, size
    return 0, 0
