"""The compiled loop of schedulers that are an order of jobs and a walk along it: FIFO, SJF, SRTF, LAS, Tiresias.

It decides what their ``decide`` decides, in the same sequence; tests compare the logs. What it need not do: look again
at jobs that could not start before, while no GPU has come back; and, where counts of GPUs decide who starts, look at
all who wait or run (line_kernels.py, runner_kernels.py, count_kernels.py).
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from gpusched_env.baselines.change_kernels import change_of_queue_s, expect_change, follow_changes_of_queue
from gpusched_env.baselines.count_kernels import plan_by_count
from gpusched_env.baselines.key_kernels import ATTAINED, QUEUES, set_key
from gpusched_env.baselines.line_kernels import first_line, join_line, leave_line, sort_rows
from gpusched_env.baselines.loop_kernels import ASLEEP, DECIDES, sleep, wake_at
from gpusched_env.baselines.runner_kernels import leave_runners, note_runner
from gpusched_env.simulator.binding import rows_of
from gpusched_env.simulator.calls import plan_by
from gpusched_env.core.events import APPLIED, BUFFER_FULL, DECIDE, LOG_FULL
from gpusched_env.simulator.jit import helper, int64, kernel
from gpusched_env.simulator.moves import preempt_by, start_by
from gpusched_env.core.placement.placing import ANYWHERE
from gpusched_env.core.planning import NEWCOMER, SKIPPED
from gpusched_env.core.state import CHECKPOINTING, WAITING

Array = np.ndarray[Any, Any]

# Where the loop stands between two calls, beside ASLEEP and DECIDES.
WALKS, STOPS, STARTS, ENDS = range(2, 6)
# What is walked along: a list made at each decision point, lines of waiting jobs, or the head of the queue alone.
LIST, LINES, HEAD = range(3)

LIST_DTYPE: Final = np.dtype(
    [
        ("order", "<i8"),  # ARRIVAL, SIZE, ATTAINED, QUEUES
        ("preempts", "<i8"),  # 1 = running jobs may be preempted
        ("strict", "<i8"),  # 1 = the first job that does not fit blocks all behind it
        ("by_gpus", "<i8"),  # 1 = sizes are multiplied by the gang
        ("incumbents", "<i8"),  # 1 = running jobs lead their queue
        ("rule", "<i8"),  # placement rule
        ("skewed_rule", "<i8"),  # that of models with more skew than ``packlimit``
        ("packlimit", "<f8"),
        ("monotone", "<i8"),  # 1 = what does not fit fits no better once others have been placed
        ("round_s", "<f8"),  # [s] of LAS
        ("longest_s", "<f8"),  # [s] run time of the longest job on the ideal placement
        ("along", "<i8"),  # LIST, LINES, HEAD
        ("until_s", "<f8"),  # [s] when to stop
        # where it stands
        ("phase", "<i8"),
        ("at", "<i8"),  # entry of the list that comes next
        ("listed", "<i8"),  # entries of ``order``
        ("walked", "<i8"),  # entries of ``walk``: what is walked along, or, along LINES, who runs (runner_kernels.py)
        ("apart", "<i8"),  # entries of ``walk`` that this decision point has not taken
        ("taken", "<i8"),  # running jobs that it has taken, ``tail``
        ("taken_gpus", "<i8"),  # that they hold [GPU]
        ("returns", "<i8"),  # gangs that had given GPUs back then
        ("idle", "<i8"),
        ("lined", "<i8"),  # jobs that have arrived and joined a line
        ("leaving", "<i8"),  # entries of ``left``: jobs that join a line when they wait again
        ("changing", "<i8"),  # gangs in the heap of changes of queue
        ("reads_round", "<i8"),  # 1 = this decision point is a round of LAS
    ]
)


@helper
def list_jobs(
    world: Array, jobs: Array, replicas: Array, waiting: Array, running: Array, list_: Array, order: Array,
    member: Array, b: int, with_running: bool,
) -> int:
    """List the jobs of this decision point in the order of the last one, newcomers behind; return their number."""
    w = world[b]
    for i in range(w["waiting"]):
        member[waiting[b, w["first_waiting"] + i]] = 1
    if with_running:
        for i in range(w["running"]):
            member[replicas[b, running[b, i]]["job"]] = 1
    count = int64(0)
    for i in range(list_[0]["listed"]):
        row = order[i]
        if member[row] == 1:
            member[row] = 0
            order[count] = row
            count += 1
    for i in range(w["waiting"]):
        row = waiting[b, w["first_waiting"] + i]
        if member[row] == 1:
            member[row] = 0
            order[count] = row
            count += 1
    if with_running:
        for i in range(w["running"]):
            row = replicas[b, running[b, i]]["job"]
            if member[row] == 1:
                member[row] = 0
                order[count] = row
                count += 1
    list_[0]["listed"] = count
    return count


@helper
def rule_of(jobs: Array, list_: Array, skew: Array, b: int, row: int) -> int:
    """Placement rule of a job."""
    r = list_[0]
    skewed = r["order"] == QUEUES and skew[row] > r["packlimit"] and jobs[b, row]["gpus"] > 1
    return int64(r["skewed_rule"] if skewed else r["rule"])


@helper
def sort_jobs(
    world: Array, jobs: Array, replicas: Array, list_: Array, skew: Array, thresholds: Array, order: Array,
    scratch: Array, keys: Array, ranks: Array, rules: Array, b: int, count: int,
) -> None:
    """Sort the listed jobs, and note the placement rule of each."""
    for i in range(count):
        set_key(world, jobs, replicas, list_, thresholds, keys, ranks, b, int64(order[i]))
    sort_rows(order, scratch, keys, ranks, count)
    for i in range(count):
        row = int64(order[i])
        rules[i] = rule_of(jobs, list_, skew, b, row)


@helper
def room_for_all(world: Array, jobs: Array, waiting: Array, list_: Array, skew: Array, b: int) -> bool:
    """Tell whether all waiting jobs find a place on the free GPUs: then nobody is preempted, whatever the order."""
    left = world[b]["free_gpus"]
    for i in range(world[b]["waiting"]):
        row = int64(waiting[b, world[b]["first_waiting"] + i])
        left -= jobs[b, row]["gpus"]
        if left < 0 or not list_[0]["monotone"] or rule_of(jobs, list_, skew, b, row) not in ANYWHERE:
            return False
    return True


@helper
def las_round(world: Array, list_: Array, b: int) -> tuple[bool, float]:
    """Tell whether this instant is a round of LAS, and when the next one is [s]."""
    now_s = world[b]["clock_s"]
    round_s = list_[0]["round_s"]
    rounds = max(math.floor(now_s / round_s) - 1, 0)
    while (rounds + 1) * round_s <= now_s:  # a division may round either way
        rounds += 1
    return rounds * round_s == now_s or world[b]["round_s"] > 0.0, (rounds + 1) * round_s


@helper
def join_lines(
    world: Array, jobs: Array, replicas: Array, list_: Array, thresholds: Array, lines: Array, line_of: Array,
    waiters: Array, left: Array, keys: Array, ranks: Array, b: int,
) -> None:
    """Line up the jobs that have arrived, and those of ``left`` that wait: who was stopped, or could not start yet."""
    r = list_[0]
    arrivals = world[b]["next_arrival"] - r["lined"]
    kept = 0
    for i in range(arrivals + r["leaving"]):
        row = int64(r["lined"] + i if i < arrivals else left[i - arrivals])
        if jobs[b, row]["status"] == WAITING:
            set_key(world, jobs, replicas, list_, thresholds, keys, ranks, b, row)
            join_line(lines, waiters, keys, ranks, int64(line_of[jobs[b, row]["gpus"]]), row)
        else:  # its checkpoint is being written
            left[kept] = row
            kept += 1
    r["lined"] += arrivals
    r["leaving"] = kept


@kernel
def play_list(
    world: Array, jobs: Array, replicas: Array, waiting: Array, running: Array, b: int, moves: int, plans: int,
    list_: Array, skew: Array, thresholds: Array, order: Array, walk: Array,
    scratch: Array, keys: Array, ranks: Array, rules: Array, verdict: Array, member: Array, failed: Array, lines: Array,
    line_of: Array, waiters: Array, left: Array, runners: Array, runner_rows: Array, levels: Array, tail: Array,
    changes_s: Array, heap: Array, places: Array, near: Array,
) -> int:
    """Play on until ``until_s`` (PAUSED), the log is full, or ``advance`` ends the run."""
    (
        world, jobs, replicas, waiting, running, list_, skew, thresholds, order, walk, scratch, keys, ranks, rules,
        verdict, member, failed, lines, line_of, waiters, left, runners, runner_rows, levels, tail, changes_s, heap,
        places, near,
    ) = rows_of((
        world, jobs, replicas, waiting, running, list_, skew, thresholds, order, walk, scratch, keys, ranks, rules,
        verdict, member, failed, lines, line_of, waiters, left, runners, runner_rows, levels, tail, changes_s, heap,
        places, near,
    ))  # fmt: skip
    w = world[b]
    r = list_[0]
    while True:
        if r["phase"] == ASLEEP:
            outcome = sleep(world, replicas, running, b, moves, list_)
            if outcome != DECIDE:
                return outcome
        if r["phase"] == DECIDES:
            r["reads_round"] = 0
            r["at"] = 0
            if w["waiting"] == 0:
                r["phase"] = ASLEEP
                continue
            if r["along"] == LINES:
                join_lines(
                    world, jobs, replicas, list_, thresholds, lines, line_of, waiters, left, keys, ranks, b
                )
            preempts = r["preempts"]
            if r["order"] == ATTAINED:
                at_round, _ = las_round(world, list_, b)
                r["reads_round"] = 1
                preempts = at_round
            if preempts and not room_for_all(world, jobs, waiting, list_, skew, b):
                r["phase"] = STOPS
                if r["along"] == LINES:
                    if r["order"] == QUEUES:
                        follow_changes_of_queue(
                            world, jobs, replicas, list_, thresholds, line_of, runners, runner_rows, levels, walk,
                            ranks, member, changes_s, heap, places, near, b,
                        )
                    plan_by_count(
                        world, jobs, replicas, list_, thresholds, lines, line_of, runners, runner_rows, levels,
                        waiters, left, order, walk, tail, scratch, keys, ranks, rules, verdict, member, failed, b,
                    )
                else:
                    count = list_jobs(world, jobs, replicas, waiting, running, list_, order, member, b, True)
                    sort_jobs(
                        world, jobs, replicas, list_, skew, thresholds, order, scratch, keys, ranks, rules, b, count
                    )
                    plan_by(plans, b, count)
            else:
                r["phase"] = WALKS
                if preempts or w["returns"] != r["returns"] or not r["monotone"]:
                    for i in range(len(failed)):
                        failed[i] = 0
                if r["along"] == LIST:
                    r["walked"] = w["waiting"]
                if r["along"] == LIST and w["free_gpus"] > 0:
                    list_jobs(world, jobs, replicas, waiting, running, list_, order, member, b, False)
                    sort_jobs(
                        world, jobs, replicas, list_, skew, thresholds, order, scratch, keys, ranks, rules, b,
                        int64(r["walked"]),
                    )
                    for i in range(r["walked"]):
                        walk[i] = order[i]
                if not preempts:
                    r["returns"] = w["returns"]
        if r["phase"] == WALKS:
            while w["free_gpus"] > 0:
                rule = int64(r["rule"])
                line = int64(-1)
                if r["along"] == LIST:
                    if r["at"] == r["walked"]:
                        break
                    row = int64(walk[r["at"]])
                    rule = int64(rules[r["at"]])
                elif r["along"] == HEAD:
                    if w["waiting"] == 0:
                        break
                    row = int64(waiting[b, w["first_waiting"]])
                else:
                    line = first_line(lines, waiters, keys, ranks, failed, int64(w["gpus"]), not r["strict"])
                    if line < 0:
                        break
                    row = int64(waiters[lines[line]["begin"]])
                gang = jobs[b, row]["gpus"]
                if not (r["monotone"] and failed[gang]):
                    code = start_by(moves, b, row, rule)
                    if code == BUFFER_FULL:
                        return LOG_FULL
                    if code != APPLIED:
                        failed[gang] = 1
                    else:
                        if line >= 0:
                            leave_line(lines, waiters, keys, ranks, line)
                            if r["preempts"] or r["order"] == ATTAINED:
                                note_runner(list_, walk, member, row)
                        if r["order"] == QUEUES:
                            number = int64(jobs[b, row]["replica"])
                            change_s = change_of_queue_s(world, jobs, replicas, thresholds, b, number)
                            expect_change(list_, changes_s, heap, places, number, change_s)
                if failed[gang] and r["strict"]:
                    break
                r["at"] += 1
            r["phase"] = ENDS
        if r["phase"] == STOPS:
            while r["at"] < r["listed"]:
                row = int64(order[r["at"]])
                number = jobs[b, row]["replica"]
                if verdict[r["at"]] == SKIPPED and number >= 0 and replicas[b, number]["phase"] != CHECKPOINTING:
                    code = preempt_by(moves, b, row)
                    if code == BUFFER_FULL:
                        return LOG_FULL
                    if code == APPLIED and r["along"] == LINES:
                        left[r["leaving"]] = row
                        r["leaving"] += 1
                        leave_runners(
                            list_, runners, runner_rows, levels, ranks, walk, member,
                            int64(line_of[jobs[b, row]["gpus"]]), row, jobs[b, row]["replica"] >= 0,
                        )
                r["at"] += 1
            r["at"] = 0
            r["phase"] = STARTS
        if r["phase"] == STARTS:
            while r["at"] < r["listed"]:
                if verdict[r["at"]] == NEWCOMER:
                    row = int64(order[r["at"]])
                    code = start_by(moves, b, row, int64(rules[r["at"]]))
                    if code == BUFFER_FULL:
                        return LOG_FULL
                    if code == APPLIED and r["along"] == LINES:
                        note_runner(list_, walk, member, row)
                    elif r["along"] == LINES:
                        left[r["leaving"]] = row
                        r["leaving"] += 1
                    if code == APPLIED and r["order"] == QUEUES:
                        number = int64(jobs[b, row]["replica"])
                        change_s = change_of_queue_s(world, jobs, replicas, thresholds, b, number)
                        expect_change(list_, changes_s, heap, places, number, change_s)
                r["at"] += 1
            r["phase"] = ENDS
        if r["phase"] == ENDS:
            if r["reads_round"]:
                _, next_s = las_round(world, list_, b)
                wake_at(world, b, next_s)
            elif r["order"] == QUEUES:
                change_s = follow_changes_of_queue(
                    world, jobs, replicas, list_, thresholds, line_of, runners, runner_rows, levels, walk, ranks,
                    member, changes_s, heap, places, near, b,
                )
                # a change closer than the clock can tell is still a change
                wake_at(world, b, max(change_s, np.nextafter(w["clock_s"], np.inf)))
            r["phase"] = ASLEEP
