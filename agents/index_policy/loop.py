"""The compiled loop of an index policy; it makes the same decisions as ``IndexPolicy.decide``, in the same order."""

from __future__ import annotations

from gpusched_env.agents.index_policy.ranking import next_change_s, rank_jobs
from gpusched_env.agents.index_policy.state import IndexState
from gpusched_env.baselines.loop_kernels import ASLEEP, DECIDES, sleep, wake_at
from gpusched_env.core.events import BUFFER_FULL, DECIDE, LOG_FULL, preempt, start
from gpusched_env.core.handle import kernel
from gpusched_env.core.planning import NEWCOMER, SKIPPED, Walk, plan_preemptive
from gpusched_env.core.state import CHECKPOINTING, Run

# Phases of the loop between two calls, in addition to ASLEEP and DECIDES.
STOPS, STARTS = range(2, 4)


@kernel
def play_index(sim: Run, plan: IndexState, walk: Walk) -> int:
    """Play until ``until_s`` (PAUSED), until the log is full, or until ``advance`` ends the run."""
    m = plan.memory
    while True:
        if m["phase"] == ASLEEP:
            outcome = sleep(sim, plan.memory)
            if outcome != DECIDE:
                return outcome
        if m["phase"] == DECIDES:
            if sim.world["waiting"] == 0:
                m["phase"] = ASLEEP
                continue
            count = rank_jobs(sim, plan)
            plan_preemptive(sim, walk, count)
            m["at"] = 0
            m["phase"] = STOPS
        if m["phase"] == STOPS:
            while m["at"] < m["listed"]:
                row = plan.order[m["at"]]
                number = sim.jobs[row]["replica"]
                if plan.verdicts[m["at"]] == SKIPPED and number >= 0:
                    if sim.replicas[number]["phase"] != CHECKPOINTING and preempt(sim, row) == BUFFER_FULL:
                        return LOG_FULL
                m["at"] += 1
            m["at"] = 0
            m["phase"] = STARTS
        if m["phase"] == STARTS:
            while m["at"] < m["listed"]:
                if plan.verdicts[m["at"]] == NEWCOMER:
                    if start(sim, plan.order[m["at"]], plan.rules[m["at"]], 0, False, 0) == BUFFER_FULL:
                        return LOG_FULL
                m["at"] += 1
            change_s = next_change_s(sim, plan)
            wake_at(sim, change_s)
            m["phase"] = ASLEEP
