"""List scheduling: turn an order of jobs into preemptions and starts. One mechanism under most published policies."""

from __future__ import annotations

import numpy as np

from gpusched_env.core.handle import Handle, array, kernel
from gpusched_env.core.placement.placing import goes_anywhere_now, reserve
from gpusched_env.core.placement.shared import find_shared
from gpusched_env.core.placement.taking import FREE, unable_somewhere, unreserve
from gpusched_env.core.state import ACTIVE, CHECKPOINTING, WAITING, Run


class Walk(Handle):
    """Jobs in an order, best first, each with its placement rule, and what is found for each."""

    order = array(np.int32, "walked")  # rows
    rules = array(np.int32, "walked")  # numbers
    verdicts = array(np.int32, "walked")


@kernel
def plan_starts(sim: Run, walk: Walk, count: int, strict: bool) -> int:
    """Walk the waiting jobs ``order[:count]`` and list those that can start now; nothing is started.

    ``strict`` stops at the first job that does not fit; else the walk goes on. Fills ``verdicts`` with positions in
    ``order`` and returns their number.
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
    """Find the first of the waiting jobs ``order[begin:count]`` that can start now, beside others if need be.

    Writes its GPUs to ``chosen`` and its option of ``sub_batches`` to its verdict. Returns its position in ``order``,
    ``count`` if there is none.
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
    """Pretend that the GPUs that a replica alone holds are free (``value`` FREE), or give them back to it (its number).

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
    """GPUs that a running job holds, of all its copies; those that a waiting one asks for [GPU]."""
    number = sim.jobs[row]["replica"]
    return sim.jobs[row]["gpus"] if number < 0 else sim.replicas[number]["gpus"]


@kernel
def frees_at_once(sim: Run, row: int) -> bool:
    """Tell whether preempting a job would free its GPUs in this instant."""
    number = sim.jobs[row]["replica"]
    if number < 0 or sim.world["checkpoint_s"] > 0.0:
        return False
    return sim.replicas[number]["phase"] == ACTIVE and sim.replicas[number]["start_s"] < sim.world["clock_s"]


SKIPPED, KEPT, NEWCOMER, BLOCKED, NOT_NOW = range(5)


@kernel
def plan_preemptive(sim: Run, walk: Walk, count: int) -> int:
    """Decide who should hold GPUs when running jobs may be preempted; return how many are to start now.

    Walks ``order[:count]`` (waiting and running jobs, best first) with all GPUs of the cluster as budget and takes what
    fits (Tiresias, NSDI 2019). Taken running jobs keep their GPUs. Taken waiting jobs are placed, in order, on what the
    others leave; one that finds no place hands its budget on, and so do worse gangs of its size and rule. GPUs of gangs
    that are just being checkpointed count as free here, since they will be soon.

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
        # 1. Who is taken, by GPU count.
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
        # 2. Does everyone taken find a place? Only rules that may refuse enough free GPUs need the look.
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
                    # Nor shall a worse gang of the same kind pass it; blocking all at once also spares a round each.
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
    # 3. Who can start now: victims free their GPUs at once only if a checkpoint costs nothing.
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
                # Its place is still being checkpointed: whoever started now might take part of it for good.
                held_up = held_up or not goes_anywhere_now(sim, kind, walk.rules[i])
    unreserve(sim, 0, placed)
    for i in range(count):
        if walk.verdicts[i] == SKIPPED and frees_at_once(sim, walk.order[i]):
            number = sim.jobs[walk.order[i]]["replica"]
            _lend(sim, number, number)
    w["random"] = random
    return starting
