"""Whom a job of Kueue preempts under fair sharing: jobs of the queues with the highest shares.

``key`` of each tenant is its share, with the job that asks, and without the victims taken so far.
"""

from __future__ import annotations

import math

from gpusched_env.baselines.kueue.shares import borrows_from, branch, is_above, share_of
from gpusched_env.baselines.kueue.victims import (
    gang_of,
    is_spared,
    next_own,
    put_back,
    restart_search,
    take_victim,
    would_fit,
)
from gpusched_env.baselines.queues.state import ANY, NEVER, Queues
from gpusched_env.baselines.queues.usage import give, take
from gpusched_env.core.handle import kernel
from gpusched_env.core.state import Run


@kernel
def compute_shares(q: Queues, leaf: int) -> None:
    """Compute the shares of ``leaf`` and of the tenants above it."""
    node = leaf
    while node >= 0:
        q.tenants[node]["key"] = share_of(q, node)
        node = q.tenants[node]["parent"]


@kernel
def highest_share(q: Queues) -> int:
    """Return the leaf with candidates left that a walk from the root along the highest shares finds; -1 = none."""
    for node in range(len(q.tenants)):
        q.tenants[node]["best"] = node if q.tenants[node]["left"] else -1
    for node in range(len(q.tenants) - 1, 0, -1):
        t = q.tenants[node]
        if t["best"] < 0:
            continue
        above = q.tenants[t["parent"]]
        # ties: the tenant of the lowest row, which is visited last
        if above["best"] < 0 or t["key"] >= q.tenants[above["cursor"]]["key"]:
            above["best"] = t["best"]
            above["cursor"] = node
    return q.tenants[0]["best"]


@kernel
def put_off(q: Queues, leaf: int, owner: int) -> None:
    """Leave the candidates of ``owner``, and of all leaves that are as far from ``leaf``, for the second strategy.

    Their shares at the level at which they are compared with ``leaf`` are not higher than that of ``owner``.
    """
    mine = branch(q, leaf, owner)
    common = q.tenants[mine]["parent"]
    for node in range(common + 1, len(q.tenants)):
        t = q.tenants[node]
        if t["left"] and is_above(q, common, node) and not is_above(q, mine, node):
            t["left"] = 0
            t["later"] = 1


@kernel
def next_of(sim: Run, q: Queues, leaf: int, row: int, owner: int) -> int:
    """Return the next candidate of ``owner`` that is no victim yet; -1 = none."""
    t = q.tenants[owner]
    below = math.inf if q.memory["reclaim"] == ANY else q.priorities[row]
    while t["next"] >= 0:
        if owner == leaf:
            t["next"] = next_own(sim, q, leaf, row, t["next"])
            if t["next"] < 0:
                break
        victim = q.runners[t["runners"] + t["next"]]
        if owner != leaf and q.priorities[victim] >= below:
            break
        t["next"] -= 1
        if q.found_in[victim] != q.memory["search"] and not is_spared(sim, q, victim):
            return victim
    return -1


@kernel
def fair_victims(sim: Run, q: Queues, leaf: int, row: int) -> int:
    """Write the victims of a job under fair sharing to ``targets``; return their number, or NO_VICTIMS.

    First the strategy LessThanOrEqualToFinalShare, then, if it is on, LessThanInitialShare.
    """
    m = q.memory
    m["search"] += 1
    gpus = gang_of(q, row)
    taken = 0
    freed = 0
    fits = False
    take(q, leaf, gpus)  # shares are those with the job
    for node in range(len(q.tenants)):
        t = q.tenants[node]
        t["left"] = t["running"] > 0 and (node == leaf or (t["use"] > t["sub"] and m["reclaim"] != NEVER))
        t["later"] = 0
        t["key"] = share_of(q, node)
    for strategy in range(1 + m["initial"]):
        if fits:
            break
        restart_search(q)
        if strategy == 1:
            for node in range(len(q.tenants)):
                q.tenants[node]["left"] = q.tenants[node]["later"]
        while not fits:
            owner = highest_share(q)
            if owner < 0:
                break
            t = q.tenants[owner]
            mine = 0.0
            if owner != leaf:
                if not borrows_from(q, owner, leaf):
                    t["left"] = 0
                    t["later"] = 0
                    continue
                mine = q.tenants[branch(q, leaf, owner)]["key"]
                before = q.tenants[branch(q, owner, leaf)]["key"]
                if mine > before or (strategy == 1 and mine == before):
                    put_off(q, leaf, owner)
                    continue
            victim = next_of(sim, q, leaf, row, owner)
            if victim < 0:
                t["left"] = 0
                continue
            if owner != leaf and strategy == 0:
                give(q, owner, gang_of(q, victim))
                later = mine > share_of(q, branch(q, owner, leaf))
                take(q, owner, gang_of(q, victim))
                if later:
                    t["later"] = 1
                    continue
            q.found_in[victim] = m["search"]
            freed += take_victim(q, victim, taken)
            taken += 1
            compute_shares(q, owner)
            give(q, leaf, gpus)
            fits = would_fit(sim, q, leaf, gpus, freed, True)
            take(q, leaf, gpus)
    give(q, leaf, gpus)
    return put_back(sim, q, leaf, gpus, taken, freed, True, fits)
