"""The compiled loop of an index policy; it makes the same decisions as ``IndexPolicy.decide``, in the same order."""

from __future__ import annotations

from gpusched_env.agents.index_policy.moving import next_move
from gpusched_env.agents.index_policy.ranking import next_change_s, rank_jobs, score_jobs
from gpusched_env.agents.index_policy.state import IndexState
from gpusched_env.baselines.loop_kernels import ASLEEP, DECIDES, preempt_skipped, sleep, start_newcomers, waits_until
from gpusched_env.core.events import BAD_WAIT, DECIDE, LOG_FULL, preempt, start
from gpusched_env.core.handle import kernel
from gpusched_env.core.planning import KEPT, Walk, plan_preemptive
from gpusched_env.core.refusals import BUFFER_FULL
from gpusched_env.core.state import WAITING, Run

# Phases of the loop between two calls, in addition to ASLEEP and DECIDES.
STOPS, STARTS, MOVES, LANDS = range(2, 6)


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
            m["at"] = 0
            if score_jobs(sim, plan):
                count = rank_jobs(sim, plan)
                plan_preemptive(sim, walk, count)
            else:
                for i in range(m["listed"]):
                    plan.verdicts[i] = KEPT
            m["phase"] = STOPS
        if m["phase"] == STOPS:
            if not preempt_skipped(sim, walk, plan.memory):
                return LOG_FULL
            m["phase"] = STARTS
        if m["phase"] == STARTS:
            if not start_newcomers(sim, walk, plan.memory):
                return LOG_FULL
            m["phase"] = MOVES
        if m["phase"] == MOVES:
            row = next_move(sim, plan)
            if row >= 0 and preempt(sim, row) == BUFFER_FULL:
                return LOG_FULL
            m["mover"] = row
            m["phase"] = LANDS
        if m["phase"] == LANDS:
            row = m["mover"]
            lands = row >= 0 and sim.jobs[row]["status"] == WAITING  # at once, since a checkpoint takes no time
            if lands and start(sim, row, plan.widths[0], 0, False, 0) == BUFFER_FULL:
                return LOG_FULL
            if not waits_until(sim, next_change_s(sim, plan)):
                return BAD_WAIT
            m["phase"] = ASLEEP
