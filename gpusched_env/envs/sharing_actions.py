"""Kernels of the start actions where jobs may share GPUs: which gangs a job may join, and which starts are feasible.

Queue slot k has ``(P + C) x S`` starts for P placement rules, C partner slots and S sub-batches: first by each rule,
then beside each partner, each at every sub-batch.
"""

from __future__ import annotations

from gpusched_env.core.handle import kernel
from gpusched_env.core.placement.beside import room_beside
from gpusched_env.core.placement.taking import unable
from gpusched_env.core.sharing.seats import MEMORY_SLACK, has_seat, largest_sub_batch
from gpusched_env.core.state import ACTIVE, Run
from gpusched_env.envs.env_arrays import EnvArrays


@kernel
def open_gpus(sim: Run, number: int) -> int:
    """Count the GPUs of a running gang with a free seat for one more job; 0 while the gang is checkpointed."""
    count = 0
    if sim.replicas[number]["phase"] == ACTIVE:
        seat = sim.replicas[number]["first_gpu"]
        while seat >= 0:
            gpu = seat % sim.world["gpus"]
            if has_seat(sim, gpu):
                count += 1
            seat = sim.gpu_next[seat]
    return count


@kernel
def room_alone(sim: Run, kind: int, option: int) -> int:
    """Count the free GPUs on which a job class can run at a sub-batch."""
    count = 0
    for n in range(sim.world["nodes"]):
        gpu_type = sim.nodes[n]["gpu_type"]
        if sim.sub_batches[kind, option, gpu_type]["memory"] <= 1.0 + MEMORY_SLACK and not unable(sim, kind, n):
            count += sim.free[n]
    return count


@kernel
def chosen_steps(sim: Run, kind: int, sizes: int, size: int) -> int:
    """Sub-steps of the sub-batch that an action names; 0 = actions name none (``sizes`` 0), -1 = no such sub-batch."""
    if sizes == 0:
        return 0
    if size >= sim.sub_batches.shape[1] or sim.sub_batches[kind, size, 0]["sub_steps"] == 0:
        return -1
    return sim.sub_batches[kind, size, 0]["sub_steps"]


@kernel
def place_beside(sim: Run, row: int, number: int, option: int) -> bool:
    """Return whether :func:`find_beside` would find a place at a sub-batch, by counting GPUs only."""
    kind = sim.jobs[row]["job_class"]
    room = room_beside(sim, kind, option, number)
    if room == 0:
        return False
    gang = sim.jobs[row]["gpus"]
    return room >= gang or room + room_alone(sim, kind, option) >= gang


@kernel
def mark_sizes(sim: Run, env: EnvArrays, row: int, found: int, option: int, at: int) -> int:
    """Mark, from ``at`` on, the sub-batches at which a job can start on the ``found`` GPUs in ``chosen``; count them.

    ``option`` is the sub-batch that the rule chose, -1 = none. It is used only if actions name no sub-batch.
    """
    sizes = env.config["sub_batches"]
    choices = 0
    kind = sim.jobs[row]["job_class"] if row >= 0 else 0
    for size in range(max(sizes, 1)):
        steps = chosen_steps(sim, kind, sizes, size)
        if sizes == 0 and option >= 0:
            steps = sim.sub_batches[kind, option, 0]["sub_steps"]
        env.mask[at + size] = 0
        if found > 0 and steps >= 0 and largest_sub_batch(sim, kind, found, steps) >= 0:
            env.mask[at + size] = 1
            choices += 1
    return choices


@kernel
def mark_partners(sim: Run, env: EnvArrays, slot: int, at: int) -> int:
    """Mark, from ``at`` on, the feasible starts of the job in a queue slot beside each partner; count them.

    Jobs of one class can join the same partners, so the marks of an earlier slot of the same class are copied.
    """
    sizes = env.config["sub_batches"]
    slot_starts = (len(env.rules) + len(env.partners)) * max(sizes, 1)
    choices = 0
    row = env.queue[slot]
    kind = sim.jobs[row]["job_class"] if row >= 0 else 0
    for earlier in range(slot):
        if row >= 0 and env.queue[earlier] >= 0 and sim.jobs[env.queue[earlier]]["job_class"] == kind:
            back = (slot - earlier) * slot_starts
            for i in range(at, at + len(env.partners) * max(sizes, 1)):
                env.mask[i] = env.mask[i - back]
                choices += int(env.mask[i])
            return choices
    for i in range(len(env.partners)):
        number = sim.jobs[env.partners[i]]["replica"] if env.partners[i] >= 0 else -1
        for size in range(max(sizes, 1)):
            env.mask[at] = 0
            first = size if sizes > 0 else 0
            end = size + 1 if sizes > 0 else sim.sub_batches.shape[1]
            for option in range(first, min(end, sim.sub_batches.shape[1])):
                if row < 0 or number < 0 or env.mask[at] == 1 or sim.sub_batches[kind, option, 0]["sub_steps"] == 0:
                    continue
                if place_beside(sim, row, number, option):
                    env.mask[at] = 1
                    choices += 1
            at += 1
    return choices
