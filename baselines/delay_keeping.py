"""Gangs that stop before their lease is over, and GPUs that are kept for a job until whoever holds them has stopped."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpusched_env.simulator.jit import helper, int64
from gpusched_env.core.state import CHECKPOINTING, RUNNING
from gpusched_env.core.placement.taking import FREE

Array = np.ndarray[Any, Any]


@helper
def steps_done(world: Array, jobs: Array, replicas: Array, tasks: Array, b: int, row: int) -> int:
    """Count the steps that a running gang has ended since its start."""
    end_s = replicas[b, jobs[b, row]["replica"]]["since_s"] + tasks[b, row]["step_s"]
    steps = 0
    while end_s <= world[b]["clock_s"]:
        end_s += tasks[b, row]["step_s"]
        steps += 1
    return steps


@helper
def may_stop(world: Array, jobs: Array, replicas: Array, tasks: Array, b: int, row: int) -> bool:
    """Tell whether a gang can be stopped; one that starts now cannot, one whose last step it is stops anyway."""
    task = tasks[b, row]
    if jobs[b, row]["status"] != RUNNING or task["stops"] or task["leaked"] > 0:
        return False
    replica = replicas[b, jobs[b, row]["replica"]]
    if replica["phase"] == CHECKPOINTING or replica["start_s"] == world[b]["clock_s"]:
        return False
    return task["step_s"] == 0.0 or steps_done(world, jobs, replicas, tasks, b, row) + 1 < task["steps"]


@helper
def stop_next(world: Array, jobs: Array, replicas: Array, rules: Array, tasks: Array, held: Array, b: int) -> bool:
    """Find a gang that is to stop, and when: at the end of its step, or now where work flows; False if none is."""
    r = rules[b]
    for i in range(r["held"]):
        row = int64(held[b, i])
        task = tasks[b, row]
        if task["stops"]:
            task["stops"] = 0
            task["early"] = 0
            r["row"] = row
            r["until_s"] = world[b]["clock_s"]
            if task["step_s"] > 0.0:
                task["steps"] = steps_done(world, jobs, replicas, tasks, b, row) + 1
                end_s = replicas[b, jobs[b, row]["replica"]]["since_s"]
                for _ in range(task["steps"]):
                    end_s += task["step_s"]
                r["until_s"] = end_s
            return True
    return False


@helper
def keep(tasks: Array, leaker: Array, b: int, row: int, gpu: int) -> None:
    """Keep a GPU for a job: it is offered to nobody else."""
    leaker[b, gpu] = row
    tasks[b, row]["leaked"] += 1


@helper
def take_kept(rules: Array, tasks: Array, queue: Array, holder: Array, chosen: Array, leaker: Array, b: int) -> int:
    """Find a waiting job all of whose kept GPUs are free, and choose them; -1 = none."""
    for i in range(rules[b]["queued"]):
        row = int64(queue[b, i])
        if tasks[b, row]["leaked"] == 0:
            continue
        at = 0
        for gpu in range(leaker.shape[1]):
            if leaker[b, gpu] == row and holder[b, gpu] == FREE:
                chosen[b, at] = gpu
                at += 1
        if at == tasks[b, row]["leaked"]:
            for k in range(at):
                leaker[b, chosen[b, k]] = -1
            tasks[b, row]["leaked"] = 0
            return row
    return int64(-1)
