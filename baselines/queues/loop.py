"""The compiled loop of the schedulers of tenants."""

from __future__ import annotations

from gpusched_env.baselines.deserved.cycle import arrange
from gpusched_env.baselines.fair_sharing.orders import serve
from gpusched_env.baselines.kueue.admission import admit
from gpusched_env.baselines.loop_kernels import ASLEEP, DECIDES, sleep
from gpusched_env.baselines.queues.state import KAI, KUEUE, NOTHING, START, VOLCANO, Queues
from gpusched_env.baselines.queues.waiting import begin_point, follow, settle
from gpusched_env.core.events import DECIDE, LOG_FULL, preempt, start
from gpusched_env.core.handle import helper, kernel
from gpusched_env.core.refusals import BUFFER_FULL
from gpusched_env.core.state import Run

ACTS = 2  # phase: carries out decisions


@kernel
def next_action(sim: Run, q: Queues) -> int:
    """Return what to do next, NOTHING, START or PREEMPT, also as ``action``; ``job`` is the row of its job."""
    m = q.memory
    if sim.world["waiting"] == 0:
        m["action"] = NOTHING
    elif m["policy"] == KUEUE:
        m["action"] = admit(sim, q)
    elif m["policy"] in (VOLCANO, KAI):
        m["action"] = arrange(sim, q)
    else:
        m["action"] = serve(sim, q)
    return m["action"]


@helper
def happened(sim: Run) -> int:
    """Return a number that grows with each event that leads to a decision point; timers count as none."""
    w = sim.world
    jobs = w["next_arrival"] + w["entered"] + w["finished"]
    return jobs + w["returns"] + w["next_change"] + w["next_closing"]


@kernel
def play_queues(sim: Run, q: Queues) -> int:
    """Simulate until ``until_s`` (PAUSED), until the log is full, or until ``advance`` ends the run."""
    m = q.memory
    m["read"] = min(m["read"], sim.world["events"])  # the log may have been drained
    while True:
        if m["phase"] == ASLEEP:
            outcome = sleep(sim, q.memory)
            follow(sim, q)
            if outcome != DECIDE:
                if outcome == LOG_FULL:
                    m["read"] = 0
                return outcome
        if m["phase"] == DECIDES:
            if m["happened"] == happened(sim) and sim.world["round_s"] == 0.0:  # only a pause
                m["phase"] = ASLEEP
                continue
            begin_point(sim, q)
            m["phase"] = ACTS
        while m["action"] != NOTHING or next_action(sim, q) != NOTHING:
            code = start(sim, m["job"], m["rule"], 0, False, 0) if m["action"] == START else preempt(sim, m["job"])
            if code == BUFFER_FULL:
                m["read"] = 0  # all records have been followed, and the caller drains them
                return LOG_FULL
            follow(sim, q)
            settle(sim, q)
        m["happened"] = happened(sim)
        m["phase"] = ASLEEP
