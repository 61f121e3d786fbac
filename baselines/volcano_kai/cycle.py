"""The cycle of Volcano and KAI: allocate what is free, then preempt; jobs that wait for their victims come first."""

from __future__ import annotations

from gpusched_env.baselines.fair_sharing.orders import first_tenant, serve
from gpusched_env.baselines.kueue.admission import enter, evict, fits_now
from gpusched_env.baselines.queues.state import Queues
from gpusched_env.baselines.queues.waiting import first_claim, first_of, park, park_for_now, unpark_refused
from gpusched_env.baselines.volcano_kai.shares import deserve
from gpusched_env.baselines.volcano_kai.victims import find_victims
from gpusched_env.core.driver import NOTHING, PREEMPT, START
from gpusched_env.core.handle import kernel
from gpusched_env.core.state import Run

DESERVE, CLAIM, ALLOCATE, RECLAIM, EVICT, ENTER = range(6)  # stages of a decision point


@kernel
def ask_for_victims(sim: Run, q: Queues, leaf: int, line: int, waits: bool) -> bool:
    """Find victims for the first job of a line, which ``waits`` if it has had some; park the line if there are none."""
    m = q.memory
    m["spared"] = 0
    m["targets"] = find_victims(sim, q, leaf, q.waiters[q.lines[line]["begin"]])
    if m["targets"] > 0 or (m["targets"] == 0 and waits):
        m["at"] = 0
        m["leaf"] = leaf
        q.tenants[leaf]["cursor"] = line
        return True
    if m["spared"]:
        park_for_now(q, line)
    else:
        park(sim, q, line)
    return False


@kernel
def serve_claims(sim: Run, q: Queues) -> int:
    """Return the next stage, or - START if the job ``job`` with a claim can start."""
    for leaf in range(1, len(q.tenants)):
        line = first_claim(q, leaf)
        while line >= 0:
            if fits_now(sim, q, leaf, line):
                q.memory["job"] = q.waiters[q.lines[line]["begin"]]
                return -START
            if ask_for_victims(sim, q, leaf, line, True):
                return EVICT
            line = first_claim(q, leaf)
    q.memory["claiming"] = 0
    return ALLOCATE


@kernel
def reclaim(sim: Run, q: Queues) -> bool:
    """Find victims for the first job that has some; return False if there is none."""
    unpark_refused(q)
    for leaf in range(1, len(q.tenants)):
        t = q.tenants[leaf]
        t["line"] = first_of(sim, q, leaf, sim.world["gpus"]) if t["lines"] > 0 and t["waiting"] > 0 else -1
    while True:
        leaf = first_tenant(q)
        if leaf < 0:
            return False
        if ask_for_victims(sim, q, leaf, q.tenants[leaf]["line"], False):
            return True
        q.tenants[leaf]["line"] = first_of(sim, q, leaf, sim.world["gpus"])


@kernel(lazy=True)
def arrange(sim: Run, q: Queues) -> int:
    """Return what to do next, NOTHING, START or PREEMPT; ``job`` is the row of the job."""
    m = q.memory
    while True:
        if m["stage"] == DESERVE:
            deserve(sim, q)
            m["stage"] = CLAIM if m["claiming"] else ALLOCATE
        elif m["stage"] == CLAIM:
            stage = serve_claims(sim, q)
            if stage == -START:
                return START
            m["stage"] = stage
        elif m["stage"] == ALLOCATE:
            if serve(sim, q) == START:
                return START
            m["stage"] = RECLAIM
        elif m["stage"] == RECLAIM:
            if not m["preempts"] or not reclaim(sim, q):
                return NOTHING
            m["stage"] = EVICT
        elif m["stage"] == EVICT:
            if evict(sim, q):
                return PREEMPT
            m["stage"] = ENTER
        else:
            m["stage"] = CLAIM if m["claiming"] else ALLOCATE
            if enter(sim, q):
                return START
