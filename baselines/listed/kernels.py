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
from gpusched_env.baselines.listed.keys import ATTAINED, QUEUES
from gpusched_env.baselines.listed.lines import first_line, leave_line
from gpusched_env.baselines.listed.listing import join_lines, list_jobs, room_for_all, sort_jobs
from gpusched_env.baselines.listed.runners import leave_runners, note_runner
from gpusched_env.baselines.listed.state import ListState
from gpusched_env.baselines.loop_kernels import ASLEEP, DECIDES, sleep, waits_until
from gpusched_env.core.events import BAD_WAIT, DECIDE, LOG_FULL, preempt, start
from gpusched_env.core.handle import helper, kernel
from gpusched_env.core.planning import NEWCOMER, SKIPPED, Walk, plan_preemptive
from gpusched_env.core.refusals import APPLIED, BUFFER_FULL
from gpusched_env.core.state import CHECKPOINTING, Run

# Phases of the loop between two calls, in addition to ASLEEP and DECIDES.
WALKS, STOPS, STARTS, ENDS = range(2, 6)
# What the loop walks along: a list made at each decision point, heaps of waiting jobs, or the head of the queue.
LIST, LINES, HEAD = range(3)


@kernel
def las_round(sim: Run, plan: ListState) -> tuple[bool, float]:
    """Return whether a round of LAS begins now, and when the next one begins [s]."""
    now_s = sim.world["clock_s"]
    round_s = plan.memory["round_s"]
    rounds = max(math.floor(now_s / round_s) - 1, 0)
    for _ in range(3):  # the division may round up or down
        if (rounds + 1) * round_s <= now_s:
            rounds += 1
    return rounds * round_s == now_s or sim.world["round_s"] > 0.0, (rounds + 1) * round_s


@helper
def begin_walk(sim: Run, plan: ListState, tries_all: bool) -> None:
    """Prepare a walk along the waiting jobs; ``tries_all``: also those that have found no place before."""
    r = plan.memory
    if tries_all or not r["monotone"]:
        for i in range(len(plan.failed)):
            plan.failed[i] = 0
    if r["along"] == LIST:
        r["walked"] = sim.world["waiting"]
        if sim.world["free_gpus"] > 0:
            list_jobs(sim, plan, False)
            sort_jobs(sim, plan, r["walked"])
            for i in range(r["walked"]):
                plan.walk[i] = plan.order[i]


@helper
def choose_phase(sim: Run, plan: ListState) -> None:
    """Begin a decision point: choose what the loop does, STOPS if jobs may be preempted, else WALKS."""
    r = plan.memory
    r["reads_round"] = 0
    r["at"] = 0
    if sim.world["waiting"] == 0:
        r["phase"] = ASLEEP
        return
    if r["along"] == LINES:
        join_lines(sim, plan)
    preempts = r["preempts"]
    if r["order"] == ATTAINED:
        preempts, _ = las_round(sim, plan)
        r["reads_round"] = 1
    if preempts and not room_for_all(sim, plan):
        r["phase"] = STOPS
        return
    r["phase"] = WALKS
    begin_walk(sim, plan, preempts or sim.world["returns"] != r["returns"])
    if not preempts:
        r["returns"] = sim.world["returns"]


@helper
def next_of_walk(sim: Run, plan: ListState) -> tuple[int, int, int]:
    """Return the next waiting job of the walk, its placement rule, and its line, -1 = none; job -1 = the walk ends."""
    w = sim.world
    r = plan.memory
    if w["free_gpus"] == 0:
        return -1, 0, -1
    if r["along"] == LIST:
        at = r["at"]
        return (-1, 0, -1) if at == r["walked"] else (plan.walk[at], plan.rules[at], -1)
    if r["along"] == HEAD:
        return -1 if w["waiting"] == 0 else sim.waiting[w["first_waiting"]], r["rule"], -1
    line = first_line(plan, w["gpus"], not r["strict"])
    return -1 if line < 0 else plan.waiters[plan.lines[line]["begin"]], r["rule"], line


@helper
def note_start(sim: Run, plan: ListState, row: int) -> None:
    """Write down when a job that has started will change its queue."""
    if plan.memory["order"] == QUEUES:
        number = sim.jobs[row]["replica"]
        expect_change(plan, number, change_of_queue_s(sim, plan, number))


