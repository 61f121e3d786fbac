"""The next decision of a sharing index: a walk along all jobs, smallest key first."""

from __future__ import annotations

from typing import Final

from gpusched_env.agents.sharing_index.partners import judge_partners
from gpusched_env.agents.sharing_index.state import SharingState
from gpusched_env.baselines.listed.lines import sort_rows
from gpusched_env.core.events import seconds_left
from gpusched_env.core.handle import kernel
from gpusched_env.core.placement.shared import EVERYWHERE, find_shared, share_within
from gpusched_env.core.placement.taking import FREE
from gpusched_env.core.sharing.choices import BENEFIT, SEARCH
from gpusched_env.core.state import ACTIVE, WAITING, Run
from gpusched_env.portable.elementary import log

STARTS, PREEMPTS, WAITS = range(3)  # kinds of decisions
NONE, SOON = -1, -2  # instead of a victim: there is none; enough GPUs are in a checkpoint
SHORTEST_S: Final = 1e-3  # [s] shortest remaining time whose logarithm is taken


@kernel
def list_jobs(sim: Run, plan: SharingState) -> None:
    """Sort all jobs in the system by their keys; ties: the lower row."""
    w = sim.world
    m = plan.memory
    for i in range(w["waiting"]):
        plan.member[sim.waiting[w["first_waiting"] + i]] = 1
    for i in range(w["running"]):
        plan.member[sim.replicas[sim.running[i]]["job"]] = 1
    count = 0
    for i in range(m["listed"]):  # in the last order, which is nearly sorted
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
    for i in range(w["running"]):
        row = sim.replicas[sim.running[i]]["job"]
        if plan.member[row] == 1:
            plan.member[row] = 0
            plan.order[count] = row
            count += 1
    for i in range(count):
        row = plan.order[i]
        size = log(float(sim.jobs[row]["gpus"]))
        plan.keys[row] = log(max(seconds_left(sim, row), SHORTEST_S)) + m["gang"] * size
    m["listed"] = count
    sort_rows(plan.order, plan.scratch, plan.keys, plan.ranks, count)


@kernel
def find_gpus(sim: Run, plan: SharingState, row: int) -> int:
    """Write the GPUs on which a waiting job would start now to ``chosen``; return their number, 0 = it does not fit.

    They are free GPUs if there are enough, otherwise also GPUs of the partners with the best scores.
    """
    option = 0
    if sim.jobs[row]["gpus"] <= sim.world["free_gpus"]:
        count, option = find_shared(sim, row, SEARCH)
    elif sim.world["gpu_jobs"] > 1:
        judge_partners(sim, plan, row)
        count, option = share_within(sim, row, SEARCH | BENEFIT, EVERYWHERE)
    else:
        count = 0
    plan.memory["option"] = option
    return count


@kernel
def alone_on(sim: Run, number: int) -> int:
    """Return the number of GPUs that a gang holds alone."""
    count = 0
    seat = sim.replicas[number]["first_gpu"]
    while seat >= 0:
        gpu = seat % sim.world["gpus"]
        if seat == gpu and (sim.world["gpu_jobs"] == 1 or sim.holder[gpu + sim.world["gpus"]] == FREE):
            count += 1
        seat = sim.gpu_next[seat]
    return count


@kernel
def find_victim(sim: Run, plan: SharingState, at: int) -> int:
    """Return the gang to preempt next for the waiting job ``order[at]``; or NONE or SOON.

    Victims are gangs of later keys, the last ones first, until the job fits on the GPUs that they hold alone. Those
    that prove unnecessary stay.
    """
    w = sim.world
    m = plan.memory
    row = plan.order[at]
    gang = sim.jobs[row]["gpus"]
    supply = w["free_gpus"] + w["checkpointing_gpus"]
    if gang <= supply:
        return SOON if gang > w["free_gpus"] else NONE
    least = plan.keys[row] + m["hold"]
    last = m["listed"]
    first = last
    while first > at + 1 and supply < gang:
        first -= 1
        other = plan.order[first]
        plan.victims[other] = 0
        number = sim.jobs[other]["replica"]
        if number < 0 or plan.keys[other] <= least:
            continue
        if sim.replicas[number]["phase"] == ACTIVE and sim.replicas[number]["start_s"] < w["clock_s"]:
            plan.victims[other] = 1
            supply += alone_on(sim, number)
    if supply < gang:
        return NONE
    found = NONE
    for i in range(first, last):
        other = plan.order[i]
        if plan.victims[other] == 1:
            held = alone_on(sim, sim.jobs[other]["replica"])
            if supply - held >= gang:
                supply -= held
            else:
                found = other
    return found


@kernel
def next_decision(sim: Run, plan: SharingState) -> int:
    """Return the kind of the next decision; the field ``job`` says which job it is about.

    A job that starts gets the GPUs in ``chosen`` and the sub-batch ``option``. The caller carries the decision out
    before it asks for the next one; after WAITS, time passes.
    """
    m = plan.memory
    if m["walks"] == 0:
        list_jobs(sim, plan)
        m["walks"] = 1
        m["at"] = 0
    while m["at"] < m["listed"]:
        row = plan.order[m["at"]]
        if sim.jobs[row]["status"] == WAITING:
            m["job"] = row
            if find_gpus(sim, plan, row) > 0:
                m["at"] += 1
                return STARTS
            victim = find_victim(sim, plan, m["at"])
            if victim >= 0:
                m["job"] = victim
                return PREEMPTS
            if victim == SOON:
                break
        m["at"] += 1
    m["walks"] = 0
    return WAITS
