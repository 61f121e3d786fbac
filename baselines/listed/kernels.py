"""The compiled loop of list schedulers: FIFO, SJF, SRTF, LAS, Tiresias.

The loop makes the same decisions as ``decide`` of these schedulers, in the same order; tests compare the event logs. It
saves two kinds of work. Jobs that could not start are not tried again until GPUs have been released. If only numbers of
GPUs determine which jobs start, the loop does not visit all waiting and running jobs (lines.py, runners.py, counts.py).
"""

from __future__ import annotations

import math

import numpy as np

from gpusched_env.baselines.listed.changes import change_of_queue_s, expect_change, follow_changes_of_queue
from gpusched_env.baselines.listed.counts import plan_by_count
from gpusched_env.baselines.listed.gittins import rank_by_index
from gpusched_env.baselines.listed.keys import ATTAINED, QUEUES, set_key
from gpusched_env.baselines.listed.lines import first_line, join_line, leave_line, sort_rows
from gpusched_env.baselines.listed.runners import leave_runners, note_runner
from gpusched_env.baselines.listed.state import ListState
from gpusched_env.baselines.loop_kernels import ASLEEP, DECIDES, sleep, wake_at
from gpusched_env.core.events import DECIDE, LOG_FULL, preempt, start
from gpusched_env.core.handle import kernel
from gpusched_env.core.planning import NEWCOMER, SKIPPED, Walk, plan_preemptive
from gpusched_env.core.refusals import APPLIED, BUFFER_FULL
from gpusched_env.core.state import CHECKPOINTING, WAITING, Run

# Phases of the loop between two calls, in addition to ASLEEP and DECIDES.
WALKS, STOPS, STARTS, ENDS = range(2, 6)
# What the loop walks along: a list made at each decision point, heaps of waiting jobs, or the head of the queue.
LIST, LINES, HEAD = range(3)


@kernel
def list_jobs(sim: Run, plan: ListState, with_running: bool) -> int:
    """List the jobs of this decision point: those of the last list come first, in its order.

    Returns the number of listed jobs.
    """
    w = sim.world
    for i in range(w["waiting"]):
        plan.member[sim.waiting[w["first_waiting"] + i]] = 1
    if with_running:
        for i in range(w["running"]):
            plan.member[sim.replicas[sim.running[i]]["job"]] = 1
    count = 0
    for i in range(plan.memory["listed"]):
        row = plan.order[i]
        if plan.member[row] == 1:
            plan.member[row] = 0
            plan.order[count] = row
            count += 1
    for i in range(w["waiting"]):
        row = sim.waiting[w["first_waiting"] + i]
        if plan.member[row] == 1:
            plan.member[row] = 0
            plan.order[count] = row
            count += 1
    if with_running:
        for i in range(w["running"]):
            row = sim.replicas[sim.running[i]]["job"]
            if plan.member[row] == 1:
                plan.member[row] = 0
                plan.order[count] = row
                count += 1
    plan.memory["listed"] = count
    return count


@kernel
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


@kernel
def room_for_all(sim: Run, plan: ListState) -> bool:
    """Return whether all waiting jobs fit on the free GPUs; then no job is preempted, whatever the order."""
    left = sim.world["free_gpus"]
    for i in range(sim.world["waiting"]):
        row = sim.waiting[sim.world["first_waiting"] + i]
        left -= sim.jobs[row]["gpus"]
        if left < 0 or not plan.memory["monotone"] or sim.rules[rule_of(sim, plan, row)]["anywhere"] == 0:
            return False
    return True


@kernel
def las_round(sim: Run, plan: ListState) -> tuple[bool, float]:
    """Return whether a round of LAS begins now, and when the next one begins [s]."""
    now_s = sim.world["clock_s"]
    round_s = plan.memory["round_s"]
    rounds = max(math.floor(now_s / round_s) - 1, 0)
    while (rounds + 1) * round_s <= now_s:  # the division may round up or down
        rounds += 1
    return rounds * round_s == now_s or sim.world["round_s"] > 0.0, (rounds + 1) * round_s


@kernel
def join_lines(sim: Run, plan: ListState) -> None:
    """Insert new arrivals, and those jobs of ``left`` that wait now (preempted, or not started), into the lines."""
    r = plan.memory
    arrivals = sim.world["next_arrival"] - r["lined"]
    kept = 0
    for i in range(arrivals + r["leaving"]):
        row = r["lined"] + i if i < arrivals else plan.left[i - arrivals]
        if sim.jobs[row]["status"] == WAITING:
            set_key(sim, plan, row)
            join_line(plan.lines, plan.waiters, plan.keys, plan.ranks, plan.line_of[sim.jobs[row]["gpus"]], row)
        elif i >= arrivals:  # its checkpoint is still being written
            plan.left[kept] = row
            kept += 1
    r["lined"] += arrivals
    r["leaving"] = kept


