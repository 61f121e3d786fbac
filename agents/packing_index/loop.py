"""The compiled loop of a packing index; it makes the same decisions as ``PackingIndex.decide``, in the same order."""

from __future__ import annotations

from gpusched_env.agents.packing_index.knapsack import PackingState, Takes, list_values, pack_best
from gpusched_env.baselines.loop_kernels import ASLEEP, DECIDES, preempt_skipped, sleep, start_newcomers
from gpusched_env.core.events import DECIDE, LOG_FULL
from gpusched_env.core.handle import kernel
from gpusched_env.core.planning import Walk, plan_preemptive
from gpusched_env.core.state import Run

STOPS, STARTS = range(2, 4)  # phases of the loop between two calls, in addition to ASLEEP and DECIDES


@kernel
def play_packing(sim: Run, plan: PackingState, table: Takes, walk: Walk) -> int:
    """Play until ``until_s`` (PAUSED), until the log is full, or until ``advance`` ends the run."""
    m = plan.memory
    while True:
        if m["phase"] == ASLEEP:
            outcome = sleep(sim, plan.memory)
            if outcome != DECIDE:
                return outcome
        if m["phase"] == DECIDES:
            m["at"] = 0
            m["listed"] = 0
            if sim.world["waiting"] > 0:
                count = list_values(sim, plan)
                pack_best(sim, plan, table, count)
                plan_preemptive(sim, walk, count)
            m["phase"] = STOPS
        if m["phase"] == STOPS:
            if not preempt_skipped(sim, walk, plan.memory):
                return LOG_FULL
            m["phase"] = STARTS
        if m["phase"] == STARTS:
            if not start_newcomers(sim, walk, plan.memory):
                return LOG_FULL
            m["phase"] = ASLEEP
