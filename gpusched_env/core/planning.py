"""List scheduling: turn an order of jobs into preemptions and starts. Most published policies use list scheduling."""

from __future__ import annotations

import numpy as np

from gpusched_env.core.driver import NOTHING, PREEMPT, START, Choice
from gpusched_env.core.events import preempt_refusal
from gpusched_env.core.handle import Handle, array, helper, kernel
from gpusched_env.core.placement.placing import goes_anywhere_now, reserve
from gpusched_env.core.placement.shared import find_shared
from gpusched_env.core.placement.taking import FREE, rack_place, unable_somewhere, unreserve
from gpusched_env.core.refusals import APPLIED
from gpusched_env.core.reservations import is_down
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

    The value FREE marks the GPUs as free; the number of the replica makes it their holder again. GPUs of nodes that are
    down stay as they are.
    """
    change = 1 if value == FREE else -1
    recovers = sim.world["recovers"] > 0
    lent = 0
    seat = sim.replicas[replica]["first_gpu"]
    while seat >= 0:
        gpu = seat % sim.world["gpus"]
        alone = seat == gpu and (sim.world["gpu_jobs"] == 1 or sim.holder[gpu + sim.world["gpus"]] == FREE)
        if alone and not (recovers and is_down(sim, gpu)):
            node = sim.gpu_node[gpu]
            sim.holder[gpu] = value
            sim.free[node] += change
            sim.free[rack_place(sim, node)] += change
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
def select_within_budget(sim: Run, walk: Walk, count: int) -> bool:
    """Select jobs, in order, while their numbers of GPUs fit into the cluster; blocked jobs are left out.

    Returns whether the rules of all newcomers accept any free GPUs, so that no placement must be searched.
    """
    budget = sim.world["gpus"] - sim.world["down_gpus"]
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
    return located


@kernel
def block_alike(sim: Run, walk: Walk, count: int, first: int) -> None:
    """Block the job at a position, and the later jobs that must not overtake it: blocking all now saves passes."""
    gang = sim.jobs[walk.order[first]]["gpus"]
    kind = sim.jobs[walk.order[first]]["job_class"]
    everywhere = not unable_somewhere(sim, kind) and sim.world["parted"] == 0
    for i in range(first, count):
        job = sim.jobs[walk.order[i]]
        alike = job["gpus"] == gang and walk.rules[i] == walk.rules[first]
        if job["status"] == WAITING and alike and (everywhere or job["job_class"] == kind):
            walk.verdicts[i] = BLOCKED


@helper
def frees_in_plan(sim: Run, walk: Walk, at: int, now: bool) -> bool:
    """Return whether a running job frees its GPUs in the plan: at once (``now``), or at the end of its checkpoint."""
    if now:
        return walk.verdicts[at] == SKIPPED and frees_at_once(sim, walk.order[at])
    job = sim.jobs[walk.order[at]]
    return job["status"] != WAITING and (
        walk.verdicts[at] == SKIPPED or sim.replicas[job["replica"]]["phase"] == CHECKPOINTING
    )


@kernel
def lend_all(sim: Run, walk: Walk, count: int, now: bool) -> int:
    """Mark the GPUs of all jobs that free them as free; return the number of free GPUs."""
    supply = sim.world["free_gpus"]
    for i in range(count):
        if frees_in_plan(sim, walk, i, now):
            supply += lend(sim, sim.jobs[walk.order[i]]["replica"], FREE)
    return supply


@kernel
def take_back(sim: Run, walk: Walk, count: int, now: bool) -> None:
    """Undo :func:`lend_all`."""
    for i in range(count):
        if frees_in_plan(sim, walk, i, now):
            number = sim.jobs[walk.order[i]]["replica"]
            lend(sim, number, number)


@kernel
def all_find_places(sim: Run, walk: Walk, count: int) -> bool:
    """Return whether all newcomers find a placement once the others have freed their GPUs; block one that does not."""
    supply = lend_all(sim, walk, count, False)
    placed = 0
    without = -1
    for i in range(count):
        if walk.verdicts[i] == NEWCOMER:
            job = sim.jobs[walk.order[i]]
            end = reserve(sim, placed, job["job_class"], job["gpus"], walk.rules[i], supply)
            if end == placed:
                without = i
                break
            supply -= end - placed
            placed = end
    unreserve(sim, 0, placed)
    take_back(sim, walk, count, False)
    if without < 0:
        return True
    block_alike(sim, walk, count, without)
    return False


@kernel
def choose_starts(sim: Run, walk: Walk, count: int) -> int:
    """Find the newcomers that can start now, and mark the others NOT_NOW; return the number of those that can."""
    supply = lend_all(sim, walk, count, True)
    placed = 0
    starting = 0
    held_up = False
    for i in range(count):
        if walk.verdicts[i] == NEWCOMER:
            job = sim.jobs[walk.order[i]]
            end = placed
            if not held_up:
                end = reserve(sim, placed, job["job_class"], job["gpus"], walk.rules[i], supply)
            if end > placed:
                supply -= end - placed
                placed = end
                starting += 1
            else:
                walk.verdicts[i] = NOT_NOW
                # The GPUs of this job are still in a checkpoint; a later job that started now might take some of them.
                held_up = held_up or not goes_anywhere_now(sim, job["job_class"], walk.rules[i])
    unreserve(sim, 0, placed)
    take_back(sim, walk, count, True)
    return starting


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
    for i in range(count):
        walk.verdicts[i] = SKIPPED
    random = sim.world["random"]
    while not select_within_budget(sim, walk, count):
        if all_find_places(sim, walk, count):
            break
    starting = choose_starts(sim, walk, count)
    sim.world["random"] = random
    return starting


@kernel
def next_of_plan(sim: Run, choice: Choice, walk: Walk, count: int) -> int:
    """Write the next decision of the plan of :func:`plan_preemptive`, and return its kind; NOTHING = no more.

    Running jobs that are SKIPPED are preempted first, then each NEWCOMER starts. ``at`` of the choice counts the jobs
    that have been looked at, once for either.
    """
    c = choice.made
    for i in range(c["at"], count):
        runs = walk.verdicts[i] == SKIPPED and sim.jobs[walk.order[i]]["replica"] >= 0
        if runs and preempt_refusal(sim, walk.order[i]) == APPLIED:
            c["at"] = i + 1
            c["row"] = walk.order[i]
            return PREEMPT
    for i in range(max(c["at"] - count, 0), count):
        if walk.verdicts[i] == NEWCOMER:
            c["at"] = count + i + 1
            c["row"] = walk.order[i]
            c["rule"] = walk.rules[i]
            c["gpus"] = 0  # the rule chooses them
            c["sub_steps"] = 0
            return START
    c["at"] = 2 * count
    return NOTHING
