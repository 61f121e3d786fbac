"""The kernel of an index policy: it plans, then preempts, starts, moves one gang, and waits for the next change."""

from __future__ import annotations

from typing import Final

from gpusched_env.agents.index_policy.moving import next_move
from gpusched_env.agents.index_policy.ranking import next_change_s, rank_jobs, score_jobs
from gpusched_env.agents.index_policy.state import IndexState
from gpusched_env.core.driver import BEGINS, NOTHING, PREEMPT, START, WAIT, Choice, policy
from gpusched_env.core.handle import kernel
from gpusched_env.core.planning import next_of_plan, plan_preemptive
from gpusched_env.core.state import WAITING, Run

PLANNED, MOVES, LANDS, OVER = range(4)  # stages of a decision point
TIGHTEST: Final = 0  # of ``widths``


@policy
@kernel
def next_index(sim: Run, choice: Choice, plan: IndexState) -> int:
    """Write the next decision of the decision point, and return its kind."""
    m = plan.memory
    c = choice.made
    if c["first"] == BEGINS:
        m["stage"] = PLANNED
        m["planned"] = rank_jobs(sim, plan) if score_jobs(sim, plan) else 0
        plan_preemptive(sim, plan, m["planned"])
    if m["stage"] == PLANNED:
        kind = next_of_plan(sim, choice, plan, m["planned"])
        if kind != NOTHING:
            return kind
        m["stage"] = MOVES
        c["row"] = next_move(sim, plan)
        if c["row"] >= 0:
            return PREEMPT
    if m["stage"] == MOVES:
        m["stage"] = LANDS
        if c["row"] >= 0 and sim.jobs[c["row"]]["status"] == WAITING:  # at once, since a checkpoint takes no time
            c["rule"] = plan.widths[TIGHTEST]
            return START
    if m["stage"] == LANDS:
        m["stage"] = OVER
        c["until_s"] = next_change_s(sim, plan)
        return WAIT
    return NOTHING
