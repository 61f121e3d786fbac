"""List and sort the jobs of a decision point, and insert waiting jobs into their lines."""

from __future__ import annotations

from gpusched_env.baselines.list_policies.gittins import rank_by_index
from gpusched_env.baselines.list_policies.keys import QUEUES, set_key
from gpusched_env.baselines.list_policies.lines import append_marked, join_line, mark_jobs, sort_rows
from gpusched_env.baselines.list_policies.state import ListState
from gpusched_env.core.handle import helper, kernel
from gpusched_env.core.holding import entry
from gpusched_env.core.placement.placing import reserve
from gpusched_env.core.placement.taking import unreserve
from gpusched_env.core.planning import BLOCKED, NEWCOMER
from gpusched_env.core.state import WAITING, Run


@kernel
def list_jobs(sim: Run, plan: ListState, with_running: bool) -> int:
    """List the jobs of this decision point: those of the last list come first, in its order."""
    mark_jobs(sim, plan.member, with_running)
    count = 0
    for i in range(plan.memory["listed"]):
        row = plan.order[i]
        if plan.member[row] == 1:
            plan.member[row] = 0
            plan.order[count] = row
            count += 1
    count = append_marked(sim, plan.order, plan.member, count, with_running)
    plan.memory["listed"] = count
    plan.memory["whole"] = with_running
    return count


@helper
def rule_of(sim: Run, plan: ListState, row: int) -> int:
    """Placement rule of a job."""
    r = plan.memory
    skewed = r["order"] == QUEUES and plan.skew[row] > r["packlimit"] and sim.jobs[row]["gpus"] > 1
    return r["skewed_rule"] if skewed else r["rule"]


@kernel
def sort_jobs(sim: Run, plan: ListState, count: int) -> None:
    """Sort the listed jobs, and note the placement rule of each one."""
    if len(plan.history) > 0:
        rank_by_index(sim, plan, count)
    else:
        for i in range(count):
            set_key(sim, plan, plan.order[i])
    sort_rows(plan.order, plan.scratch, plan.keys, plan.ranks, count)
    for i in range(count):
        row = plan.order[i]
        plan.rules[i] = rule_of(sim, plan, row)


@helper
def room_for_all(sim: Run, plan: ListState) -> bool:
    """Return whether all waiting jobs fit on the free GPUs; then no job is preempted, whatever the order."""
    left = sim.world["free_gpus"]
    for i in range(sim.world["waiting"]):
        row = sim.waiting[sim.world["first_waiting"] + i]
        left -= sim.jobs[row]["gpus"]
        if left < 0 or not plan.memory["monotone"] or sim.rules[rule_of(sim, plan, row)]["anywhere"] == 0:
            return False
    return True


@helper
def forget_failures(sim: Run, plan: ListState, preempts: bool) -> None:
    """Forget which gangs have found no place, unless nothing has changed that."""
    r = plan.memory
    if preempts or not r["alone"] or not r["monotone"] or sim.world["returns"] != r["returns"]:
        for i in range(len(plan.failed)):
            plan.failed[i] = 0
    if not preempts:
        r["returns"] = sim.world["returns"]


@kernel
def plan_walk(sim: Run, plan: ListState, count: int, all_fit: bool) -> None:
    """Find those of the listed jobs that can start now, one after another; no job is started."""
    r = plan.memory
    random = sim.world["random"]
    supply = sim.world["free_gpus"]
    at = 0
    for i in range(count):
        plan.verdicts[i] = NEWCOMER if all_fit else BLOCKED
        if all_fit or supply == 0:
            continue
        job = sim.jobs[plan.order[i]]
        end = at
        if not (r["monotone"] and plan.failed[job["gpus"]]):
            end = reserve(sim, at, job["job_class"], job["gpus"], plan.rules[i], supply)
        if end > at:
            plan.verdicts[i] = NEWCOMER
            supply -= end - at
            at = end
        else:
            plan.failed[job["gpus"]] = 1
            if r["strict"]:
                supply = 0
    unreserve(sim, 0, at)
    sim.world["random"] = random


@helper
def join_lines(sim: Run, plan: ListState) -> None:
    """Insert new arrivals, and those jobs of ``left`` that wait now (preempted, or not started), into the lines."""
    r = plan.memory
    arrivals = sim.world["entered"] - r["lined"]
    kept = 0
    for i in range(arrivals + r["leaving"]):
        row = entry(sim, r["lined"] + i) if i < arrivals else plan.left[i - arrivals]
        if sim.jobs[row]["status"] == WAITING:
            set_key(sim, plan, row)
            join_line(plan.lines, plan.waiters, plan.keys, plan.ranks, plan.line_of[sim.jobs[row]["gpus"]], row)
        elif i >= arrivals:  # its checkpoint is still being written
            plan.left[kept] = row
            kept += 1
    r["lined"] += arrivals
    r["leaving"] = kept
