"""Whom jobs of Volcano and KAI preempt: lower priorities in the own queue, and jobs of queues beyond what they deserve.

Gangs are preempted whole. Jobs in a checkpoint count as gone already, as in kueue/victims.py.
"""

from __future__ import annotations

from typing import Any

from gpusched_env.baselines.kueue.shares import branch, is_above
from gpusched_env.baselines.kueue.victims import (
    NO_VICTIMS,
    count_stopping,
    count_targets,
    drop_target,
    gang_of,
    is_spared,
    own_victims,
    restart_search,
    take_nobody,
    take_victim,
    would_fit,
)
from gpusched_env.baselines.list_policies.lines import before
from gpusched_env.baselines.queues.state import KAI, NEVER, Queues
from gpusched_env.baselines.queues.usage import hold
from gpusched_env.core.handle import helper, kernel
from gpusched_env.core.state import Run


@kernel
def may_reclaim(q: Queues, leaf: int, gpus: int) -> bool:
    """Return whether a job of ``leaf`` may reclaim.

    Volcano: the queue holds less than it deserves. KAI: with the job, it does not hold more (CanReclaimResources).
    Queues above are compared with those that lose: what they have in common gives and gets the same GPUs.
    """
    t = q.tenants[leaf]
    if q.memory["reclaim"] == NEVER:
        return False
    if q.memory["policy"] == KAI:
        within: bool = t["held"] + gpus <= t["deserved"]
        return within
    below: bool = t["held"] < t["deserved"]
    return below


@helper
def overtakes(winner: Any, more: int, loser: Any, less: int) -> bool:
    """Return whether a tenant with ``more`` GPUs is beyond what it deserves, and as far as one with ``less``."""
    return (
        more > winner["deserved"] and loser["deserved"] > 0.0 and more * loser["deserved"] >= less * winner["deserved"]
    )


@kernel
def may_lose(q: Queues, leaf: int, gpus: int, owner: int, size: int) -> bool:
    """Return whether ``owner`` may lose a job of ``size`` GPUs to a job of ``gpus`` GPUs of ``leaf``.

    Volcano, at every level below the lowest common ancestor: the loser keeps what it deserves, and the winner holds
    less. KAI, for the tenants just below that ancestor: the loser holds more than it deserves, or more than its quota
    while the winner, with the job, is within its own (reclaimable/strategies.go); and see :func:`keeps_order`. ``key``
    is what a tenant held before the search.
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
def keeps_order(q: Queues, leaf: int, gpus: int) -> bool:
    """Return whether no tenant, with a job of ``leaf``, would be beyond what it deserves and as far as a loser is.

    At each level, ``leaf`` or the tenant above it is compared with those of its siblings that lose jobs, by GPUs held /
    deserved (KAI, reclaimable.go: reclaimingQueuesRemainWithinBoundaries).
    """
    node = leaf
    while node > 0:
        t = q.tenants[node]
        for other in range(1, len(q.tenants)):
            loser = q.tenants[other]
            loses = other != node and loser["parent"] == t["parent"] and loser["held"] < loser["key"]
            if loses and overtakes(t, t["held"] + gpus, loser, loser["held"]):
                return False
        node = t["parent"]
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
def would_do(sim: Run, q: Queues, leaf: int, gpus: int, freed: int) -> bool:
    """Return whether a job of ``leaf`` fits without the victims taken, with ``freed`` GPUs, and KAI allows it."""
    return would_fit(sim, q, leaf, gpus, freed, True) and (q.memory["policy"] != KAI or keeps_order(q, leaf, gpus))


@kernel
def reclaim_others(sim: Run, q: Queues, leaf: int, row: int) -> int:
    """Write victims of other queues to ``targets``; return their number, or NO_VICTIMS."""
    gpus = gang_of(q, row)
    if not may_reclaim(q, leaf, gpus):
        return NO_VICTIMS
    for node in range(len(q.tenants)):
        q.tenants[node]["key"] = q.tenants[node]["held"]
    m = q.memory
    does = False
    take_nobody(q)
    restart_search(q)
    while not does:
        node = next_loser(sim, q, leaf, gpus)
        if node < 0:
            break
        t = q.tenants[node]
        take_victim(q, q.runners[t["runners"] + t["next"]])
        t["next"] -= 1
        does = would_do(sim, q, leaf, gpus, m["freed"])
    freed = m["freed"]
    kept = m["taken"]
    for i in range(kept - 2, -1, -1):  # put back those that are not needed, latest first
        victim = q.targets[i]
        owner, size = q.owner[q.line_of[victim]], gang_of(q, victim)
        hold(q, owner, size)
        if does and would_do(sim, q, leaf, gpus, freed - size):
            freed -= size
            kept = drop_target(q, i, kept)
        else:
            hold(q, owner, -size)
    count_targets(q, kept, 1)  # they still run
    return kept if does else NO_VICTIMS


@kernel(lazy=True)
def find_victims(sim: Run, q: Queues, leaf: int, row: int) -> int:
    """Write the victims of a job of ``leaf`` to ``targets``; return their number, or NO_VICTIMS.

    Volcano preempts inside the queue first, KAI reclaims first. The result is 0 if the job fits as soon as the jobs
    that are in a checkpoint have gone.
    """
    count_stopping(q, -1)
    if would_fit(sim, q, leaf, gang_of(q, row), 0, True):
        found = 0
    elif q.memory["policy"] == KAI:
        found = reclaim_others(sim, q, leaf, row)
        if found == NO_VICTIMS:
            take_nobody(q)
            found = own_victims(sim, q, leaf, row, True, False)
    else:
        take_nobody(q)
        found = own_victims(sim, q, leaf, row, True, False)
        if found == NO_VICTIMS:
            found = reclaim_others(sim, q, leaf, row)
    count_stopping(q, 1)
    return found
