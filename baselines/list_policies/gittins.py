"""Order of jobs of unknown size within a queue, by their Gittins index (Tiresias, NSDI 2019, section 3.2.2).

The job with the largest index is served first. The index is P(S - a <= D | S > a) / E[min(S - a, D) | S > a] for a job
size S, attained service a and quantum D. The sizes of past jobs are the distribution of S. If a exceeds them all, the
index is 0.
"""

from __future__ import annotations

import math

import numpy as np

from gpusched_env.baselines.list_policies.keys import demoting_service, queue_of, set_key
from gpusched_env.baselines.list_policies.lines import sort_rows
from gpusched_env.baselines.list_policies.state import ListState
from gpusched_env.core.handle import kernel
from gpusched_env.core.state import Run
from gpusched_env.portable.elementary import exp
from gpusched_env.portable.keys import rounded_key
from gpusched_env.portable.normal import normal_quantile


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
    """Set the keys of the listed jobs to those of their queues, and the ranks to the order of their indices."""
    for i in range(count):
        row = plan.order[i]
        attained = demoting_service(sim, plan, row)
        queue = queue_of(sim, plan, row, attained)
        quantum = plan.thresholds[queue] if queue < len(plan.thresholds) else math.inf
        plan.keys[row] = -rounded_key(index_of(plan, attained, quantum))
        plan.ranks[row] = sim.jobs[row]["first_start_s"]
    sort_rows(plan.order, plan.scratch, plan.keys, plan.ranks, count)
    for i in range(count):
        row = plan.order[i]
        set_key(sim, plan, row)
        plan.ranks[row] = i


def published_sizes() -> np.ndarray:
    """float64 [500]: sizes of past jobs [GPU s], ascending, distributed like those that Tiresias' authors published.

    The sizes are quantiles of a log-normal distribution (mu 8.15, sigma 2.12). It was fitted to the GPU times of the
    10,000 jobs in the file simulator/yarn-gput10000.csv of the repository SymbioticLab/Tiresias.
    """
    return np.array([exp(8.15 + 2.12 * normal_quantile((i + 0.5) / 500)) for i in range(500)])
