"""Who is preempted for whom where counts of GPUs decide: what plan_preemptive decides where any free GPUs will do."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpusched_env.baselines.line_kernels import before, first_line, leave_line, sort_rows
from gpusched_env.baselines.runner_kernels import last_runner, line_up_runners, rounding, take_last
from gpusched_env.simulator.jit import helper, int64
from gpusched_env.core.planning import NEWCOMER, NOT_NOW, SKIPPED, frees_at_once

Array = np.ndarray[Any, Any]


@helper
def might_precede(keys: Array, ranks: Array, head: int, last: int, near: float) -> bool:
    """Tell whether a waiting job might come before a running one, or one that rounding might put behind that."""
    if near == 0.0:
        return before(keys, ranks, head, last)
    return keys[head] < keys[last] + near


@helper
def start_surely(
    world: Array, jobs: Array, replicas: Array, list_: Array, thresholds: Array, lines: Array, runners: Array,
    runner_rows: Array, levels: Array, waiters: Array, order: Array, walk: Array, tail: Array, keys: Array,
    ranks: Array, rules: Array, verdict: Array, failed: Array, b: int,
) -> int:
    """List the waiting jobs that come before all that is taken and find room there; return their GPUs.

    Running jobs are taken from the end until what they hold, and what is free, is enough for all who come before them:
    then all others keep their GPUs, and each of these waiting jobs fits when its turn comes. One taken with others
    because of rounding may come before a job listed earlier: it fits too, since nothing listed needed its GPUs.
    """
    r = list_[0]
    near = rounding(world, list_, lines, b)
    first = int64(-1)  # of those taken
    granted = int64(0)
    while True:
        line = first_line(lines, waiters, keys, ranks, failed, int64(world[b]["gpus"]), False)
        if line < 0:
            return granted
        head = int64(waiters[lines[line]["begin"]])
        needed = granted + lines[line]["gpus"]
        while world[b]["free_gpus"] + r["taken_gpus"] < needed:
            number, last = last_runner(
                world, jobs, list_, lines, runners, runner_rows, levels, walk, keys, ranks, b
            )
            if number < 0 or not might_precede(keys, ranks, head, last, near):
                return granted
            begin = r["taken"]
            take_last(
                world, jobs, replicas, list_, thresholds, lines, runners, runner_rows, levels, walk, tail, keys,
                ranks, near, b, number, last,
            )
            for i in range(begin, r["taken"]):
                row = int64(tail[i])
                if first < 0 or before(keys, ranks, row, first):
                    first = row
        if first >= 0 and not before(keys, ranks, head, first):
            return granted
        order[r["listed"]] = head
        verdict[r["listed"]] = NEWCOMER
        rules[r["listed"]] = r["rule"]
        r["listed"] += 1
        granted = needed
        leave_line(lines, waiters, keys, ranks, line)


@helper
def plan_by_count(
    world: Array, jobs: Array, replicas: Array, list_: Array, thresholds: Array, lines: Array, line_of: Array,
    runners: Array, runner_rows: Array, levels: Array, waiters: Array, left: Array, order: Array, walk: Array,
    tail: Array, scratch: Array, keys: Array, ranks: Array, rules: Array, verdict: Array, member: Array,
    failed: Array, b: int,
) -> None:
    """List who is to be preempted and who is to start, each in order; all others stay as they are."""
    w = world[b]
    r = list_[0]
    line_up_runners(
        world, jobs, replicas, list_, thresholds, line_of, runners, runner_rows, levels, walk, scratch, keys, ranks,
        member, b,
    )
    r["listed"] = 0
    granted = start_surely(
        world, jobs, replicas, list_, thresholds, lines, runners, runner_rows, levels, waiters, order, walk, tail,
        keys, ranks, rules, verdict, failed, b,
    )
    taken = int64(r["taken"])
    for i in range(taken // 2):
        tail[i], tail[taken - 1 - i] = tail[taken - 1 - i], tail[i]
    sort_rows(tail, scratch, keys, ranks, taken)
    budget = w["free_gpus"] + r["taken_gpus"] - granted
    supply = w["free_gpus"]
    at = int64(0)
    while True:
        head = int64(-1)
        line = first_line(lines, waiters, keys, ranks, failed, budget, False)
        if line >= 0:
            head = int64(waiters[lines[line]["begin"]])
        elif at == taken:
            break
        if at < taken and (line < 0 or before(keys, ranks, int64(tail[at]), head)):
            row = int64(tail[at])
            gpus = replicas[b, jobs[b, row]["replica"]]["gpus"]
            at += 1
            if gpus <= budget:
                budget -= gpus
                continue
            order[r["listed"]] = row
            verdict[r["listed"]] = SKIPPED
            if frees_at_once(world, jobs, replicas, b, row):
                supply += gpus
        else:
            order[r["listed"]] = head
            verdict[r["listed"]] = NEWCOMER
            rules[r["listed"]] = r["rule"]
            budget -= lines[line]["gpus"]
            leave_line(lines, waiters, keys, ranks, line)
        r["listed"] += 1
    for i in range(r["listed"]):
        if verdict[i] == NEWCOMER:
            row = int64(order[i])
            gang = jobs[b, row]["gpus"]
            if gang <= supply:
                supply -= gang
            else:  # GPUs that are still being checkpointed are meant for it
                verdict[i] = NOT_NOW
                left[r["leaving"]] = row
                r["leaving"] += 1
