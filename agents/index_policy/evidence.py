"""What the jobs submitted shortly before and after a job tell about its run time.

Users submit similar jobs together. So the service of the neighbours of a job, which are jobs of equal gang size next to
it in the order of submission, predicts its own. Only jobs that have run give evidence.
"""

from __future__ import annotations

from gpusched_env.agents.index_policy.state import IndexState
from gpusched_env.core.events import productive_s
from gpusched_env.core.handle import kernel
from gpusched_env.core.state import FINISHED, Run

TOLERANCE_S = 1e-6  # [s] for rounding errors of an elapsed time at a computed change of level


@kernel
def level_of(plan: IndexState, seconds: float) -> int:
    """Return the level of an elapsed time: the number of thresholds that it has reached."""
    low = 0
    high = len(plan.thresholds_s)
    while low < high:
        middle = (low + high) // 2
        if plan.thresholds_s[middle] - TOLERANCE_S <= seconds:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def attained_s(sim: Run, row: int) -> float:
    """Return the time for which a job has made progress [s]."""
    return sim.jobs[row]["service_s"] + productive_s(sim, sim.jobs[row]["replica"])


@kernel
def tell(plan: IndexState, row: int, change: int, first: int) -> None:
    """Add ``change`` to what the neighbours of a job know, and ``first`` to their number of witnesses."""
    before = plan.earlier[row]
    after = plan.later[row]
    for _ in range(plan.memory["reach"]):
        if before >= 0:
            plan.told[before] += change
            plan.tellers[before] += first
            before = plan.earlier[before]
        if after >= 0:
            plan.told[after] += change
            plan.tellers[after] += first
            after = plan.later[after]


@kernel
def observe(sim: Run, plan: IndexState, row: int) -> None:
    """Let the neighbours of a job know the level that it has reached."""
    seconds = attained_s(sim, row)
    if seconds <= 0.0:
        return
    evidence = 1 + level_of(plan, seconds)
    if sim.jobs[row]["status"] != FINISHED:
        evidence = min(evidence + plan.memory["censored"], len(plan.thresholds_s) + 1)
    known = plan.evidence[row]
    if evidence != known:
        tell(plan, row, evidence - known, 1 if known == 0 else 0)
        plan.evidence[row] = evidence


@kernel
def prediction_of(plan: IndexState, row: int) -> int:
    """Return 1 + the mean level of the neighbours, rounded; 0 = no neighbour has run."""
    witnesses = plan.tellers[row]
    if witnesses == 0:
        return 0
    return (2 * plan.told[row] + witnesses) // (2 * witnesses)
