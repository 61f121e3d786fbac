"""Running jobs in order, so that the last job is found without sorting all jobs.

For each gang size, the jobs whose keys change at the same rate are in one sorted list. The order of these jobs does not
change. The level of a job is its key - rate x clock, which is constant. Until a job stops, it leaves its list only if
it changes its queue.

All other running jobs are in ``walk``, and their keys are recomputed at each decision point. These are gangs that have
just started, and gangs in a restore or a checkpoint. If the order depends on remaining work, gangs that run slower than
on their ideal placement are in ``walk`` as well.
"""

from __future__ import annotations

from gpusched_env.baselines.list_policies.keys import NEAR, NEAR_S, QUEUES, keeps_pace, pace_of, set_key
from gpusched_env.baselines.list_policies.lines import before, sort_rows
from gpusched_env.baselines.list_policies.state import ListState
from gpusched_env.core.handle import helper, kernel
from gpusched_env.core.state import Run

# Values of ``member``: where a running job is kept.
NOWHERE, IN_WALK, IN_LIST = range(3)


@helper
def _jobs_before(plan: ListState, number: int, row: int) -> int:
    """Count the jobs of a list that come before another job, by binary search."""
    begin = plan.runners[number]["begin"]
    low = 0
    high = plan.runners[number]["count"]
    while low < high:
        middle = (low + high) // 2
        if before(plan.levels, plan.ranks, plan.runner_rows[begin + middle], row):
            low = middle + 1
        else:
            high = middle
    return low


@helper
def join_runners(sim: Run, plan: ListState, number: int, row: int) -> None:
    """Insert a running job into the list of its gang size."""
    list_ = plan.runners[number]
    begin = list_["begin"]
    if (
        list_["count"] == list_["room"]
    ):  # it has room for twice the running gangs, so clearing ended jobs frees half of it
        kept = 0
        for i in range(begin, begin + list_["count"]):
            if sim.jobs[plan.runner_rows[i]]["replica"] >= 0:
                plan.runner_rows[begin + kept] = plan.runner_rows[i]
                kept += 1
        list_["count"] = kept
    at = _jobs_before(plan, number, row)
    for i in range(begin + list_["count"], begin + at, -1):
        plan.runner_rows[i] = plan.runner_rows[i - 1]
    plan.runner_rows[begin + at] = row
    list_["count"] += 1
    plan.member[row] = IN_LIST


@helper
def leave_runners(plan: ListState, number: int, row: int, runs: bool) -> None:
    """Remove a job from the list of its gang size, if it is there; if it still ``runs``, add it to ``walk``."""
    if plan.member[row] == IN_LIST:
        of_size = plan.runners[number]
        begin = of_size["begin"]
        at = begin + _jobs_before(plan, number, row)
        of_size["count"] -= 1
        for i in range(at, begin + of_size["count"]):
            plan.runner_rows[i] = plan.runner_rows[i + 1]
        plan.member[row] = NOWHERE
        if runs:
            note_runner(plan, row)


@helper
def note_runner(plan: ListState, row: int) -> None:
    """Add a running job to ``walk``, unless it is still there from an earlier start."""
    if plan.member[row] == NOWHERE:
        plan.member[row] = IN_WALK
        plan.walk[plan.memory["walked"]] = row
        plan.memory["walked"] += 1


@helper
def line_up_runners(sim: Run, plan: ListState) -> None:
    """Update ``walk``: stopped jobs leave, jobs at the common rate join their list, and the others are sorted."""
    r = plan.memory
    count = 0
    for i in range(r["walked"]):
        row = plan.walk[i]
        if sim.jobs[row]["replica"] < 0:
            plan.member[row] = NOWHERE
            continue
        set_key(sim, plan, row)
        if keeps_pace(sim, plan, row):
            gpus = sim.jobs[row]["gpus"]
            plan.levels[row] = plan.keys[row] - pace_of(plan, gpus) * sim.world["clock_s"]
            join_runners(sim, plan, plan.line_of[gpus], row)
        else:
            plan.walk[count] = row
            count += 1
    r["walked"] = count
    sort_rows(plan.walk, plan.scratch, plan.keys, plan.ranks, count)
    r["apart"] = count
    r["taken"] = 0
    r["taken_gpus"] = 0
    for number in range(len(plan.runners)):
        plan.runners[number]["taken"] = 0


@kernel
def last_runner(sim: Run, plan: ListState) -> tuple[int, int]:
    """Find the last running job that is not taken, up to rounding; return its list (-1 = none) and its row."""
    found = -1
    last = -1
    if plan.memory["apart"] > 0:
        found = len(plan.runners)
        last = plan.walk[plan.memory["apart"] - 1]
    for number in range(len(plan.runners)):
        of_size = plan.runners[number]
        row = -1
        while of_size["taken"] < of_size["count"]:
            row = plan.runner_rows[of_size["begin"] + of_size["count"] - 1 - of_size["taken"]]
            if sim.jobs[row]["replica"] >= 0:
                break
            if of_size["taken"] == 0:  # it has ended: remove it
                of_size["count"] -= 1
            else:
                of_size["taken"] += 1
        if of_size["taken"] < of_size["count"]:
            plan.keys[row] = plan.levels[row] + pace_of(plan, plan.lines[number]["gpus"]) * sim.world["clock_s"]
            if found < 0 or before(plan.keys, plan.ranks, last, row):
                found = number
                last = row
    return found, last


@helper
def rounding(sim: Run, plan: ListState) -> float:
    """Return the difference of keys below which levels may order two jobs wrongly; 0 = levels are exact."""
    if plan.memory["order"] == QUEUES:
        return 0.0
    pace = abs(pace_of(plan, plan.lines[len(plan.lines) - 1]["gpus"]))
    return (NEAR_S + NEAR * (sim.world["clock_s"] + plan.memory["longest_s"])) * pace


@helper
def take_last(sim: Run, plan: ListState, near: float, number: int, row: int) -> tuple[int, int]:
    """Take the job found by ``last_runner`` and all jobs with nearly the same key; return what it finds then.

    The keys of the taken jobs are recomputed.
    """
    r = plan.memory
    while True:
        lowest = plan.keys[row]
        plan.tail[r["taken"]] = row
        r["taken"] += 1
        r["taken_gpus"] += sim.replicas[sim.jobs[row]["replica"]]["gpus"]
        if number == len(plan.runners):
            r["apart"] -= 1
        else:
            plan.runners[number]["taken"] += 1
        set_key(sim, plan, row)
        number, row = last_runner(sim, plan)
        if number < 0 or near == 0.0 or plan.keys[row] + near < lowest:
            return number, row
