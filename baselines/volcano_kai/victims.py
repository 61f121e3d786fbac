"""Whom jobs of Volcano and KAI preempt: lower priorities in the own queue, and jobs of queues beyond what they deserve.

Gangs are preempted whole. Jobs in a checkpoint count as gone already, as in kueue/victims.py. Jobs in parts that are
not split over nodes have victims only if the placement rule then finds a place.
"""

from __future__ import annotations

from gpusched_env.baselines.kueue.shares import branch, is_above, keeps_order, overtakes
from gpusched_env.baselines.kueue.victims import (
    NO_VICTIMS,
    count_jobs,
    gang_of,
    is_spared,
    offer,
    own_victims,
    put_back,
    restart_search,
    take_nobody,
    take_victim,
    would_fit,
)
from gpusched_env.baselines.list_policies.lines import before
from gpusched_env.baselines.queues.state import KAI, NEVER, Queues
from gpusched_env.baselines.queues.waiting import asks_rule
from gpusched_env.core.handle import kernel
from gpusched_env.core.state import Run


@kernel
def may_reclaim(q: Queues, leaf: int, gpus: int) -> bool:
    """Return whether a job may reclaim: its queue holds less than it deserves (Volcano), or not more with it (KAI)."""
    t = q.tenants[leaf]
    if t["reclaim"] == NEVER:
        return False
    if q.memory["policy"] == KAI:
        within: bool = t["held"] + gpus <= t["deserved"]
        return within
    below: bool = t["held"] < t["deserved"]
    return below


@kernel
def may_lose(q: Queues, leaf: int, gpus: int, owner: int, size: int) -> bool:
    """Return whether ``owner`` may lose a job of ``size`` GPUs to a job of ``gpus`` GPUs of ``leaf``.

    Volcano, at every level below the lowest common ancestor: the loser keeps what it deserves, and the winner holds
    less. KAI, just below it: the loser holds more than it deserves, or more than its quota while the winner, with the
    job, is within its own (reclaimable/strategies.go). ``key`` is what a tenant held before the search.
    """
    if q.memory["policy"] == KAI:
        loser = q.tenants[branch(q, owner, leaf)]
        winner = q.tenants[branch(q, leaf, owner)]
        by_quota = loser["held"] > loser["quota"] and winner["key"] + gpus <= winner["quota"]
        over = loser["held"] > loser["deserved"] or by_quota
        return over and not overtakes(winner, winner["held"] + gpus, loser, loser["held"] - size)
    node = owner
    while not is_above(q, node, leaf):
        if q.tenants[node]["held"] - size < q.tenants[node]["deserved"]:
            return False
        node = q.tenants[node]["parent"]
    node = leaf
    while not is_above(q, node, owner):
        if q.tenants[node]["held"] >= q.tenants[node]["deserved"]:
            return False
        node = q.tenants[node]["parent"]
    return True


@kernel
def next_loser(sim: Run, q: Queues, leaf: int, gpus: int) -> int:
    """Return the other leaf whose next candidate comes first: lowest priority, then latest start; -1 = none."""
    best = -1
    first = -1
    for node in range(1, len(q.tenants)):
        t = q.tenants[node]
        if node == leaf:
            continue
        while t["next"] >= 0:
            victim = q.runners[t["runners"] + t["next"]]
            if best >= 0 and not before(q.priorities, q.latest, victim, first):
                break
            if may_lose(q, leaf, gpus, node, gang_of(q, victim)) and not is_spared(sim, q, victim):
                best = node
                first = victim
                break
            t["next"] -= 1
    return best


@kernel
def reclaim_others(sim: Run, q: Queues, leaf: int, row: int) -> int:
    """Write victims of other queues to ``targets``; return their number, or NO_VICTIMS."""
    gpus = gang_of(q, row)
    if not may_reclaim(q, leaf, gpus):
        return NO_VICTIMS
    for node in range(len(q.tenants)):
        q.tenants[node]["key"] = q.tenants[node]["held"]
    m = q.memory
    fits = False
    take_nobody(q)
    m["reclaims"] = m["policy"] == KAI
    restart_search(q)
    while not fits:
        node = next_loser(sim, q, leaf, gpus)
        if node < 0:
            break
        t = q.tenants[node]
        take_victim(sim, q, q.runners[t["runners"] + t["next"]])
        t["next"] -= 1
        fits = would_fit(sim, q, leaf, gpus, m["freed"], True) and keeps_order(q, leaf, gpus)
    return put_back(sim, q, leaf, gpus, True, fits)


@kernel(lazy=True)
def find_victims(sim: Run, q: Queues, leaf: int, row: int) -> int:
    """Write the victims of a job to ``targets``; return their number: 0 if it fits after checkpoints, or NO_VICTIMS.

    Volcano preempts inside the queue first, KAI reclaims first.
    """
    m = q.memory
    m["asks"] = sim.jobs[row]["job_class"] if asks_rule(sim, q, row) else -1
    count_jobs(q, q.stopping, m["stopping"], -1)
    for i in range(m["stopping"]):
        offer(sim, q, q.stopping[i], True)
    if would_fit(sim, q, leaf, gang_of(q, row), 0, True):
        found = 0
    elif m["policy"] == KAI:
        found = reclaim_others(sim, q, leaf, row)
        if found == NO_VICTIMS:
            take_nobody(q)
            found = own_victims(sim, q, leaf, row, True, False)
    else:
        take_nobody(q)
        found = own_victims(sim, q, leaf, row, True, False)
        if found == NO_VICTIMS:
            found = reclaim_others(sim, q, leaf, row)
    count_jobs(q, q.stopping, m["stopping"], 1)
    for i in range(m["stopping"]):
        offer(sim, q, q.stopping[i], False)
    m["asks"] = -1
    return found
