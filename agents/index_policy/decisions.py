"""The kernel of an index policy: it plans, then preempts, starts, moves one gang, and waits for the next change."""

from __future__ import annotations

from typing import Final

from gpusched_env.agents.index_policy.ranking import next_change_s, patience_s, rank_jobs, score_jobs
from gpusched_env.agents.index_policy.state import IndexState
from gpusched_env.core.driver import ASSIST, BEGINS, NOTHING, PREEMPT, START, WAIT, Choice, policy
from gpusched_env.core.handle import kernel
from gpusched_env.core.placement.placing import reserve
from gpusched_env.core.placement.taking import FREE, unreserve
from gpusched_env.core.planning import lend, next_of_plan, plan_preemptive
from gpusched_env.core.state import ACTIVE, WAITING, Run


@kernel
def fits_tightly(sim: Run, plan: IndexState, number: int) -> bool:
    """Return whether a gang would find the tightest placement on its own GPUs and the free ones."""
    gang = sim.replicas[number]
    random = sim.world["random"]
    supply = sim.world["free_gpus"] + lend(sim, number, FREE)
    end = reserve(sim, 0, gang["job_class"], gang["gpus"], plan.widths[0], supply)
    sim.world["random"] = random
    unreserve(sim, 0, end)
    lend(sim, number, number)
    return end > 0


@kernel
def next_move(sim: Run, plan: IndexState) -> int:
    """Return the row of the gang to preempt now so that it starts again on a tighter placement; -1 = none.

    It is the gang that has lost most time by its placement since it started. A gang without the patience to wait for
    the tightest placement stays, since it would start on any GPUs again.
    """
    w = sim.world
    least_s = plan.memory["move_factor"] * (w["checkpoint_s"] + w["restore_s"])
    found = -1
    for i in range(w["running"]):
        number = sim.running[i]
        gang = sim.replicas[number]
        kind = gang["job_class"]
        if gang["phase"] != ACTIVE or gang["tier"] == plan.tightest[kind] or gang["start_s"] == w["clock_s"]:
            continue
        if patience_s(sim, plan, gang["job"], 0) <= w["checkpoint_s"]:
            continue
        lost_s = (w["clock_s"] - gang["start_s"]) * (1.0 - plan.ideal_s[kind] / gang["iteration_s"])
        if lost_s > least_s and fits_tightly(sim, plan, number):
            least_s = lost_s
            found = gang["job"]
    return found


LEARNS, PLANNED, MOVES, LANDS, OVER = range(5)  # stages of a decision point
TIGHTEST: Final = 0  # of ``widths``


@policy
@kernel
def next_index(sim: Run, choice: Choice, plan: IndexState) -> int:
    """Write the next decision of the decision point, and return its kind; ASSIST: the history has something new."""
    m = plan.memory
    c = choice.made
    if c["first"] == BEGINS:
        m["stage"] = LEARNS
        if m["arrived"] != sim.world["next_arrival"] or m["finished"] != sim.world["finished"]:
            m["arrived"] = sim.world["next_arrival"]
            m["finished"] = sim.world["finished"]
            return ASSIST
    if m["stage"] == LEARNS:
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