@kernel
def play_list(sim: Run, plan: ListState, walk: Walk) -> int:
    """Play until ``until_s`` (PAUSED), until the log is full, or until ``advance`` ends the run."""
    w = sim.world
    r = plan.memory
    while True:
        if r["phase"] == ASLEEP:
            outcome = sleep(sim, plan.memory)
            if outcome != DECIDE:
                return outcome
        if r["phase"] == DECIDES:
            r["reads_round"] = 0
            r["at"] = 0
            if w["waiting"] == 0:
                r["phase"] = ASLEEP
                continue
            if r["along"] == LINES:
                join_lines(sim, plan)
            preempts = r["preempts"]
            if r["order"] == ATTAINED:
                at_round, _ = las_round(sim, plan)
                r["reads_round"] = 1
                preempts = at_round
            if preempts and not room_for_all(sim, plan):
                r["phase"] = STOPS
                if r["along"] == LINES:
                    if r["order"] == QUEUES:
                        follow_changes_of_queue(sim, plan)
                    plan_by_count(sim, plan)
                else:
                    count = list_jobs(sim, plan, True)
                    sort_jobs(sim, plan, count)
                    plan_preemptive(sim, walk, count)
            else:
                r["phase"] = WALKS
                if preempts or w["returns"] != r["returns"] or not r["monotone"]:
                    for i in range(len(plan.failed)):
                        plan.failed[i] = 0
                if r["along"] == LIST:
                    r["walked"] = w["waiting"]
                if r["along"] == LIST and w["free_gpus"] > 0:
                    list_jobs(sim, plan, False)
                    sort_jobs(sim, plan, r["walked"])
                    for i in range(r["walked"]):
                        plan.walk[i] = plan.order[i]
                if not preempts:
                    r["returns"] = w["returns"]
        if r["phase"] == WALKS:
            while w["free_gpus"] > 0:
                rule = r["rule"]
                line = -1
                if r["along"] == LIST:
                    if r["at"] == r["walked"]:
                        break
                    row = plan.walk[r["at"]]
                    rule = plan.rules[r["at"]]
                elif r["along"] == HEAD:
                    if w["waiting"] == 0:
                        break
                    row = sim.waiting[w["first_waiting"]]
                else:
                    line = first_line(plan, w["gpus"], not r["strict"])
                    if line < 0:
                        break
                    row = plan.waiters[plan.lines[line]["begin"]]
                gang = sim.jobs[row]["gpus"]
                if not (r["monotone"] and plan.failed[gang]):
                    code = start(sim, row, rule, 0, False, 0)
                    if code == BUFFER_FULL:
                        return LOG_FULL
                    if code != APPLIED:
                        plan.failed[gang] = 1
                    else:
                        if line >= 0:
                            leave_line(plan.lines, plan.waiters, plan.keys, plan.ranks, line)
                            if r["preempts"] or r["order"] == ATTAINED:
                                note_runner(plan, row)
                        if r["order"] == QUEUES:
                            number = sim.jobs[row]["replica"]
                            change_s = change_of_queue_s(sim, plan, number)
                            expect_change(plan, number, change_s)
                if plan.failed[gang] and r["strict"]:
                    break
                r["at"] += 1
            r["phase"] = ENDS
        if r["phase"] == STOPS:
            while r["at"] < r["listed"]:
                row = plan.order[r["at"]]
                number = sim.jobs[row]["replica"]
                if plan.verdict[r["at"]] == SKIPPED and number >= 0 and sim.replicas[number]["phase"] != CHECKPOINTING:
                    code = preempt(sim, row)
                    if code == BUFFER_FULL:
                        return LOG_FULL
                    if code == APPLIED and r["along"] == LINES:
                        plan.left[r["leaving"]] = row
                        r["leaving"] += 1
                        leave_runners(plan, plan.line_of[sim.jobs[row]["gpus"]], row, sim.jobs[row]["replica"] >= 0)
                r["at"] += 1
            r["at"] = 0
            r["phase"] = STARTS
        if r["phase"] == STARTS:
            while r["at"] < r["listed"]:
                if plan.verdict[r["at"]] == NEWCOMER:
                    row = plan.order[r["at"]]
                    code = start(sim, row, plan.rules[r["at"]], 0, False, 0)
                    if code == BUFFER_FULL:
                        return LOG_FULL
                    if code == APPLIED and r["along"] == LINES:
                        note_runner(plan, row)
                    elif r["along"] == LINES:
                        plan.left[r["leaving"]] = row
                        r["leaving"] += 1
                    if code == APPLIED and r["order"] == QUEUES:
                        number = sim.jobs[row]["replica"]
                        change_s = change_of_queue_s(sim, plan, number)
                        expect_change(plan, number, change_s)
                r["at"] += 1
            r["phase"] = ENDS
        if r["phase"] == ENDS:
            if r["reads_round"]:
                _, next_s = las_round(sim, plan)
                wake_at(sim, next_s)
            elif r["order"] == QUEUES:
                change_s = follow_changes_of_queue(sim, plan)
                # a change within the resolution of the clock must still wake the loop later
                wake_at(sim, max(change_s, np.nextafter(w["clock_s"], np.inf)))
            r["phase"] = ASLEEP
