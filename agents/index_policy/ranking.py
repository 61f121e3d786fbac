"""The order of all jobs by their scores, their placement rules, and the next time at which the order may change."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from gpusched_env.agents.index_policy.state import IndexState
from gpusched_env.baselines.list_policies.lines import append_marked, mark_jobs, sort_rows
from gpusched_env.core.events import productive_s
from gpusched_env.core.handle import kernel
from gpusched_env.core.state import ACTIVE, CHECKPOINTING, FINISHED, REFUSED, Run
from gpusched_env.prediction.levels import LEVELS, STARTS_S, TOLERANCE_S, level_at

_ROUNDING: Final = 1e-9  # of sums of rates


@kernel
def attained_s(sim: Run, row: int) -> float:
    """Return the time for which a job has made progress [s]."""
    return sim.jobs[row]["service_s"] + productive_s(sim, sim.jobs[row]["replica"])


@kernel
def list_jobs(sim: Run, plan: IndexState) -> int:
    """List all jobs in the system, those of the last list first and in its order; return their number."""
    mark_jobs(sim, plan.member, True)
    count = 0
    for i in range(plan.memory["listed"]):
        row = plan.order[i]
        if sim.jobs[row]["status"] != FINISHED and sim.jobs[row]["status"] != REFUSED:
            plan.member[row] = 0
            plan.order[count] = row
            count += 1
    count = append_marked(sim, plan.order, plan.member, count, True)
    plan.memory["listed"] = count
    return count


@kernel
def holds(sim: Run, row: int) -> bool:
    """Return whether a job holds GPUs, and is not about to give them back."""
    number = sim.jobs[row]["replica"]
    return number >= 0 and sim.replicas[number]["phase"] != CHECKPOINTING


@kernel
def seconds_of(sim: Run, plan: IndexState, row: int, level: int) -> float:
    """Return the expected seconds for each completion of a job at a level of progress.

    It is the Gittins index. A job that holds GPUs has less; for another, one must save a state and restore one.
    """
    index_s = plan.index_s[plan.class_of[row], level]
    if holds(sim, row):
        return index_s / plan.memory["held"]
    return index_s + sim.world["checkpoint_s"] + sim.world["restore_s"]


@kernel
def score_of(sim: Run, plan: IndexState, row: int, level: int) -> float:
    """Return the score of a job at a level of progress; jobs of small score come first."""
    return plan.gang[sim.jobs[row]["job_class"]] * seconds_of(sim, plan, row, level)


@kernel
def patience_s(sim: Run, plan: IndexState, row: int, width: int) -> float:
    """Return for how long a waiting job accepts only a placement of this width or a tighter one [s].

    It is what the next width is expected to cost: its excess x the mean time that the job has left. Who waits so long
    and then takes it loses at most twice as much as who knows how long the wait will be, as in renting skis.
    """
    left_s = plan.left_s[plan.class_of[row], level_at(attained_s(sim, row))]
    return plan.memory["patience"] * plan.excess[sim.jobs[row]["job_class"], width] * left_s


@kernel
def width_of(sim: Run, plan: IndexState, row: int) -> int:
    """Return the placement rule of a waiting job: the tightest first, wider ones as it loses its patience."""
    job = sim.jobs[row]
    waited_s = sim.world["clock_s"] - job["last_stop_s"] + TOLERANCE_S
    last = len(plan.widths) - 1
    for width in range(last):
        if waited_s < patience_s(sim, plan, row, width):
            return plan.widths[width]
    return plan.widths[last]


@kernel
def score_jobs(sim: Run, plan: IndexState) -> bool:
    """Score all jobs in the system; return whether a job may start or be preempted now, since one waits."""
    for i in range(list_jobs(sim, plan)):
        row = plan.order[i]
        plan.keys[row] = score_of(sim, plan, row, level_at(attained_s(sim, row)))
    return sim.world["waiting"] > 0


@kernel
def completions_per_s(sim: Run, plan: IndexState, count: int, first: int) -> float:
    """Return how many completions per second to expect of ``order[first]`` and the others that fit beside it, in order.

    -1 = all that fit, in order.
    """
    budget = sim.world["gpus"] - sim.world["down_gpus"]
    total = 0.0
    for k in range(0 if first < 0 else -1, count):
        row = plan.order[first if k < 0 else k]
        gang = sim.jobs[row]["gpus"]
        if gang <= budget and k != first:
            budget -= gang
            total += 1.0 / seconds_of(sim, plan, row, level_at(attained_s(sim, row)))
    return total


@kernel
def promote_gang(sim: Run, plan: IndexState, count: int) -> None:
    """Put the first gang that does not fit beside the jobs before it to the front, if more completions are expected.

    By scores alone, large gangs would wait while small ones use a part of their GPUs. The better one of these two
    orders is at least half as good as the best set of jobs (S. Martello and P. Toth, "Knapsack problems", 1990, 2.4).
    """
    gpus = sim.world["gpus"] - sim.world["down_gpus"]
    left = gpus
    for i in range(count):
        row = plan.order[i]
        gang = sim.jobs[row]["gpus"]
        if gang <= left:
            left -= gang
        elif gang <= gpus:
            if completions_per_s(sim, plan, count, i) > completions_per_s(sim, plan, count, -1) * (1.0 + _ROUNDING):
                for at in range(i, 0, -1):
                    plan.order[at] = plan.order[at - 1]
                plan.order[0] = row
            return


@kernel
def rank_jobs(sim: Run, plan: IndexState) -> int:
    """Sort the scored jobs, smallest score first, and choose their placement rules; return their number.

    Ties: the lower row.
    """
    count = plan.memory["listed"]
    sort_rows(plan.order, plan.scratch, plan.keys, plan.ranks, count)
    promote_gang(sim, plan, count)
    for i in range(count):
        plan.rules[i] = width_of(sim, plan, plan.order[i])
    return count


@kernel
def next_change_s(sim: Run, plan: IndexState) -> float:
    """Return when to decide next if no event comes [s]; inf = never.

    It is when progress takes the score of a running job above that of the first waiting job, when a running job that is
    above it already reaches another level, or when a waiting job that fits on the free GPUs accepts a wider placement.
    """
    w = sim.world
    now_s = w["clock_s"]
    first_s = math.inf
    best = math.inf
    for i in range(w["waiting"]):
        row = sim.waiting[w["first_waiting"] + i]
        job = sim.jobs[row]
        best = min(best, plan.keys[row])
        if job["gpus"] <= w["free_gpus"]:
            for width in range(len(plan.widths) - 1):
                until_s = job["last_stop_s"] + patience_s(sim, plan, row, width)
                if now_s + TOLERANCE_S < until_s:
                    first_s = min(first_s, until_s)
                    break
    for i in range(w["running"] if w["waiting"] > 0 else 0):
        number = sim.running[i]
        gang = sim.replicas[number]
        if gang["phase"] != ACTIVE:
            continue
        row = gang["job"]
        seconds = attained_s(sim, row)
        begun = level_at(seconds)
        above = score_of(sim, plan, row, begun) > best  # it was promoted, or nobody before it fits: both may end
        for level in range(begun + 1, LEVELS):
            if above or score_of(sim, plan, row, level) > best:
                due_s = max(gang["since_s"], now_s) + STARTS_S[level] - seconds
                if due_s > now_s + TOLERANCE_S:
                    first_s = min(first_s, due_s)
                break
    return max(first_s, np.nextafter(now_s, np.inf))
