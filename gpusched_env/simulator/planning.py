"""List scheduling: turn an order of jobs into preemptions and starts. One mechanism under most published policies."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpusched_env.simulator.binding import rows_of
from gpusched_env.simulator.jit import helper, int64, kernel
from gpusched_env.simulator.placing import ANYWHERE, reserve
from gpusched_env.simulator.placing_shared import find_shared
from gpusched_env.simulator.state import ACTIVE, CHECKPOINTING, WAITING
from gpusched_env.simulator.taking import FREE, unable_somewhere, unreserve

Array = np.ndarray[Any, Any]


@kernel
def plan_starts(
    world: Array, jobs: Array, replicas: Array, nodes: Array, racks: Array, free: Array, holder: Array,
    gpu_next: Array, gpu_node: Array, waiting: Array, running: Array, paces: Array, events: Array,
    event_gpus: Array, chosen: Array, links: Array, uses: Array, routes: Array, pairs: Array, ratios: Array,
    busy: Array, sub_batches: Array, interference: Array, due: Array, b: int, order: Array, rules: Array, strict: bool,
    starts: Array,
) -> int:
    """Walk waiting jobs in order and list those that can start now; nothing is started.

    ``strict`` stops at the first job that does not fit; else the walk goes on. ``rules[i]`` is the placement rule of
    ``order[i]``. Fills ``starts`` with positions in ``order`` and returns their number.
    """
    random = world[b]["random"]
    supply = world[b]["free_gpus"]
    found = 0
    at = 0
    for i in range(len(order)):
        if supply == 0:
            break
        gang = int64(jobs[b, order[i]]["gpus"])
        kind = int64(jobs[b, order[i]]["job_class"])
        rule = int64(rules[i])
        end = reserve(
            world, nodes, racks, free, holder, gpu_node, chosen, links, busy, paces, b, at, kind, gang, rule, supply
        )
        if end > at:
            starts[found] = i
            found += 1
            supply -= end - at
            at = end
        elif strict:
            break
    unreserve(nodes, free, holder, gpu_node, chosen, b, 0, at)
    world[b]["random"] = random
    return found


@kernel
def first_shared(
    world: Array, jobs: Array, replicas: Array, nodes: Array, racks: Array, free: Array, holder: Array,
    gpu_next: Array, gpu_node: Array, waiting: Array, running: Array, paces: Array, events: Array,
    event_gpus: Array, chosen: Array, links: Array, uses: Array, routes: Array, pairs: Array, ratios: Array,
    busy: Array, sub_batches: Array, interference: Array, due: Array, b: int, order: Array, begin: int, choices: int,
    strict: bool,
) -> tuple[int, int, int]:
    """Find the first of the waiting jobs ``order[begin:]`` that can start now, beside others if need be.

    Writes its GPUs to ``chosen``. Returns its position in ``order``, their number and its option of ``sub_batches``;
    the length of ``order`` if there is none.
    """
    for i in range(begin, len(order)):
        count, option = find_shared(
            world, jobs, replicas, nodes, racks, free, holder, gpu_next, gpu_node, running, paces, chosen, links, busy,
            sub_batches, interference, b, int64(order[i]), choices,
        )
        if count > 0:
            return i, count, option
        if strict:
            break
    return len(order), 0, 0


@helper
def _lend(
    world: Array, nodes: Array, free: Array, holder: Array, gpu_next: Array, gpu_node: Array, replicas: Array, b: int,
    replica: int, value: int,
) -> int:
    """Pretend that the GPUs that a replica alone holds are free (``value`` FREE), or give them back to it (its number).

    Returns the number of these GPUs.
    """
    change = 1 if value == FREE else -1
    lent = int64(0)
    seat = replicas[b, replica]["first_gpu"]
    while seat >= 0:
        gpu = seat % world[b]["gpus"]
        if seat == gpu and (world[b]["gpu_jobs"] == 1 or holder[b, gpu + world[b]["gpus"]] == FREE):
            node = gpu_node[b, gpu]
            holder[b, gpu] = value
            free[b, node] += change
            free[b, nodes.shape[1] + nodes[b, node]["rack"]] += change
            lent += 1
        seat = gpu_next[b, seat]
    return lent


@helper
def held(jobs: Array, replicas: Array, b: int, row: int) -> int:
    """GPUs that a running job holds, of all its copies; those that a waiting one asks for [GPU]."""
    number = jobs[b, row]["replica"]
    return int64(jobs[b, row]["gpus"] if number < 0 else replicas[b, number]["gpus"])


@helper
def frees_at_once(world: Array, jobs: Array, replicas: Array, b: int, row: int) -> bool:
    """Tell whether preempting a job would free its GPUs in this instant."""
    number = jobs[b, row]["replica"]
    if number < 0 or world[b]["checkpoint_s"] > 0.0:
        return False
    return replicas[b, number]["phase"] == ACTIVE and replicas[b, number]["start_s"] < world[b]["clock_s"]


SKIPPED, KEPT, NEWCOMER, BLOCKED, NOT_NOW = range(5)


@kernel
def plan_preemptive(
    world: Array, jobs: Array, replicas: Array, nodes: Array, racks: Array, free: Array, holder: Array,
    gpu_next: Array, gpu_node: Array, waiting: Array, running: Array, paces: Array, events: Array,
    event_gpus: Array, chosen: Array, links: Array, uses: Array, routes: Array, pairs: Array, ratios: Array,
    busy: Array, sub_batches: Array, interference: Array, due: Array, b: int, order: Array, rules: Array,
    verdict: Array, count: int,
) -> int:
    """Decide who should hold GPUs when running jobs may be preempted; return how many are to start now.

    Walks ``order[:count]`` (waiting and running jobs, best first) with all GPUs of the cluster as budget and takes what
    fits (Tiresias, NSDI 2019; baselines_common 5.4). Taken running jobs keep their GPUs. Taken waiting jobs are placed,
    in order, on what the others leave; one that finds no place hands its budget on, and so do worse gangs of its size
    and rule. GPUs of gangs that are just being checkpointed count as free here, since they will be soon.

    Fills ``verdict[:count]`` (int32): KEPT; NEWCOMER (start it now); NOT_NOW (taken, but its
    GPUs, or those of a better gang that needs a particular place, are still being checkpointed); SKIPPED (preempt it
    if it runs); BLOCKED (no place).
    """
    (
        world, jobs, replicas, nodes, racks, free, holder, gpu_next, gpu_node, paces, chosen, links, busy, order,
        rules, verdict,
    ) = rows_of((
        world, jobs, replicas, nodes, racks, free, holder, gpu_next, gpu_node, paces, chosen, links, busy, order,
        rules, verdict,
    ))  # fmt: skip
    w = world[b]
    for i in range(count):
        verdict[i] = SKIPPED
    random = w["random"]
    again = True
    while again:
        again = False
        # 1. Who is taken, by GPU count.
        budget = w["gpus"]
        placed = 0
        located = True
        for i in range(count):
            if verdict[i] == BLOCKED:
                continue
            job = jobs[b, order[i]]
            verdict[i] = SKIPPED
            size = held(jobs, replicas, b, int64(order[i]))
            if size <= budget:
                budget -= size
                if job["status"] == WAITING:
                    verdict[i] = NEWCOMER
                    anywhere = rules[i] in ANYWHERE and not unable_somewhere(paces, b, int64(job["job_class"]))
                    located = located and anywhere
                else:
                    verdict[i] = KEPT
        if located:
            break
        # 2. Does everyone taken find a place? Only rules that may refuse enough free GPUs need the look.
        supply = w["free_gpus"]
        for i in range(count):
            job = jobs[b, order[i]]
            if job["status"] != WAITING and (
                verdict[i] == SKIPPED or replicas[b, job["replica"]]["phase"] == CHECKPOINTING
            ):
                supply += _lend(
                    world, nodes, free, holder, gpu_next, gpu_node, replicas, b, int64(job["replica"]), FREE
                )
        for i in range(count):
            if verdict[i] == NEWCOMER:
                gang = int64(jobs[b, order[i]]["gpus"])
                kind = int64(jobs[b, order[i]]["job_class"])
                rule = int64(rules[i])
                end = reserve(
                    world, nodes, racks, free, holder, gpu_node, chosen, links, busy, paces, b, placed, kind, gang,
                    rule, supply,
                )
                if end == placed:
                    # Nor shall a worse gang of the same kind pass it; blocking all at once also spares a round each.
                    everywhere = not unable_somewhere(paces, b, kind)
                    for j in range(i, count):
                        job = jobs[b, order[j]]
                        alike = job["gpus"] == gang and rules[j] == rules[i]
                        if job["status"] == WAITING and alike and (everywhere or job["job_class"] == kind):
                            verdict[j] = BLOCKED
                    again = True
                    break
                supply -= end - placed
                placed = end
        unreserve(nodes, free, holder, gpu_node, chosen, b, 0, placed)
        for i in range(count):
            job = jobs[b, order[i]]
            if job["status"] != WAITING and (
                verdict[i] == SKIPPED or replicas[b, job["replica"]]["phase"] == CHECKPOINTING
            ):
                number = int64(job["replica"])
                _lend(world, nodes, free, holder, gpu_next, gpu_node, replicas, b, number, number)
    # 3. Who can start now: victims free their GPUs at once only if a checkpoint costs nothing.
    supply = w["free_gpus"]
    for i in range(count):
        if verdict[i] == SKIPPED and frees_at_once(world, jobs, replicas, b, order[i]):
            number = int64(jobs[b, order[i]]["replica"])
            supply += _lend(world, nodes, free, holder, gpu_next, gpu_node, replicas, b, number, FREE)
    placed = 0
    starting = int64(0)
    held_up = False
    for i in range(count):
        if verdict[i] == NEWCOMER:
            gang = int64(jobs[b, order[i]]["gpus"])
            kind = int64(jobs[b, order[i]]["job_class"])
            end = placed
            if not held_up:
                rule = int64(rules[i])
                end = reserve(
                    world, nodes, racks, free, holder, gpu_node, chosen, links, busy, paces, b, placed, kind, gang,
                    rule, supply,
                )
            if end > placed:
                supply -= end - placed
                placed = end
                starting += 1
            else:
                verdict[i] = NOT_NOW
                # Its place is still being checkpointed: whoever started now might take part of it for good.
                held_up = held_up or rules[i] not in ANYWHERE or unable_somewhere(paces, b, kind)
    unreserve(nodes, free, holder, gpu_node, chosen, b, 0, placed)
    for i in range(count):
        if verdict[i] == SKIPPED and frees_at_once(world, jobs, replicas, b, order[i]):
            number = int64(jobs[b, order[i]]["replica"])
            _lend(world, nodes, free, holder, gpu_next, gpu_node, replicas, b, number, number)
    w["random"] = random
    return starting
