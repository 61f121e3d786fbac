"""Order of jobs within a queue by their Gittins index, as ``baselines.gittins.gittins_index`` computes it."""

from __future__ import annotations

import math

from gpusched_env.baselines.listed.keys import queue_key, queue_of
from gpusched_env.baselines.listed.lines import sort_rows
from gpusched_env.baselines.listed.state import ListState
from gpusched_env.core.events import attained_service
from gpusched_env.core.handle import kernel
from gpusched_env.core.state import Run
from gpusched_env.portable.keys import rounded_key


@kernel
def sizes_up_to(plan: ListState, size: float) -> int:
    """Return the number of past jobs that are not larger than a size [GPU s]."""
    low = 0
    high = len(plan.history)
    while low < high:
        middle = (low + high) // 2
        if plan.history[middle] <= size:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def index_of(plan: ListState, attained: float, quantum: float) -> float:
    """Return the Gittins index of a job by its attained service and the quantum of its queue [GPU s]."""
    begin = sizes_up_to(plan, attained)
    end = sizes_up_to(plan, attained + quantum)
    beyond = len(plan.history) - end
    spent = plan.totals[end] - plan.totals[begin] - (end - begin) * attained
    if beyond > 0:
        spent += beyond * quantum
    return (end - begin) / spent if spent > 0.0 else 0.0


@kernel(lazy=True)
def rank_by_index(sim: Run, plan: ListState, count: int) -> None:
    """Set the keys of the listed jobs to those of their queues, and the ranks to the order of their indices.

    Ties of the index: first start, then row.
    """
    for i in range(count):
        row = plan.order[i]
        attained = attained_service(sim, row)
        queue = queue_of(plan, attained)
        quantum = plan.thresholds[queue] if queue < len(plan.thresholds) else math.inf
        plan.keys[row] = -rounded_key(index_of(plan, attained, quantum))
        plan.ranks[row] = sim.jobs[row]["first_start_s"]
    sort_rows(plan.order, plan.scratch, plan.keys, plan.ranks, count)
    for i in range(count):
        row = plan.order[i]
        plan.keys[row] = queue_key(sim, plan, row)
        plan.ranks[row] = i
