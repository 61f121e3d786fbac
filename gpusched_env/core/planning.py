"""List scheduling: turn an order of jobs into preemptions and starts. Most published policies are built on it."""

from __future__ import annotations

import numpy as np

from gpusched_env.core.handle import Handle, array, kernel
from gpusched_env.core.placement.placing import goes_anywhere_now, reserve
from gpusched_env.core.placement.shared import find_shared
from gpusched_env.core.placement.taking import FREE, unable_somewhere, unreserve
from gpusched_env.core.state import ACTIVE, CHECKPOINTING, WAITING, Run


class Walk(Handle):
    """Jobs in priority order, best first, each with its placement rule and its verdict."""

    order = array(np.int32, "walked")  # rows
    rules = array(np.int32, "walked")  # numbers of rules
    verdicts = array(np.int32, "walked")


@kernel
def plan_starts(sim: Run, walk: Walk, count: int, strict: bool) -> int:
    """Walk the waiting jobs ``order[:count]`` and list those that can start now; nothing is started.

    With ``strict`` the walk stops at the first job that does not fit; otherwise it skips that job. Fills ``verdicts``
    with positions in ``order`` and returns their number.
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

    With ``strict`` only the job ``order[begin]`` is tried. Writes the GPUs of the job found to ``chosen``, and its
    option of ``sub_batches`` to its verdict. Returns its position in ``order``; ``count`` = there is none.
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
def _lend(sim: Run, replica: int, value: int) -> int:
    """Mark the GPUs that only this replica holds as free (``value`` FREE), or as its own again (``value`` its number).

    Returns the number of these GPUs.
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
    """GPUs that a running job holds, all copies included, or that a waiting job asks for [GPU]."""
    number = sim.jobs[row]["replica"]
    return sim.jobs[row]["gpus"] if number < 0 else sim.replicas[number]["gpus"]


@kernel
def frees_at_once(sim: Run, row: int) -> bool:
    """Tell whether a preemption of the job would free its GPUs in this instant."""
    number = sim.jobs[row]["replica"]
    if number < 0 or sim.world["checkpoint_s"] > 0.0:
        return False
    return sim.replicas[number]["phase"] == ACTIVE and sim.replicas[number]["start_s"] < sim.world["clock_s"]


SKIPPED, KEPT, NEWCOMER, BLOCKED, NOT_NOW = range(5)


@kernel
def plan_preemptive(sim: Run, walk: Walk, count: int) -> int:
    """Decide which jobs should hold GPUs when running jobs may be preempted; return how many are to start now.

    Walks ``order[:count]`` (waiting and running jobs, best first) with all GPUs of the cluster as budget, and takes
    each job that fits into what is left of the budget (Tiresias, NSDI 2019). Taken running jobs keep their GPUs. Taken
    waiting jobs are placed, in order, on the remaining GPUs. If a job finds no place, it and all later jobs of its size
    and rule (and of its class, if the class cannot run on every GPU type) are blocked, and the walk starts again
    without them. GPUs of gangs that are being checkpointed count as free in this check, since they soon will be.

    Fills ``verdicts[:count]``: KEPT; NEWCOMER (start it now); NOT_NOW (taken, but its GPUs, or those of a better gang
    that needs a particular place, are still being checkpointed); SKIPPED (preempt it if it runs); BLOCKED (no place).
    """
    w = sim.world
    for i in range(count):
        walk.verdicts[i] = SKIPPED
    random = w["random"]
    again = True
    while again:
        again = False
        # 1. Take jobs by GPU count.
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
        # 2. Check that each taken job finds a place; unnecessary if all rules accept any free GPUs.
        supply = w["free_gpus"]
        for i in range(count):
            job = sim.jobs[walk.order[i]]
            if job["status"] != WAITING and (
                walk.verdicts[i] == SKIPPED or sim.replicas[job["replica"]]["phase"] == CHECKPOINTING
            ):
                supply += _lend(sim, job["replica"], FREE)
        for i in range(count):
            if walk.verdicts[i] == NEWCOMER:
                gang = sim.jobs[walk.order[i]]["gpus"]
                kind = sim.jobs[walk.order[i]]["job_class"]
                rule = walk.rules[i]
                end = reserve(sim, placed, kind, gang, rule, supply)
                if end == placed:
                    # A worse gang of the same kind must not overtake it; blocking all of them here saves passes.
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
                _lend(sim, number, number)
    # 3. Find the jobs that can start now: victims free their GPUs at once only if a checkpoint takes no time.
    supply = w["free_gpus"]
    for i in range(count):
        if walk.verdicts[i] == SKIPPED and frees_at_once(sim, walk.order[i]):
            number = sim.jobs[walk.order[i]]["replica"]
            supply += _lend(sim, number, FREE)
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
                # Its place is still being checkpointed, and a job that started now might take part of it.
                held_up = held_up or not goes_anywhere_now(sim, kind, walk.rules[i])
    unreserve(sim, 0, placed)
    for i in range(count):
        if walk.verdicts[i] == SKIPPED and frees_at_once(sim, walk.order[i]):
            number = sim.jobs[walk.order[i]]["replica"]
            _lend(sim, number, number)
    w["random"] = random
    return starting
