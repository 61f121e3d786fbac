"""The kernel of the schedulers of tenants."""

from __future__ import annotations

from gpusched_env.baselines.fair_sharing.orders import serve
from gpusched_env.baselines.kueue.admission import admit
from gpusched_env.baselines.queues.state import KAI, KUEUE, VOLCANO, Queues
from gpusched_env.baselines.queues.waiting import begin_point, follow, recount, settle
from gpusched_env.baselines.volcano_kai.cycle import arrange
from gpusched_env.core.driver import BEGINS, NOTHING, READS_LOG, Choice, policy
from gpusched_env.core.handle import helper, kernel
from gpusched_env.core.state import Run


@helper
def next_action(sim: Run, q: Queues) -> int:
    """Return what to do next, NOTHING, START or PREEMPT; ``job`` is the row of its job."""
    if sim.world["waiting"] == 0:
        return NOTHING
    if q.memory["policy"] == KUEUE:
        return admit(sim, q)
    if q.memory["policy"] in (VOLCANO, KAI):
        return arrange(sim, q)
    return serve(sim, q)


@helper
def happened(sim: Run) -> int:
    """Return a number that grows with each event that leads to a decision point; timers count as none."""
    w = sim.world
    jobs = w["next_arrival"] + w["entered"] + w["finished"]
    return jobs + w["returns"] + w["next_change"] + w["next_closing"]


@policy
@kernel
def next_of_queues(sim: Run, choice: Choice, q: Queues) -> int:
    """Write the next decision of the decision point, and return its kind."""
    m = q.memory
    c = choice.made
    if c["reads_log"] > 0 and m["read"] >= 0:
        follow(sim, q)
    else:
        recount(sim, q)
    if c["first"] == READS_LOG:
        m["read"] = 0  # the log will be empty
        return NOTHING
    if c["first"] != BEGINS:
        settle(sim, q)
    elif c["reads_log"] > 0 and m["happened"] == happened(sim) and sim.world["round_s"] == 0.0:
        return NOTHING  # only a pause
    else:
        begin_point(sim, q)
    m["action"] = next_action(sim, q)
    if m["action"] == NOTHING:
        m["happened"] = happened(sim)
    c["row"] = m["job"]
    c["rule"] = m["rule"]
    return m["action"]
