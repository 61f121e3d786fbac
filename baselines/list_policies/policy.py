"""The policy of list schedulers: FIFO, SJF, SRTF, LAS, Tiresias, SJF-BSBF.

At each decision point, the policy sorts the jobs and starts those that fit, in this order; or it decides which jobs
shall run, and preempts the others. If it is alone, it saves two kinds of work. Jobs that could not start are not tried
again until GPUs have been released. If only numbers of GPUs determine which jobs start, it does not visit all waiting
and running jobs (lines.py, runners.py, counts.py).
"""

from __future__ import annotations

from typing import Final

import numpy as np

from gpusched_env.baselines.estimates import PREDICTED, USER, has_news, passes_s
from gpusched_env.baselines.list_policies.backfill import next_backfilled, next_revision_s, reserve_for_first
from gpusched_env.baselines.list_policies.counts import plan_by_count
from gpusched_env.baselines.list_policies.keys import ATTAINED, QUEUES
from gpusched_env.baselines.list_policies.lines import first_line, leave_line
from gpusched_env.baselines.list_policies.listing import (
    forget_failures,
    join_lines,
    list_jobs,
    plan_walk,
    room_for_all,
    sort_jobs,
)
from gpusched_env.baselines.list_policies.queue_changes import (
    change_of_queue_s,
    count_held,
    expect_change,
    follow_changes_of_queue,
    next_change_of_queue,
    note_queues,
    promote_starved,
)
from gpusched_env.baselines.list_policies.runners import leave_runners, note_runner
from gpusched_env.baselines.list_policies.state import ListState
from gpusched_env.core.driver import ASSIST, BEGINS, NOTHING, START, WAIT, Choice, policy
from gpusched_env.core.events import round_from
from gpusched_env.core.handle import helper, kernel
from gpusched_env.core.placement.shared import find_shared
from gpusched_env.core.planning import next_of_plan, plan_preemptive
from gpusched_env.core.refusals import APPLIED
from gpusched_env.core.state import ACTIVE, Run
from gpusched_env.support.units import LATEST_S

# Phases of a decision point.
ENDED, WALKS, SHARES, PLANNED, BACKFILLS, ENDS, ASKED = range(7)
MOST_BARREN: Final = 10  # time in which no gang works / time that a preemption and a round take
# What the policy walks along: a list made at each decision point, heaps of waiting jobs, or the head of the queue.
LIST, LINES, HEAD = range(3)


@kernel
def this_round(sim: Run, plan: ListState) -> tuple[bool, float]:
    """Return whether a round begins now, and when the next one begins [s]."""
    now_s = sim.world["clock_s"]
    round_s = plan.memory["round_s"]
    rounds = round_from(now_s, round_s)
    begins = rounds * round_s == now_s
    return begins or sim.world["round_s"] > 0.0, (rounds + begins) * round_s


@kernel
def plan_victims(sim: Run, plan: ListState) -> None:
    """Decide which jobs shall run."""
    r = plan.memory
    if r["along"] == LINES:
        if r["order"] == QUEUES:
            follow_changes_of_queue(sim, plan)
        plan_by_count(sim, plan)
    else:
        count = list_jobs(sim, plan, True)
        sort_jobs(sim, plan, count)
        plan_preemptive(sim, plan, count)
    r["phase"] = PLANNED


@helper
def plan_starts(sim: Run, plan: ListState, preempts: bool) -> None:
    """Choose how waiting jobs start without preemptions; with ``preempts``, all of them fit."""
    r = plan.memory
    shares = r["choices"] >= 0 and not preempts
    forget_failures(sim, plan, preempts)
    if r["along"] != LIST:
        r["phase"] = WALKS
    elif sim.world["free_gpus"] > 0 or (shares and r["if_full"]):
        count = list_jobs(sim, plan, False)
        sort_jobs(sim, plan, count)
        r["phase"] = SHARES
        if not shares:
            plan_walk(sim, plan, count, preempts)
            r["phase"] = PLANNED


