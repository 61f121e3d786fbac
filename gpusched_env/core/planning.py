"""List scheduling: turn an order of jobs into preemptions and starts. Most published policies use list scheduling."""

from __future__ import annotations

import numpy as np

from gpusched_env.core.handle import Handle, array, kernel
from gpusched_env.core.placement.placing import goes_anywhere_now, reserve
from gpusched_env.core.placement.shared import find_shared
from gpusched_env.core.placement.taking import FREE, unable_somewhere, unreserve
from gpusched_env.core.state import ACTIVE, CHECKPOINTING, WAITING, Run


class Walk(Handle):
    """Jobs in order of priority, highest first, with the placement rule of each job and the result of planning."""

    order = array(np.int32, "walked")  # rows of the jobs
    rules = array(np.int32, "walked")  # numbers of their placement rules
    verdicts = array(np.int32, "walked")


@kernel
def plan_starts(sim: Run, walk: Walk, count: int, strict: bool) -> int:
    """Find those of the waiting jobs ``order[:count]`` that can start now; no job is started.

    If a job does not fit, the search continues with the next job, or with ``strict`` it ends. Writes the positions in
    ``order`` of the jobs that can start to ``verdicts``, and returns their number.
    """
    random = sim.world["random"]
    supply = sim.world["free_gpus"]
    found = 0
    at = 0
    for i in range(count):
        if supply == 0:
            break
        gang = sim.jobs[walk.order[i]]["gpus"]
        kind = sim.jobs[walk.order[i]]["job_class"]
        rule = walk.rules[i]
        end = reserve(sim, at, kind, gang, rule, supply)
        if end > at:
            walk.verdicts[found] = i
            found += 1
            supply -= end - at
            at = end
        elif strict:
            break
    unreserve(sim, 0, at)
    sim.world["random"] = random
    return found


@kernel
def first_shared(sim: Run, walk: Walk, count: int, begin: int, choices: int, strict: bool) -> int:
    """Find the first of the waiting jobs ``order[begin:count]`` that can start now, on shared GPUs if necessary.

    With ``strict``, only the job ``order[begin]`` is tried. Writes the GPUs of the job to ``chosen``, and the index of
    its sub-batch in ``sub_batches`` to ``verdicts``. Returns the position of the job in ``order``; ``count`` = no job
    can start.
    """
    for i in range(begin, count):
        found, option = find_shared(sim, walk.order[i], choices)
        if found > 0:
            walk.verdicts[i] = option
            return i
        if strict:
            break
    return count


@kernel
def lend(sim: Run, replica: int, value: int) -> int:
    """Write ``value`` as the holder of the GPUs that only this replica holds; return the number of these GPUs.

    The value FREE marks the GPUs as free; the number of the replica makes it their holder again.
    """
    change = 1 if value == FREE else -1
    lent = 0
    seat = sim.replicas[replica]["first_gpu"]
    while seat >= 0:
        gpu = seat % sim.world["gpus"]
        if seat == gpu and (sim.world["gpu_jobs"] == 1 or sim.holder[gpu + sim.world["gpus"]] == FREE):
            node = sim.gpu_node[gpu]
            sim.holder[gpu] = value
            sim.free[node] += change
            sim.free[sim.nodes.shape[0] + sim.nodes[node]["rack"]] += change
            lent += 1
        seat = sim.gpu_next[seat]
    return lent


@kernel
def held(sim: Run, row: int) -> int:
    """Return the GPUs that a job holds, all copies included, or that it requests if it waits [GPU]."""
    number = sim.jobs[row]["replica"]
    return sim.jobs[row]["gpus"] if number < 0 else sim.replicas[number]["gpus"]


@kernel
def frees_at_once(sim: Run, row: int) -> bool:
    """Return whether the GPUs of the job would be free at once if the job were preempted now."""
    number = sim.jobs[row]["replica"]
    if number < 0 or sim.world["checkpoint_s"] > 0.0:
        return False
    return sim.replicas[number]["phase"] == ACTIVE and sim.replicas[number]["start_s"] < sim.world["clock_s"]


SKIPPED, KEPT, NEWCOMER, BLOCKED, NOT_NOW = range(5)


