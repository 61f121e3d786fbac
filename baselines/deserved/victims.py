"""Whom jobs of Volcano and KAI preempt: lower priorities in the own queue, and jobs of queues beyond what they deserve.

Gangs are preempted whole. Jobs in a checkpoint count as gone already, as in kueue/victims.py.
"""

from __future__ import annotations

from gpusched_env.baselines.deserved.shares import is_overused
from gpusched_env.baselines.kueue.shares import branch, is_above
from gpusched_env.baselines.kueue.victims import (
    NO_VICTIMS,
    count_stopping,
    gang_of,
    is_spared,
    own_victims,
    put_back,
    restart_search,
    take_victim,
    would_fit,
)
from gpusched_env.baselines.listed.lines import before
from gpusched_env.baselines.queues.state import KAI, NEVER, Queues
from gpusched_env.core.handle import kernel
from gpusched_env.core.state import Run


@kernel
def may_reclaim(q: Queues, leaf: int, gpus: int) -> bool:
    """Return whether a job of ``leaf`` may reclaim.

    Volcano: the queue holds less than it deserves. KAI: with the job, it does not hold more, at any level.
    """
    if q.memory["reclaim"] == NEVER:
        return False
    if q.memory["policy"] != KAI:
        return not is_overused(q, leaf)
    node = leaf
    while node > 0:
        if q.tenants[node]["held"] + gpus > q.tenants[node]["deserved"]:
            return False
        node = q.tenants[node]["parent"]
    return True


@kernel
def may_lose(q: Queues, leaf: int, gpus: int, owner: int, size: int) -> bool:
    """Return whether ``owner`` may lose a job of ``size`` GPUs to a job of ``gpus`` GPUs of ``leaf``.

    Volcano: it keeps what it deserves, at every level below the lowest common ancestor. KAI, for the tenants just below
    that ancestor: the loser holds more than it deserves, or more than its quota while the winner, with the job, is
    within its own; and afterwards held / deserved of the winner is not above that of the loser.
    """
    if q.memory["policy"] != KAI:
        node = owner
        while not is_above(q, node, leaf):
            if q.tenants[node]["held"] - size < q.tenants[node]["deserved"]:
                return False
            node = q.tenants[node]["parent"]
        return True
    loser = q.tenants[branch(q, owner, leaf)]
    winner = q.tenants[branch(q, leaf, owner)]
    by_quota = loser["held"] > loser["quota"] and winner["held"] + gpus <= winner["quota"]
    if loser["held"] <= loser["deserved"] and not by_quota:
        return False
    balanced: bool = (winner["held"] + gpus) * loser["deserved"] <= (loser["held"] - size) * winner["deserved"]
    return balanced


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
    taken = 0
    freed = 0
    fits = False
    restart_search(q)
    while not fits:
        node = next_loser(sim, q, leaf, gpus)
        if node < 0:
            break
        t = q.tenants[node]
        freed += take_victim(q, q.runners[t["runners"] + t["next"]], taken)
        t["next"] -= 1
        taken += 1
        fits = would_fit(sim, q, leaf, gpus, freed, True)
    return put_back(sim, q, leaf, gpus, taken, freed, True, fits)


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
            found = own_victims(sim, q, leaf, row, 0, 0, True, False)
    else:
        found = own_victims(sim, q, leaf, row, 0, 0, True, False)
        if found == NO_VICTIMS:
            found = reclaim_others(sim, q, leaf, row)
    count_stopping(q, 1)
    return found
