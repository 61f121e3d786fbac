"""Shares of tenants in a tree: how far a tenant is above its quota (Kueue) or what it deserves (KAI)."""

from __future__ import annotations

import math
from typing import Any

from gpusched_env.baselines.queues.state import Queues
from gpusched_env.baselines.queues.usage import give, take
from gpusched_env.core.handle import helper, kernel


@helper
def share_of(q: Queues, node: int) -> float:
    """Return 1000 x borrowed / lendable / weight, which is not rounded; lendable = ``room`` of the tenant above.

    The order of the operations is that of Kueue's PreciseWeightedShare, because their last bit decides some ties.
    """
    t = q.tenants[node]
    borrowed = t["use"] - t["sub"]
    if t["parent"] < 0 or borrowed <= 0:
        return 0.0
    lendable = q.tenants[t["parent"]]["room"]
    if lendable <= 0:
        return 0.0
    share: float = 1000.0 * borrowed / lendable / t["weight"]
    return share


@kernel
def highest_share_of_all(q: Queues) -> float:
    """Return the highest share of a tenant."""
    highest = 0.0
    for node in range(1, len(q.tenants)):
        highest = max(highest, share_of(q, node))
    return highest


@kernel
def lowest_share_with(q: Queues, leaf: int, gpus: int) -> float:
    """Return the lowest share that ``leaf`` or a tenant above it, below the root, would have with a job of it."""
    take(q, leaf, gpus)
    lowest = math.inf
    node = leaf
    while node > 0:
        lowest = min(lowest, share_of(q, node))
        node = q.tenants[node]["parent"]
    give(q, leaf, gpus)
    return lowest


@kernel
def is_above(q: Queues, node: int, leaf: int) -> bool:
    """Return whether ``node`` is ``leaf`` or above it."""
    while leaf > node:  # parents have lower rows
        leaf = q.tenants[leaf]["parent"]
    return leaf == node


@kernel
def branch(q: Queues, leaf: int, other: int) -> int:
    """Return the tenant just below the lowest common ancestor of two leaves, on the side of ``leaf``."""
    node = leaf
    while not is_above(q, q.tenants[node]["parent"], other):
        node = q.tenants[node]["parent"]
    return node


@kernel
def borrows_from(q: Queues, leaf: int, other: int) -> bool:
    """Return whether ``leaf`` borrows at every level below its lowest common ancestor with ``other``."""
    node = leaf
    while not is_above(q, node, other):
        if q.tenants[node]["use"] <= q.tenants[node]["sub"]:
            return False
        node = q.tenants[node]["parent"]
    return True


@helper
def overtakes(winner: Any, more: int, loser: Any, less: int) -> bool:
    """Return whether a tenant with ``more`` GPUs is beyond what it deserves, and as far as one with ``less``."""
    return (
        more > winner["deserved"] and loser["deserved"] > 0.0 and more * loser["deserved"] >= less * winner["deserved"]
    )


@kernel
def keeps_order(q: Queues, leaf: int, gpus: int) -> bool:
    """Return whether no tenant, with a job that reclaims, would be beyond what it deserves and as far as a loser is.

    KAI, reclaimable.go: reclaimingQueuesRemainWithinBoundaries. At each level, ``leaf`` or the tenant above it is
    compared with those of its siblings that lose jobs, by GPUs held / deserved.
    """
    node = leaf if q.memory["reclaims"] else 0
    while node > 0:
        t = q.tenants[node]
        for other in range(1, len(q.tenants)):
            loser = q.tenants[other]
            loses = other != node and loser["parent"] == t["parent"] and loser["held"] < loser["key"]
            if loses and overtakes(t, t["held"] + gpus, loser, loser["held"]):
                return False
        node = t["parent"]
    return True