@kernel
def walk_along(sim: Run, plan: ListState) -> bool:
    """Start waiting jobs one after another; return False if the log is full."""
    r = plan.memory
    while True:
        row, rule, line = next_of_walk(sim, plan)
        if row < 0:
            break
        gang = sim.jobs[row]["gpus"]
        if not (r["monotone"] and plan.failed[gang]):
            code = start(sim, row, rule, 0, False, 0)
            if code == BUFFER_FULL:
                return False
            if code != APPLIED:
                plan.failed[gang] = 1
            else:
                if line >= 0:
                    leave_line(plan.lines, plan.waiters, plan.keys, plan.ranks, line)
                    if r["preempts"] or r["order"] == ATTAINED:
                        note_runner(plan, row)
                note_start(sim, plan, row)
        if plan.failed[gang] and r["strict"]:
            break
        r["at"] += 1
    r["phase"] = ENDS
    return True


@kernel
def plan_victims(sim: Run, plan: ListState, walk: Walk) -> None:
    """Decide which jobs shall run."""
    r = plan.memory
    if r["along"] == LINES:
        if r["order"] == QUEUES:
            follow_changes_of_queue(sim, plan)
        plan_by_count(sim, plan)
    else:
        count = list_jobs(sim, plan, True)
        sort_jobs(sim, plan, count)
        plan_preemptive(sim, walk, count)


@kernel
def preempt_others(sim: Run, plan: ListState) -> bool:
    """Preempt the running jobs that shall not run; return False if the log is full."""
    r = plan.memory
    while r["at"] < r["listed"]:
        row = plan.order[r["at"]]
        number = sim.jobs[row]["replica"]
        if plan.verdict[r["at"]] == SKIPPED and number >= 0 and sim.replicas[number]["phase"] != CHECKPOINTING:
            code = preempt(sim, row)
            if code == BUFFER_FULL:
                return False
            if code == APPLIED and r["along"] == LINES:
                plan.left[r["leaving"]] = row
                r["leaving"] += 1
                leave_runners(plan, plan.line_of[sim.jobs[row]["gpus"]], row, sim.jobs[row]["replica"] >= 0)
        r["at"] += 1
    r["at"] = 0
    r["phase"] = STARTS
    return True


@kernel
def start_newcomers(sim: Run, plan: ListState) -> bool:
    """Start the waiting jobs that shall run; return False if the log is full."""
    r = plan.memory
    while r["at"] < r["listed"]:
        if plan.verdict[r["at"]] == NEWCOMER:
            row = plan.order[r["at"]]
            code = start(sim, row, plan.rules[r["at"]], 0, False, 0)
            if code == BUFFER_FULL:
                return False
            if code == APPLIED:
                if r["along"] == LINES:
                    note_runner(plan, row)
                note_start(sim, plan, row)
            elif r["along"] == LINES:
                plan.left[r["leaving"]] = row
                r["leaving"] += 1
        r["at"] += 1
    r["phase"] = ENDS
    return True


@helper
def end_decisions(sim: Run, plan: ListState) -> bool:
    """End a decision point: set the timer of a scheduler whose order changes with time; return False for BAD_WAIT."""
    r = plan.memory
    r["phase"] = ASLEEP
    if r["reads_round"]:
        _, next_s = las_round(sim, plan)
        return waits_until(sim, next_s)
    if r["order"] == QUEUES:
        change_s = follow_changes_of_queue(sim, plan)
        # a change within the resolution of the clock must still wake the loop later
        return waits_until(sim, max(change_s, np.nextafter(sim.world["clock_s"], np.inf)))
    return True


@kernel
def play_list(sim: Run, plan: ListState, walk: Walk) -> int:
    """Play until ``until_s`` (PAUSED), until the log is full, or until ``advance`` ends the run."""
    r = plan.memory
    while True:
        if r["phase"] == ASLEEP:
            outcome = sleep(sim, plan.memory)
            if outcome != DECIDE:
                return outcome
        if r["phase"] == DECIDES:
            choose_phase(sim, plan)
            if r["phase"] == STOPS:
                plan_victims(sim, plan, walk)
        if r["phase"] == WALKS and not walk_along(sim, plan):
            return LOG_FULL
        if r["phase"] == STOPS and not preempt_others(sim, plan):
            return LOG_FULL
        if r["phase"] == STARTS and not start_newcomers(sim, plan):
            return LOG_FULL
        if r["phase"] == ENDS and not end_decisions(sim, plan):
            return BAD_WAIT
