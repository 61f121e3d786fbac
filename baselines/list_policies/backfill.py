"""EASY backfill: a reservation for the first waiting job, and the later jobs that do not delay it."""

from __future__ import annotations

import numpy as np

from gpusched_env.baselines.estimates import NOISY, ORACLE, USER
from gpusched_env.baselines.list_policies.keys import estimated_s, revised_in_s
from gpusched_env.baselines.list_policies.lines import sort_rows
from gpusched_env.baselines.list_policies.state import ListState
from gpusched_env.core.events import work_left
from gpusched_env.core.handle import kernel
from gpusched_env.core.queries import can_place, end_s, settle_now
from gpusched_env.core.state import ACTIVE, Run


@kernel
def estimated_end_s(sim: Run, plan: ListState, row: int) -> float:
    """Return the estimate of the time at which a running job ends on its present GPUs [s]."""
    now_s = sim.world["clock_s"]
    estimator = plan.source["estimator"]
    if estimator >= USER:
        return now_s + estimated_s(sim, plan, row)
    if estimator == ORACLE:
        return end_s(sim, row)
    return now_s + (end_s(sim, row) - now_s) * plan.told[row]


@kernel
def slowest_s(sim: Run, plan: ListState, row: int) -> float:
    """Return the estimate of the run time that a job has left on its slowest placement [s]."""
    if plan.source["estimator"] >= USER:
        return estimated_s(sim, plan, row)
    left_s = work_left(sim, row) * plan.slowest_s[row]
    return left_s * plan.told[row] if plan.source["estimator"] == NOISY else left_s


@kernel(lazy=True)
def reserve_for_first(sim: Run, plan: ListState) -> None:
    """Compute the reservation of the first waiting job, and list the jobs behind it in ``walk``."""
    w = sim.world
    r = plan.memory
    settle_now(sim)
    for i in range(w["running"]):
        row = sim.replicas[sim.running[i]]["job"]
        plan.tail[i] = row
        plan.keys[row] = estimated_end_s(sim, plan, row)
        plan.ranks[row] = i
    sort_rows(plan.tail, plan.scratch, plan.keys, plan.ranks, w["running"])
    first = w["first_waiting"]
    needed = sim.jobs[sim.waiting[first]]["asked"]
    supply = w["free_gpus"]
    r["shadow_s"] = np.inf
    r["extra"] = 0
    for i in range(w["running"]):
        end = plan.keys[plan.tail[i]]
        if end > r["shadow_s"]:
            break
        supply += sim.jobs[plan.tail[i]]["asked"]
        if supply >= needed:  # all jobs that end at this time are counted
            r["shadow_s"] = end
            r["extra"] = supply - needed
    r["walked"] = w["waiting"] - 1
    for i in range(r["walked"]):
        plan.walk[i] = sim.waiting[first + 1 + i]


@kernel(lazy=True)
def next_backfilled(sim: Run, plan: ListState, at: int) -> int:
    """Return the next entry of ``walk``, from ``at`` on, whose job may start now; -1 = none."""
    r = plan.memory
    for i in range(at, r["walked"]):
        row = plan.walk[i]
        gang = sim.jobs[row]["asked"]
        ends_before = sim.world["clock_s"] + slowest_s(sim, plan, row) <= r["shadow_s"]
        if (ends_before or gang <= r["extra"]) and can_place(sim, row, r["rule"]):
            if not ends_before:
                r["extra"] -= gang
            return i
    return -1


@kernel(lazy=True)
def next_revision_s(sim: Run, plan: ListState) -> float:
    """Return when the first running job reaches a time at which its claim changes [s]; inf = never."""
    first_s = np.inf
    for i in range(sim.world["running"]):
        replica = sim.replicas[sim.running[i]]
        if replica["phase"] == ACTIVE:
            begin_s = max(replica["since_s"], sim.world["clock_s"])
            first_s = min(first_s, begin_s + revised_in_s(sim, plan, replica["job"]))
    return first_s
