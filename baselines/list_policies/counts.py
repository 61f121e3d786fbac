"""Choice of the jobs to preempt, for placement rules that accept any free GPUs.

For such rules, only numbers of GPUs matter. The result is that of ``plan_preemptive``.
"""

from __future__ import annotations

from gpusched_env.baselines.list_policies.lines import before, first_line, leave_line, sort_rows
from gpusched_env.baselines.list_policies.runners import last_runner, line_up_runners, rounding, take_last
from gpusched_env.baselines.list_policies.state import ListState
from gpusched_env.core.handle import helper, kernel
from gpusched_env.core.planning import NEWCOMER, NOT_NOW, SKIPPED, frees_at_once
from gpusched_env.core.state import Run


@helper
def might_precede(plan: ListState, head: int, last: int, near: float) -> bool:
    """Return whether a waiting job may come before a running job, apart from rounding errors of the order."""
    if near == 0.0:
        return before(plan.keys, plan.ranks, head, last)
    return plan.keys[head] < plan.keys[last] + near


@helper
def start_surely(sim: Run, plan: ListState) -> int:
    """List the waiting jobs that surely start, because they come before all taken jobs; return their number of GPUs.

    The kernel takes running jobs from the end of the order until their GPUs and the free ones suffice for all listed
    jobs; others keep theirs. A job taken only because of rounding may come before a listed one, which needs no GPU of
    it.
    """
    r = plan.memory
    near = rounding(sim, plan)
    first = -1  # first taken job in the order
    granted = 0
    number, last = last_runner(sim, plan)
    while True:
        line = first_line(plan, sim.world["gpus"], False)
        if line < 0:
            return granted
        head = plan.waiters[plan.lines[line]["begin"]]
        needed = granted + plan.lines[line]["gpus"]
        while sim.world["free_gpus"] + r["taken_gpus"] < needed:
            if number < 0 or not might_precede(plan, head, last, near):
                return granted
            begin = r["taken"]
            number, last = take_last(sim, plan, near, number, last)
            for i in range(begin, r["taken"]):
                row = plan.tail[i]
                if first < 0 or before(plan.keys, plan.ranks, row, first):
                    first = row
        if first >= 0 and not before(plan.keys, plan.ranks, head, first):
            return granted
        plan.order[r["listed"]] = head
        plan.verdicts[r["listed"]] = NEWCOMER
        plan.rules[r["listed"]] = r["rule"]
        r["listed"] += 1
        granted = needed
        leave_line(plan.lines, plan.waiters, plan.keys, plan.ranks, line)


@kernel
def plan_by_count(sim: Run, plan: ListState) -> None:
    """List the jobs to preempt and the jobs to start, in order; all others stay as they are."""
    w = sim.world
    r = plan.memory
    line_up_runners(sim, plan)
    r["listed"] = 0
    granted = start_surely(sim, plan)
    taken = r["taken"]
    for i in range(taken // 2):
        plan.tail[i], plan.tail[taken - 1 - i] = plan.tail[taken - 1 - i], plan.tail[i]
    sort_rows(plan.tail, plan.scratch, plan.keys, plan.ranks, taken)
    budget = w["free_gpus"] + r["taken_gpus"] - granted
    supply = w["free_gpus"]
    at = 0
    while True:
        head = -1
        line = first_line(plan, budget, False)
        if line >= 0:
            head = plan.waiters[plan.lines[line]["begin"]]
        elif at == taken:
            break
        if at < taken and (line < 0 or before(plan.keys, plan.ranks, plan.tail[at], head)):
            row = plan.tail[at]
            gpus = sim.replicas[sim.jobs[row]["replica"]]["gpus"]
            at += 1
            if gpus <= budget:
                budget -= gpus
                continue
            plan.order[r["listed"]] = row
            plan.verdicts[r["listed"]] = SKIPPED
            if frees_at_once(sim, row):
                supply += gpus
        else:
            plan.order[r["listed"]] = head
            plan.verdicts[r["listed"]] = NEWCOMER
            plan.rules[r["listed"]] = r["rule"]
            budget -= plan.lines[line]["gpus"]
            leave_line(plan.lines, plan.waiters, plan.keys, plan.ranks, line)
        r["listed"] += 1
    for i in range(r["listed"]):
        if plan.verdicts[i] == NEWCOMER:
            row = plan.order[i]
            gang = sim.jobs[row]["gpus"]
            if gang <= supply:
                supply -= gang
            else:  # the GPUs that it gets are still in a checkpoint
                plan.verdicts[i] = NOT_NOW
                plan.left[r["leaving"]] = row
                r["leaving"] += 1
