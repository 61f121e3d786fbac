"""Quirk Q1 of the authors' simulator: GPUs that a running gang wins and never uses."""

from __future__ import annotations

from gpusched_env.baselines.dally.keeping import steps_done
from gpusched_env.baselines.dally.state import Delay
from gpusched_env.core.handle import kernel
from gpusched_env.core.shapes import placed
from gpusched_env.core.state import Run


@kernel
def outlives_lease(sim: Run, delay: Delay, row: int) -> bool:
    """Return whether the GPUs that a running gang has just won stay leased after the lease of the gang ends.

    The look-ahead frees GPUs won in the last step if one more step would not fit, unless it has ended the lease early.
    """
    r = delay.rules
    task = delay.tasks[row]
    if not r["look_ahead"] or task["early"] or task["won_step"] + 1 < task["steps"]:
        return True
    gang = task["gpus"]
    kind = sim.jobs[row]["job_class"]
    _, pace, slowest = placed(sim, kind, 0, gang)
    end_s = sim.replicas[sim.jobs[row]["replica"]]["since_s"]
    for _ in range(task["steps"]):
        end_s += task["step_s"]
    return end_s + delay.ahead_s[kind, pace, slowest] <= sim.world["clock_s"] + r["lease_s"]


@kernel
def leak(sim: Run, delay: Delay, row: int) -> None:
    """Lease the chosen GPUs to a running gang that wins them in its present step and will not use them."""
    task = delay.tasks[row]
    task["won_step"] = steps_done(sim, delay, row)
    stays = outlives_lease(sim, delay, row)
    task["leaked"] += task["gpus"]
    for i in range(task["gpus"]):
        delay.leaker[sim.chosen[i]] = row if stays else row + delay.tasks.shape[0]


@kernel
def give_back(delay: Delay, row: int, finished: bool) -> None:
    """Free leaked GPUs: all of them when the gang finishes; at the end of a lease those that the look-ahead frees."""
    task = delay.tasks[row]
    if task["leaked"] == 0:
        return
    for gpu in range(delay.leaker.shape[0]):
        if delay.leaker[gpu] == row + delay.tasks.shape[0] or (finished and delay.leaker[gpu] == row):
            delay.leaker[gpu] = -1
            task["leaked"] -= 1