@kernel
def spares_young(sim: Run, plan: ListState) -> bool:
    """Return whether this round preempts no gang, because one has not worked for a round since its restore.

    This holds once so many rounds in a row have found no gang at work that preemptions must have kept all from working.
    """
    w = sim.world
    r = plan.memory
    works = w["finished"] > r["ended"]
    young = False
    for i in range(w["running"]):
        gang = sim.replicas[sim.running[i]]
        if gang["phase"] == ACTIVE:
            works = works or gang["since_s"] < w["clock_s"]
            young = young or w["clock_s"] < gang["start_s"] + w["restore_s"] + r["round_s"]
    r["ended"] = w["finished"]
    most = MOST_BARREN * (w["checkpoint_s"] + w["restore_s"] + r["round_s"]) / r["round_s"]
    if r["barren"] <= most:
        r["barren"] = 0 if works else r["barren"] + 1
    return r["barren"] > most and young


@helper
def begin_decisions(sim: Run, plan: ListState) -> None:
    """Begin a decision point: plan what can be planned."""
    r = plan.memory
    r["phase"] = ENDED
    if r["by_held"]:
        count_held(sim, plan)
        if sim.world["waiting"] == 0 and not r["tail"]:
            return
    r["phase"] = ENDS
    preempts = r["preempts"] > 0
    if r["round_s"] > 0.0:
        begins, _ = this_round(sim, plan)
        preempts = begins and r["order"] == ATTAINED and not spares_young(sim, plan)
        if not (begins or r["order"] == ATTAINED):
            return
    if r["knob"] < np.inf:
        promote_starved(sim, plan)
    if r["by_entry"]:
        note_queues(sim, plan)
    if r["along"] == LINES:
        join_lines(sim, plan)
    if preempts and not room_for_all(sim, plan):
        plan_victims(sim, plan)
    else:
        plan_starts(sim, plan, preempts)


@helper
def next_of_walk(sim: Run, plan: ListState) -> int:
    """Return the next waiting job of the walk; -1 = the walk ends."""
    w = sim.world
    if w["free_gpus"] == 0 or w["waiting"] == 0:
        return -1
    row = sim.waiting[w["first_waiting"]]
    if plan.memory["along"] == LINES:
        line = first_line(plan, w["gpus"], not plan.memory["strict"])
        if line < 0:
            return -1
        row = plan.waiters[plan.lines[line]["begin"]]
    return -1 if plan.failed[sim.jobs[row]["gpus"]] else row


@helper
def note_started(sim: Run, plan: ListState, row: int) -> None:
    """Note that a job has started; the policy goes along lines."""
    r = plan.memory
    if r["phase"] == WALKS:
        leave_line(plan.lines, plan.waiters, plan.keys, plan.ranks, plan.line_of[sim.jobs[row]["gpus"]])
    if r["preempts"] or r["order"] == ATTAINED:
        note_runner(plan, row)
    if r["order"] == QUEUES:
        number = sim.jobs[row]["replica"]
        expect_change(plan, number, change_of_queue_s(sim, plan, number))


@helper
def note_planned(sim: Run, plan: ListState, choice: Choice) -> None:
    """Note what has become of the latest decision of a plan; the policy goes along lines."""
    r = plan.memory
    row = choice.made["row"]
    applied = choice.made["refusal"] == APPLIED
    stops = choice.made["at"] <= r["listed"]
    if stops and applied:
        leave_runners(plan, plan.line_of[sim.jobs[row]["gpus"]], row, sim.jobs[row]["replica"] >= 0)
    elif applied:
        note_started(sim, plan, row)
    if stops == applied:  # it joins its line when it waits
        plan.left[r["leaving"]] = row
        r["leaving"] += 1


@kernel
def next_shared(sim: Run, plan: ListState, choice: Choice) -> bool:
    """Write the next start on free or shared GPUs; return whether there is one."""
    c = choice.made
    while c["at"] < plan.memory["listed"]:
        row = plan.order[c["at"]]
        c["at"] += 1
        count, option = find_shared(sim, row, plan.memory["choices"])
        if count > 0:
            c["row"] = row
            c["gpus"] = count
            c["share"] = 1
            c["sub_steps"] = sim.sub_batches[sim.jobs[row]["job_class"], option, 0]["sub_steps"]
            return True
        if plan.memory["strict"]:
            break
    return False


@helper
def start_by_rule(choice: Choice, row: int, rule: int) -> int:
    """Write the start of a job by a placement rule; return START."""
    c = choice.made
    c["row"] = row
    c["rule"] = rule
    c["gpus"] = 0
    c["sub_steps"] = 0
    return START


