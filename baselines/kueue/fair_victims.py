"""Whom a job of Kueue preempts under fair sharing: jobs of the queues with the highest shares (preemption/fairsharing).

``key`` of each tenant is its share, with the job that asks, and without the victims taken so far.
"""

from __future__ import annotations

from gpusched_env.baselines.kueue.shares import borrows_from, branch, is_above, share_of
from gpusched_env.baselines.kueue.victims import (
    NO_VICTIMS,
    gang_of,
    is_spared,
    may_search,
    may_spare,
    next_own,
    priority_to_reclaim,
    put_back,
    restart_search,
    take_nobody,
    take_victim,
    would_fit,
)
from gpusched_env.baselines.list_policies.lines import before
from gpusched_env.baselines.queues.state import NEVER, NO_LIMIT, Queues
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
def next_of(sim: Run, q: Queues, leaf: int, row: int, owner: int) -> int:
    """Return the next candidate of ``owner``, at which ``next`` then is; -1 = none."""
    t = q.tenants[owner]
    below = priority_to_reclaim(q, leaf, row)
    while t["next"] >= 0:
        if owner == leaf:
            t["next"] = next_own(sim, q, leaf, row, t["next"])
            if t["next"] < 0:
                break
        victim = q.runners[t["runners"] + t["next"]]
        if owner != leaf and q.priorities[victim] >= below:
            break
        if q.found_in[victim] != q.memory["search"] and not is_spared(sim, q, victim):
            return victim
        t["next"] -= 1
    return -1


@kernel
def comes_first(sim: Run, q: Queues, leaf: int, row: int, one: int, other: int) -> bool:
    """Return whether ``one`` is tried before ``other``, a leaf beside it with the same share: by their candidates."""
    first = next_of(sim, q, leaf, row, one)
    second = next_of(sim, q, leaf, row, other)
    if first < 0 or second < 0:
        return second < 0 and (first >= 0 or one < other)
    if one == leaf or other == leaf:
        return other == leaf
    return before(q.priorities, q.latest, first, second)


@kernel
def is_higher(sim: Run, q: Queues, leaf: int, row: int, one: int, other: int) -> bool:
    """Return whether a walk from the root along the highest shares finds leaf ``one`` before ``other``.

    Ties: inner tenants before leaves; among inner tenants, where Kueue's order is random, the order of the tree.
    """
    a, b = one, other
    if q.tenants[one]["parent"] != q.tenants[other]["parent"]:
        a = branch(q, one, other)
        b = branch(q, other, one)
    if q.tenants[a]["key"] != q.tenants[b]["key"]:
        return q.tenants[a]["key"] > q.tenants[b]["key"]
    if a == one and b == other:
        return comes_first(sim, q, leaf, row, one, other)
    if a == one or b == other:
        return b == other
    return a < b


@kernel
def highest_share(sim: Run, q: Queues, leaf: int, row: int, left: int) -> int:
    """Return the index in ``candidates[:left]`` of the leaf that a walk from the root finds; ``left`` > 0."""
    best = 0
    for i in range(1, left):
        if is_higher(sim, q, leaf, row, q.candidates[i], q.candidates[best]):
            best = i
    return best


@kernel
def drop_leaf(q: Queues, at: int, left: int) -> int:
    """Remove ``candidates[at]``, which has no candidates left; return the number of the others."""
    q.candidates[at] = q.candidates[left - 1]
    return left - 1


@kernel
def put_off(q: Queues, leaf: int, owner: int, left: int) -> int:
    """Leave jobs of ``owner``, and of leaves as far from ``leaf``, for the second strategy; return the leaves left."""
    mine = branch(q, leaf, owner)
    common = q.tenants[mine]["parent"]
    kept = 0
    for i in range(left):
        node = q.candidates[i]
        if is_above(q, common, node) and not is_above(q, mine, node):
            q.tenants[node]["later"] = 1
        else:
            q.candidates[kept] = node
            kept += 1
    return kept


