"""Kernels that give the jobs of a run other run times, or no failures, so that one state can have many futures."""

from __future__ import annotations

import numpy as np

from gpusched_env.core.events import set_end
from gpusched_env.core.handle import Handle, array, kernel
from gpusched_env.core.next_events import set_due
from gpusched_env.core.state import ACTIVE, FINISHED, FUTURE, REFUSED, RUNNING, Run


class RunTimes(Handle):
    """Run time of each job on its ideal placement."""

    run_s = array(np.float64, "jobs")  # [s] > 0


@kernel(lazy=True)
def forget_failures(sim: Run) -> None:
    """Let no job fail by itself from now on."""
    for row in range(sim.world["jobs"]):
        sim.recovery[row]["fails_s"] = np.inf
    for i in range(sim.world["running"]):
        number = sim.running[i]
        if sim.replicas[number]["phase"] == ACTIVE:
            set_end(sim, number, sim.replicas[number]["since_s"])
            set_due(sim, number)


@kernel(lazy=True)
def change_run_times(sim: Run, given: RunTimes) -> None:
    """Change the total work of all jobs that are still in the system or will arrive.

    The iterations that a job has done stay done. A job that has already done more than its new work ends now.
    """
    w = sim.world
    for row in range(w["jobs"]):
        job = sim.jobs[row]
        if job["status"] == FINISHED or job["status"] == REFUSED:
            continue
        done = job["iterations"] - job["remaining"]
        job["iterations"] = given.run_s[row] / (job["ideal_s"] / job["iterations"])
        if job["status"] != FUTURE:
            w["slowdown_weight"] += 1.0 / given.run_s[row] - 1.0 / job["ideal_s"]
        job["ideal_s"] = given.run_s[row]
        if w["recovers"]:
            lost = sim.recovery[row]["saved"] - job["remaining"]
            sim.recovery[row]["saved"] = max(job["iterations"] - done + lost, 0.0)
        job["remaining"] = max(job["iterations"] - done, 0.0)
        if job["status"] == RUNNING:
            number = job["replica"]
            r = sim.replicas[number]
            if r["phase"] == ACTIVE:
                set_end(sim, number, r["since_s"])
                r["until_s"] = max(r["until_s"], w["clock_s"])
                set_due(sim, number)
