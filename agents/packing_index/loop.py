"""The compiled loop of a packing index; it makes the same decisions as ``PackingIndex.decide``, in the same order."""

from __future__ import annotations

from gpusched_env.agents.packing_index.knapsack import PackingState, Takes, list_values, pack_best
from gpusched_env.baselines.loop_kernels import ASLEEP, DECIDES, sleep
from gpusched_env.core.events import DECIDE, LOG_FULL, preempt, start
from gpusched_env.core.handle import kernel
from gpusched_env.core.planning import NEWCOMER, SKIPPED, Walk, plan_preemptive
from gpusched_env.core.refusals import BUFFER_FULL
from gpusched_env.core.state import ACTIVE, Run

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
            while m["at"] < m["listed"]:
                row = plan.order[m["at"]]
                number = sim.jobs[row]["replica"]
                loses = plan.verdicts[m["at"]] == SKIPPED and number >= 0
                loses = loses and sim.replicas[number]["phase"] == ACTIVE
                if loses and preempt(sim, row) == BUFFER_FULL:
                    return LOG_FULL
                m["at"] += 1
            m["at"] = 0
            m["phase"] = STARTS
        if m["phase"] == STARTS:
            while m["at"] < m["listed"]:
                starts = plan.verdicts[m["at"]] == NEWCOMER
                if starts and start(sim, plan.order[m["at"]], plan.rules[m["at"]], 0, False, 0) == BUFFER_FULL:
                    return LOG_FULL
                m["at"] += 1
            m["phase"] = ASLEEP