@kernel
def is_too_low_without(q: Queues, owner: int, leaf: int, gpus: int, mine: float) -> bool:
    """Return whether the share of ``owner`` without ``gpus`` GPUs is less than ``mine``, the share of ``leaf``."""
    give(q, owner, gpus)
    too_low: bool = mine > share_of(q, branch(q, owner, leaf))
    take(q, owner, gpus)
    return too_low


@kernel
def smallest_gang(q: Queues, owner: int) -> int:
    """Return the GPUs of the smallest running job of a leaf; 0 = none."""
    begin = q.tenants[owner]["begin"]
    for line in range(begin, begin + q.tenants[owner]["lines"]):  # ascending sizes
        if q.running[line] > 0:
            gpus: int = q.lines[line]["gpus"]
            return gpus
    return 0


@kernel
def fair_victims(sim: Run, q: Queues, leaf: int, row: int) -> int:
    """Write the victims of a job under fair sharing to ``targets``; return their number, or NO_VICTIMS."""
    m = q.memory
    m["search"] += 1
    gpus = gang_of(q, row)
    if not may_search(q, leaf, gpus):
        return NO_VICTIMS
    fits = False
    left = 0
    take_nobody(q)
    take(q, leaf, gpus)  # shares are those with the job
    for node in range(len(q.tenants)):
        t = q.tenants[node]
        has = t["running"] > 0 and (node == leaf or (t["use"] > t["sub"] and q.tenants[leaf]["reclaim"] != NEVER))
        t["later"] = 0
        t["next"] = t["running"] - 1
        if has:
            q.candidates[left] = node
            left += 1
        if has or t["lines"] == 0 or node == leaf:  # no other share is compared
            t["key"] = share_of(q, node)
    for strategy in range(1 + m["initial"]):
        if fits:
            break
        if strategy == 1:
            restart_search(q)
            for node in range(len(q.tenants)):
                if q.tenants[node]["later"]:
                    q.candidates[left] = node
                    left += 1
        at = -1  # -1 = shares or candidates have changed since the highest share was found
        least = 0
        while left > 0 and not fits:
            if at < 0:
                at = highest_share(sim, q, leaf, row, left)
                least = NO_LIMIT  # a victim with at least so many GPUs would bring the share of the owner too low
            owner = q.candidates[at]
            t = q.tenants[owner]
            mine = 0.0
            if owner != leaf:
                if not borrows_from(q, owner, leaf):
                    t["later"] = 0
                    left = drop_leaf(q, at, left)
                    at = -1
                    continue
                mine = q.tenants[branch(q, leaf, owner)]["key"]
                present = q.tenants[branch(q, owner, leaf)]["key"]
                if mine > present or (strategy == 1 and mine == present):
                    left = put_off(q, leaf, owner, left)
                    at = -1
                    continue
                if strategy == 0 and least == NO_LIMIT and (m["spared"] or not may_spare(sim, q, owner)):
                    smallest = smallest_gang(q, owner)
                    if smallest > 0 and is_too_low_without(q, owner, leaf, smallest, mine):
                        t["later"] = 1  # no job of it is small enough
                        left = drop_leaf(q, at, left)
                        at = -1
                        continue
            victim = next_of(sim, q, leaf, row, owner)
            if victim < 0:
                left = drop_leaf(q, at, left)
                at = -1
                continue
            t["next"] -= 1
            if owner != leaf and strategy == 0:
                size = gang_of(q, victim)
                if size < least and is_too_low_without(q, owner, leaf, size, mine):
                    least = size
                if size >= least:
                    t["later"] = 1
                    continue
            q.found_in[victim] = m["search"]
            take_victim(sim, q, victim)
            compute_shares(q, owner)
            if strategy == 1:  # it takes one job of each leaf
                left = drop_leaf(q, at, left)
            at = -1
            give(q, leaf, gpus)
            fits = would_fit(sim, q, leaf, gpus, m["freed"], True)
            take(q, leaf, gpus)
    give(q, leaf, gpus)
    return put_back(sim, q, leaf, gpus, True, fits)
