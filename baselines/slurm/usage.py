"""Kernels that count the GPUs and the decayed usage of tenants."""

from __future__ import annotations

import math
from typing import Final

from gpusched_env.baselines.slurm.state import SlurmState
from gpusched_env.core.handle import kernel
from gpusched_env.core.state import Run

MOST_PERIODS: Final = 1 << 20  # between two decision points that are counted one by one: 10 years of 5 minutes each
MOST_BITS: Final = 48  # of a number of periods: at most 1e11 periods of a second


@kernel
def count_usage(sim: Run, plan: SlurmState) -> bool:
    """Add the usage since the last decision point, decayed at each end of a period; return whether one has begun."""
    m = plan.memory
    now_s = sim.world["clock_s"]
    begun = False
    for _ in range(MOST_PERIODS):
        if (m["period"] + 1) * m["period_s"] > now_s:
            break
        m["period"] += 1
        end_s = m["period"] * m["period_s"]
        for t in range(len(plan.usage)):
            spent = plan.recent[t] + plan.rate[t] * (end_s - m["time_s"])
            plan.usage[t] = plan.usage[t] * m["decay"] + spent
            plan.recent[t] = 0.0
        m["time_s"] = end_s
        if not begun:
            skip_periods(plan, math.floor(now_s / m["period_s"]) - m["period"] - MOST_PERIODS // 2)
        begun = True
    if now_s > m["time_s"]:
        for t in range(len(plan.usage)):
            plan.recent[t] += plan.rate[t] * (now_s - m["time_s"])
        m["time_s"] = now_s
    return begun


@kernel
def skip_periods(plan: SlurmState, periods: int) -> None:
    """Add and decay the usage of these periods at once, if there are any; rates are constant, and nothing is recent.

    A period maps usage u to d u + s. The kernel composes this map with itself by repeated squaring.
    """
    m = plan.memory
    if periods <= 0:
        return
    for t in range(len(plan.usage)):
        factor = m["decay"]
        spent = plan.rate[t] * m["period_s"]
        left = periods
        for _ in range(MOST_BITS):
            if left % 2 == 1:
                plan.usage[t] = plan.usage[t] * factor + spent
            spent = spent * factor + spent
            factor = factor * factor
            left //= 2
    m["period"] += periods
    m["time_s"] = m["period"] * m["period_s"]


@kernel
def count_rates(sim: Run, plan: SlurmState) -> None:
    """Count the GPUs that the jobs of each leaf hold now."""
    for t in range(len(plan.rate)):
        plan.rate[t] = 0
    for i in range(sim.world["running"]):
        r = sim.replicas[sim.running[i]]
        plan.rate[plan.tenant[r["job"]]] += r["gpus"]


@kernel
def count_held(sim: Run, plan: SlurmState) -> None:
    """Count the jobs that hold GPUs now, and these GPUs, by the counters that limits need."""
    for c in range(len(plan.holds)):
        plan.holds[c] = 0
        plan.runs[c] = 0
    for i in range(sim.world["running"]):
        r = sim.replicas[sim.running[i]]
        add_held(plan, r["job"], r["gpus"])


@kernel
def add_held(plan: SlurmState, row: int, gpus: int) -> None:
    """Add a job and its GPUs to its counters."""
    group = plan.group[row]
    for i in range(plan.first_limit[group], plan.first_limit[group + 1]):
        plan.holds[plan.counter[i]] += gpus
        plan.runs[plan.counter[i]] += 1


@kernel
def is_over(plan: SlurmState, row: int, gpus: int) -> bool:
    """Return whether a start would exceed a limit of the job's tenants or QOS."""
    group = plan.group[row]
    for i in range(plan.first_limit[group], plan.first_limit[group + 1]):
        if plan.most[i] >= 0 and plan.holds[plan.counter[i]] + gpus > plan.most[i]:
            return True
        if plan.most_jobs[i] >= 0 and plan.runs[plan.counter[i]] >= plan.most_jobs[i]:
            return True
    return False
