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
def tell(sim: Run, plan: IndexState, row: int, change: int, first: int) -> None:
    """Add ``change`` to what the jobs of the same series know, and ``first`` to their number of witnesses."""
    for side in range(2):
        at = row
        burst = True
        for _ in range(plan.memory["reach"]):
            other = plan.earlier[at] if side == 0 else plan.later[at]
            if other < 0:
                break
            apart_s = abs(sim.jobs[other]["arrival_s"] - sim.jobs[at]["arrival_s"])
            if apart_s > plan.memory["series_s"]:
                break
            burst = burst and apart_s <= plan.memory["burst_s"]
            for tie in range(0 if burst else 1, 2):
                plan.told[other, tie] += change
                plan.tellers[other, tie] += first
            at = other


@kernel
def observe(sim: Run, plan: IndexState, row: int) -> None:
    """Let the other jobs of its series know the level that a job has reached."""
    seconds = attained_s(sim, row)
    if seconds <= 0.0:
        return
    evidence = 1 + level_of(plan, seconds)
    if sim.jobs[row]["status"] != FINISHED:
        evidence = min(evidence + plan.memory["censored"], len(plan.thresholds_s) + 1)
    known = plan.evidence[row]
    if evidence != known:
        tell(sim, plan, row, evidence - known, 1 if known == 0 else 0)
        plan.evidence[row] = evidence


@kernel
def prediction_of(plan: IndexState, row: int) -> int:
    """Return the prediction for a job: 1 + the mean level of its burst, rounded.

    If no job of its burst has run: as many more as there are levels + the same of its series; 0 = none has run.
    """
    for tie in range(2):
        count = plan.tellers[row, tie]
        if count > 0:
            mean = (2 * plan.told[row, tie] + count) // (2 * count)
            return mean + tie * (len(plan.thresholds_s) + 1)
    return 0
