"""Gangs that stop before their lease ends, and GPUs that are kept for a job until the gangs on them have stopped."""

from __future__ import annotations

from typing import Final

from gpusched_env.baselines.dally.state import Delay
from gpusched_env.core.driver import Choice
from gpusched_env.core.handle import helper, kernel
from gpusched_env.core.placement.taking import FREE
from gpusched_env.core.state import CHECKPOINTING, RUNNING, Run

MOST_STEPS: Final = 1 << 24  # of a gang that are counted; an instance allows 10 million steps of a job


@kernel
def steps_done(sim: Run, delay: Delay, row: int) -> int:
    """Count the steps that a running gang has completed since its start; steps that the clock cannot resolve: one."""
    step_s = delay.tasks[row]["step_s"]
    end_s = sim.replicas[sim.jobs[row]["replica"]]["since_s"] + step_s
    for steps in range(MOST_STEPS):  # added up one by one as in the authors' code, so that times agree to the last bit
        if end_s > sim.world["clock_s"]:
            return steps
        if end_s + step_s == end_s:
            return steps + 1
        end_s += step_s
    return MOST_STEPS


@kernel
def may_stop(sim: Run, delay: Delay, row: int) -> bool:
    """Return whether a gang can be stopped. A gang that starts now, or that is in its last step, cannot be stopped."""
    task = delay.tasks[row]
    if sim.jobs[row]["status"] != RUNNING or task["stops"] or task["leaked"] > 0:
        return False
    replica = sim.replicas[sim.jobs[row]["replica"]]
    if replica["phase"] == CHECKPOINTING or replica["start_s"] == sim.world["clock_s"]:
        return False
    return task["step_s"] == 0.0 or steps_done(sim, delay, row) + 1 < task["steps"]


@kernel
def stop_next(sim: Run, choice: Choice, delay: Delay) -> bool:
    """Find a gang that is marked to stop, and unmark it; return whether there is one."""
    for i in range(delay.rules["held"]):
        row = delay.held[i]
        task = delay.tasks[row]
        if task["stops"]:
            task["stops"] = 0
            task["early"] = 0
            choice.made["row"] = row
            choice.made["until_s"] = sim.world["clock_s"]
            if task["step_s"] > 0.0:
                task["steps"] = steps_done(sim, delay, row) + 1
                end_s = sim.replicas[sim.jobs[row]["replica"]]["since_s"]
                for _ in range(task["steps"]):
                    end_s += task["step_s"]
                choice.made["until_s"] = end_s
            return True
    return False


@helper
def keep(delay: Delay, row: int, gpu: int) -> None:
    """Keep a GPU for a job: the GPU is not offered to other jobs."""
    delay.leaker[gpu] = row
    delay.tasks[row]["leaked"] += 1


@kernel
def take_kept(sim: Run, delay: Delay) -> int:
    """Find a waiting job whose kept GPUs are all free, and choose them; -1 = none."""
    for i in range(delay.rules["queued"]):
        row = delay.queue[i]
        if delay.tasks[row]["leaked"] == 0:
            continue
        at = 0
        for gpu in range(delay.leaker.shape[0]):
            if delay.leaker[gpu] == row and sim.holder[gpu] == FREE:
                sim.chosen[at] = gpu
                at += 1
        if at == delay.tasks[row]["leaked"]:
            for k in range(at):
                delay.leaker[sim.chosen[k]] = -1
            delay.tasks[row]["leaked"] = 0
            return row
    return -1