@kernel
def plan_preemptive(sim: Run, walk: Walk, count: int) -> int:
    """Decide which jobs should hold GPUs if running jobs may be preempted; return the number of jobs to start now.

    The jobs ``order[:count]`` are waiting and running jobs, highest priority first. The kernel goes through them with
    all GPUs of the cluster as its budget, and selects each job that fits into the rest of the budget (Tiresias, NSDI
    2019). Selected running jobs keep their GPUs. Selected waiting jobs are placed, in order, on the remaining GPUs. In
    this step, GPUs of gangs in a checkpoint count as free, because they will be free soon.

    If a job finds no placement, the job is blocked, and so are all later jobs of the same size and placement rule (and
    of the same class, if the class cannot run on every GPU type). The kernel then begins again without these jobs.

    The results are in ``verdicts[:count]``:

    - KEPT: the job runs and keeps its GPUs.
    - NEWCOMER: start the job now.
    - NOT_NOW: the job is selected but cannot start now. Its GPUs are still in a checkpoint, or it waits behind a job of
      higher priority that is NOT_NOW and needs particular GPUs.
    - SKIPPED: the job is not selected; preempt it if it runs.
    - BLOCKED: the job finds no placement.
    """
    w = sim.world
    for i in range(count):
        walk.verdicts[i] = SKIPPED
    random = w["random"]
    again = True
    while again:
        again = False
        # 1. Select jobs by their numbers of GPUs.
        budget = w["gpus"]
        placed = 0
        located = True
        for i in range(count):
            if walk.verdicts[i] == BLOCKED:
                continue
            job = sim.jobs[walk.order[i]]
            walk.verdicts[i] = SKIPPED
            size = held(sim, walk.order[i])
            if size <= budget:
                budget -= size
                if job["status"] == WAITING:
                    walk.verdicts[i] = NEWCOMER
                    located = located and goes_anywhere_now(sim, job["job_class"], walk.rules[i])
                else:
                    walk.verdicts[i] = KEPT
        if located:
            break
        # 2. Check that each selected job finds a placement. This is unnecessary if all rules accept any free GPUs.
        supply = w["free_gpus"]
        for i in range(count):
            job = sim.jobs[walk.order[i]]
            if job["status"] != WAITING and (
                walk.verdicts[i] == SKIPPED or sim.replicas[job["replica"]]["phase"] == CHECKPOINTING
            ):
                supply += lend(sim, job["replica"], FREE)
        for i in range(count):
            if walk.verdicts[i] == NEWCOMER:
                gang = sim.jobs[walk.order[i]]["gpus"]
                kind = sim.jobs[walk.order[i]]["job_class"]
                rule = walk.rules[i]
                end = reserve(sim, placed, kind, gang, rule, supply)
                if end == placed:
                    # A later job of the same kind must not overtake this one. Blocking all of them here saves passes.
                    everywhere = not unable_somewhere(sim, kind)
                    for j in range(i, count):
                        job = sim.jobs[walk.order[j]]
                        alike = job["gpus"] == gang and walk.rules[j] == walk.rules[i]
                        if job["status"] == WAITING and alike and (everywhere or job["job_class"] == kind):
                            walk.verdicts[j] = BLOCKED
                    again = True
                    break
                supply -= end - placed
                placed = end
        unreserve(sim, 0, placed)
        for i in range(count):
            job = sim.jobs[walk.order[i]]
            if job["status"] != WAITING and (
                walk.verdicts[i] == SKIPPED or sim.replicas[job["replica"]]["phase"] == CHECKPOINTING
            ):
                number = job["replica"]
                lend(sim, number, number)
    # 3. Find the jobs that can start now. Victims free their GPUs at once only if a checkpoint takes no time.
    supply = w["free_gpus"]
    for i in range(count):
        if walk.verdicts[i] == SKIPPED and frees_at_once(sim, walk.order[i]):
            number = sim.jobs[walk.order[i]]["replica"]
            supply += lend(sim, number, FREE)
    placed = 0
    starting = 0
    held_up = False
    for i in range(count):
        if walk.verdicts[i] == NEWCOMER:
            gang = sim.jobs[walk.order[i]]["gpus"]
            kind = sim.jobs[walk.order[i]]["job_class"]
            end = placed
            if not held_up:
                rule = walk.rules[i]
                end = reserve(sim, placed, kind, gang, rule, supply)
            if end > placed:
                supply -= end - placed
                placed = end
                starting += 1
            else:
                walk.verdicts[i] = NOT_NOW
                # The GPUs of this job are still in a checkpoint; a later job that started now might take some of them.
                held_up = held_up or not goes_anywhere_now(sim, kind, walk.rules[i])
    unreserve(sim, 0, placed)
    for i in range(count):
        if walk.verdicts[i] == SKIPPED and frees_at_once(sim, walk.order[i]):
            number = sim.jobs[walk.order[i]]["replica"]
            lend(sim, number, number)
    w["random"] = random
    return starting