@kernel(lazy=True)
def begin_backfill(sim: Run, plan: ListState, choice: Choice) -> None:
    """Go on to EASY backfill, if jobs could start."""
    plan.memory["walked"] = 0
    if sim.world["waiting"] > 1 and sim.world["free_gpus"] > 0:
        reserve_for_first(sim, plan)
        plan.memory["phase"] = BACKFILLS
        choice.made["at"] = 0


@kernel
def next_look_s(sim: Run, plan: ListState) -> float:
    """Return when the order of the jobs may change although nothing happens [s]; inf = never."""
    r = plan.memory
    if r["round_s"] > 0.0:
        _, next_s = this_round(sim, plan)
        return next_s
    change_s = np.inf
    watches = r["preempts"] > 0 or (sim.world["free_gpus"] > 0 and r["walked"] > 0)
    if r["order"] == QUEUES:
        change_s = follow_changes_of_queue(sim, plan) if r["along"] == LINES else next_change_of_queue(sim, plan)
    elif plan.source["estimator"] >= USER and sim.world["waiting"] > 0 and watches:
        change_s = passes_s(next_revision_s(sim, plan))
    # a change within the resolution of the clock must still be later
    return max(change_s, np.nextafter(sim.world["clock_s"], np.inf))


@kernel
def next_of_phase(sim: Run, choice: Choice, plan: ListState) -> int:
    """Write the next decision of a phase beyond WALKS and PLANNED, and return its kind."""
    c = choice.made
    r = plan.memory
    if r["phase"] == ENDED:
        return NOTHING
    if r["phase"] == SHARES and next_shared(sim, plan, choice):
        return START
    if r["backfills"]:
        if r["phase"] != BACKFILLS:
            begin_backfill(sim, plan, choice)
        at = next_backfilled(sim, plan, c["at"])
        if at >= 0:
            c["at"] = at + 1
            return start_by_rule(choice, plan.walk[at], r["rule"])
    r["phase"] = ENDED
    if not r["goes_on"]:
        return NOTHING
    c["until_s"] = next_look_s(sim, plan)
    return WAIT if c["until_s"] <= LATEST_S else NOTHING  # the clock does not go beyond


@kernel(lazy=True)
def unclaimed(sim: Run, plan: ListState) -> int:
    """Return the row of a job whose claim is read and missing; -1 = there is none."""
    w = sim.world
    if w["free_gpus"] == 0 and not plan.memory["preempts"]:  # no job can start
        return -1
    for i in range(w["first_waiting"], w["first_waiting"] + w["waiting"]):
        if np.isnan(plan.told[sim.waiting[i]]):
            return sim.waiting[i]
    if plan.memory["preempts"] or plan.memory["backfills"]:
        for i in range(w["running"]):
            row = sim.replicas[sim.running[i]]["job"]
            if np.isnan(plan.told[row]):
                return row
    return -1


@kernel(lazy=True)
def asks(sim: Run, plan: ListState) -> bool:
    """Return whether Python must act first: to predict, or to refuse a claim that is missing."""
    return has_news(sim, plan) if plan.source["estimator"] == PREDICTED else unclaimed(sim, plan) >= 0


@policy
@kernel
def next_of_list(sim: Run, choice: Choice, plan: ListState) -> int:
    """Write the next decision of a list scheduler, and return its kind."""
    c = choice.made
    r = plan.memory
    begins = c["first"] == BEGINS
    if begins:
        if sim.world["waiting"] == 0 and not (r["by_held"] or r["tail"]):
            return NOTHING
        if r["asks"] and asks(sim, plan):
            r["phase"] = ASKED
            return ASSIST
    if begins or r["phase"] == ASKED:
        begin_decisions(sim, plan)
    elif r["phase"] == WALKS:
        if c["refusal"] != APPLIED:
            plan.failed[sim.jobs[c["row"]]["gpus"]] = 1
        elif r["along"] == LINES:
            note_started(sim, plan, c["row"])
    elif r["phase"] == PLANNED and r["along"] == LINES:
        note_planned(sim, plan, choice)
    if r["phase"] == WALKS:
        row = next_of_walk(sim, plan)
        if row >= 0:
            return start_by_rule(choice, row, r["rule"])
        r["phase"] = ENDS
    elif r["phase"] == PLANNED:
        kind = next_of_plan(sim, choice, plan, r["listed"])
        if kind != NOTHING:
            return kind
        r["phase"] = ENDS
    if r["phase"] == ENDS and not r["goes_on"]:
        return NOTHING
    return next_of_phase(sim, choice, plan)
