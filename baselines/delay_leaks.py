"""Quirk Q1 of the authors' simulator: GPUs that a running gang wins and never uses."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpusched_env.baselines.delay_keeping import steps_done
from gpusched_env.simulator.jit import helper, int64
from gpusched_env.core.shapes import placed

Array = np.ndarray[Any, Any]


@helper
def outlives_lease(
    world: Array, jobs: Array, replicas: Array, nodes: Array, racks: Array, gpu_node: Array, paces: Array,
    chosen: Array, rules: Array, tasks: Array, b: int, row: int,
) -> bool:
    """Tell whether the GPUs that a running gang has just won stay leased when the gang's own lease ends.

    The look-ahead then frees them if a step on them would not fit into their lease. It sees only what was won in the
    last step of the gang's lease, and forgets that, too, where it ends the gang's lease early itself.
    """
    r = rules[b]
    task = tasks[b, row]
    if not r["look_ahead"] or task["early"] or task["won_step"] + 1 < task["steps"]:
        return True
    gang = int64(task["gpus"])
    kind = int64(jobs[b, row]["job_class"])
    _, pace, slowest = placed(nodes, racks, gpu_node, paces, chosen, b, kind, int64(0), gang)
    end_s = replicas[b, jobs[b, row]["replica"]]["since_s"]
    for _ in range(task["steps"]):
        end_s += task["step_s"]
    ahead_s = paces[b, kind, pace, slowest]["iteration_s"] * r["step_iterations"] / gang
    return end_s + ahead_s <= world[b]["clock_s"] + r["lease_s"]


@helper
def leak(
    world: Array, jobs: Array, replicas: Array, nodes: Array, racks: Array, gpu_node: Array, paces: Array,
    chosen: Array, rules: Array, tasks: Array, leaker: Array, b: int, row: int,
) -> None:
    """Lease the chosen GPUs to a running gang, which wins them in this step and will not use them."""
    task = tasks[b, row]
    task["won_step"] = steps_done(world, jobs, replicas, tasks, b, row)
    stays = outlives_lease(world, jobs, replicas, nodes, racks, gpu_node, paces, chosen, rules, tasks, b, row)
    task["leaked"] += task["gpus"]
    for i in range(task["gpus"]):
        leaker[b, chosen[b, i]] = row if stays else row + tasks.shape[1]


@helper
def give_back(tasks: Array, leaker: Array, b: int, row: int, finished: bool) -> None:
    """Free the GPUs that a gang has leased in vain: all at its end, at the end of a lease what the look-ahead frees."""
    task = tasks[b, row]
    if task["leaked"] == 0:
        return
    for gpu in range(leaker.shape[1]):
        if leaker[b, gpu] == row + tasks.shape[1] or (finished and leaker[b, gpu] == row):
            leaker[b, gpu] = -1
            task["leaked"] -= 1
