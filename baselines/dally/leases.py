"""Leases: when they end, what a gang has done until then, and which gangs return their GPUs or keep them."""

from __future__ import annotations

import numpy as np

from gpusched_env.baselines.dally.keeping import MOST_STEPS, steps_done
from gpusched_env.baselines.dally.leaks import give_back
from gpusched_env.baselines.dally.ranking import enqueue, rank, remove
from gpusched_env.baselines.dally.schedule import offer_at
from gpusched_env.baselines.dally.state import Delay
from gpusched_env.core.handle import helper, kernel
from gpusched_env.core.holding import entry
from gpusched_env.core.shapes import placed
from gpusched_env.core.state import FINISHED, REFUSED, RUNNING, Run
from gpusched_env.problem.cluster import SLOT


@kernel
def plan_lease(sim: Run, delay: Delay, row: int) -> float:
    """Compute when the lease of a gang that has just started ends [s]; inf = no lease, or the job ends first.

    Steps end leases. With quirk Q2, a look-ahead ends the lease before a step that would not fit. The lengths of steps
    are added one by one as in the authors' code, so that the times agree to the last bit.
    """
    r = delay.rules
    task = delay.tasks[row]
    task["step_s"] = 0.0
    task["steps"] = 0
    task["early"] = 0
    if not r["leased"]:
        return np.inf
    task["lease_end_s"] = sim.world["clock_s"] + r["lease_s"]
    if r["step_iterations"] == 0.0 or sim.world["contention"] > 0:
        return task["lease_end_s"]
    replica = sim.replicas[sim.jobs[row]["replica"]]
    task["iteration_s"] = replica["iteration_s"]
    task["step_s"] = replica["iteration_s"] * r["step_iterations"]
    kind = sim.jobs[row]["job_class"]
    _, pace, slowest = placed(sim, kind, 0, task["gpus"])
    ahead_s = delay.ahead_s[kind, pace, slowest]
    end_s = replica["since_s"]
    left = task["left"]
    if end_s + task["step_s"] == end_s:  # the clock does not resolve steps
        task["step_s"] = 0.0
        return task["lease_end_s"]
    for _ in range(MOST_STEPS):
        end_s += task["step_s"]
        left -= r["step_iterations"] * task["gpus"]
        task["steps"] += 1
        if left <= 0.0:
            return np.inf
        if end_s >= task["lease_end_s"]:
            return end_s
        if r["look_ahead"] and end_s + ahead_s > task["lease_end_s"]:
            task["early"] = 1
            return end_s
    return task["lease_end_s"]


@kernel
def close_lease(sim: Run, delay: Delay, row: int) -> None:
    """Add the running seconds and the service of a job since its start to its totals."""
    task = delay.tasks[row]
    if task["step_s"] > 0.0:
        for _ in range(task["steps"]):
            task["run_s"] += task["step_s"]
            task["service_gpu_s"] += task["gpus"] * task["iteration_s"] * delay.rules["step_iterations"]
            task["left"] -= delay.rules["step_iterations"] * task["gpus"]
    else:
        task["run_s"] = sim.jobs[row]["service_s"]
        task["service_gpu_s"] = task["gpus"] * task["run_s"]
        task["left"] = task["iterations"] * (sim.jobs[row]["remaining"] / sim.jobs[row]["iterations"])
    rank(sim, delay, row, task["left"], task["run_s"], task["service_gpu_s"])


@kernel
def bids_again(sim: Run, delay: Delay, row: int) -> bool:
    """Return whether a running gang bids for GPUs now (quirk Q1: once in each step), and set the job's sort key."""
    task = delay.tasks[row]
    steps = steps_done(sim, delay, row)
    if task["won_step"] == steps:
        return False
    left = task["left"]
    run_s = task["run_s"]
    gpu_s = task["service_gpu_s"]
    for _ in range(steps):
        run_s += task["step_s"]
        gpu_s += task["gpus"] * task["iteration_s"] * delay.rules["step_iterations"]
        left -= delay.rules["step_iterations"] * task["gpus"]
    rank(sim, delay, row, left, run_s, gpu_s)
    return True


@helper
def admit(sim: Run, delay: Delay) -> None:
    """Put the jobs that have arrived into the queue. If GPUs were free, a polled offer is due for each of them."""
    r = delay.rules
    while r["seen"] < sim.world["entered"]:
        row = entry(sim, r["seen"])
        r["seen"] += 1
        if sim.jobs[row]["status"] == REFUSED:
            continue
        delay.tasks[row]["last_s"] = sim.jobs[row]["arrival_s"]
        delay.tasks[row]["arrival_s"] = sim.jobs[row]["arrival_s"]
        rank(sim, delay, row, 0.0, 0.0, 0.0)
        enqueue(delay, row)
        if r["free_before"] > 0 and not r["exact"]:
            r["due"] += 1


@helper
def end_of_task(sim: Run, delay: Delay, row: int) -> None:
    """Process the end of a job: offer the GPUs that it held or leaked, after the delay for freed GPUs."""
    task = delay.tasks[row]
    freed = task["gpus"] + task["leaked"]
    give_back(delay, row, True)
    if not delay.rules["exact"]:
        offer_at(sim, delay, sim.world["clock_s"] + delay.rules["ckpt_per_gpu_s"] * freed)


@helper
def end_of_lease(sim: Run, delay: Delay, row: int) -> None:
    """Process the end of a lease: the job has returned its GPUs and waits again."""
    task = delay.tasks[row]
    if delay.rules["rebid"]:
        give_back(delay, row, False)
    close_lease(sim, delay, row)
    task["last_s"] = sim.world["clock_s"]
    enqueue(delay, row)
    if not delay.rules["exact"]:
        delay_s = delay.rules["ckpt_per_gpu_s"] * task["gpus"]
        if task["early"] and delay.rules["alias"]:
            delay_s = 0.0
        offer_at(sim, delay, sim.world["clock_s"] + delay_s)


@helper
def may_renew(sim: Run, delay: Delay, row: int) -> bool:
    """Return whether a gang whose lease is over gets a new one: no job waits, and no tier would be tighter."""
    if not delay.rules["renew"] or delay.tasks[row]["leaked"] > 0 or sim.world["waiting"] > 0:  # leaked: it moves
        return False
    tier = sim.replicas[sim.jobs[row]["replica"]]["tier"]
    return (-1 if tier == SLOT else tier) <= delay.tasks[row]["best_tier"]


@helper
def process_stops(sim: Run, delay: Delay) -> int:
    """Process gangs that have stopped, up to one whose lease is over; return the row of this gang, -1 = none."""
    w = sim.world
    r = delay.rules
    i = 0
    while i < r["held"] and (r["returned"] < w["returns"] or w["leases_over"] > 0):
        row = delay.held[i]
        status = sim.jobs[row]["status"]
        if status == RUNNING:
            if sim.replicas[sim.jobs[row]["replica"]]["lease_over"]:
                return row
            i += 1
            continue
        remove(delay.held, r["held"], row)
        r["held"] -= 1
        r["returned"] += 1
        delay.tasks[row]["won_step"] = -1
        if status == FINISHED:
            end_of_task(sim, delay, row)
        else:
            end_of_lease(sim, delay, row)
    return -1
