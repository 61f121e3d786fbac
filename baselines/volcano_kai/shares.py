"""How many GPUs each tenant deserves: its part of what the tenant above deserves, level by level.

A tenant requests what its jobs hold and ask for, up to its field ``most``. For those above it, KAI counts all of that.
"""

from __future__ import annotations

import math

from gpusched_env.baselines.queues.state import KAI, Queues
from gpusched_env.core.handle import helper, kernel
from gpusched_env.core.state import Run
from gpusched_env.portable.keys import rounded_key


@helper
def weight_unmet(q: Queues, parent: int) -> float:
    """Return the sum of the weights of the tenants below ``parent`` whose requests are not met."""
    weights = 0.0
    for node in range(parent + 1, len(q.tenants)):
        t = q.tenants[node]
        if t["parent"] == parent and t["deserved"] < t["request"]:
            weights += t["weight"]
    return weights


@kernel
def proportion(q: Queues, parent: int) -> None:
    """Fill the tenants below ``parent`` by weight, round by round, none beyond its request (Volcano, proportion)."""
    left = q.tenants[parent]["deserved"]
    for node in range(parent + 1, len(q.tenants)):
        if q.tenants[node]["parent"] == parent:
            q.tenants[node]["deserved"] = 0.0
    met = True
    while met:
        met = False
        weights = weight_unmet(q, parent)
        given = 0.0
        for node in range(parent + 1, len(q.tenants)):
            t = q.tenants[node]
            if t["parent"] == parent and t["deserved"] < t["request"]:
                part = left * t["weight"] / weights
                if t["deserved"] + part >= t["request"]:
                    part = t["request"] - t["deserved"]
                    t["deserved"] = t["request"]
                    met = True
                else:
                    t["deserved"] += part
                given += part
        left -= given


@kernel
def over_quota(q: Queues, parent: int) -> None:
    """Give the tenants below ``parent`` their quotas, and the rest by weight, in whole GPUs (resource_division.go).

    In each round a tenant gets the whole part of its share, or what it still requests. If nobody requested less than
    its share, the GPUs left go to the largest fractions, each of the tenant's latest round with one; ties: the lowest
    row.
    """
    left = q.tenants[parent]["deserved"]
    for node in range(parent + 1, len(q.tenants)):
        t = q.tenants[node]
        if t["parent"] == parent:
            t["key"] = 0.0  # the fraction
            t["deserved"] = min(t["quota"], t["request"])
            left -= t["deserved"]
    again = True
    while again and left > 0.0:
        again = False
        weights = weight_unmet(q, parent)
        given = 0.0
        for node in range(parent + 1, len(q.tenants)):
            t = q.tenants[node]
            if t["parent"] == parent and t["deserved"] < t["request"]:
                part = left * t["weight"] / weights
                asked = t["request"] - t["deserved"]
                whole = math.floor(part)
                if asked <= part:
                    again = again or asked < part
                    whole = asked
                    t["key"] = 0.0
                elif part > whole:
                    t["key"] = rounded_key(part - whole)
                t["deserved"] += whole
                given += whole
        left -= given
    while left >= 1.0:
        best = -1
        for node in range(parent + 1, len(q.tenants)):
            t = q.tenants[node]
            if t["parent"] == parent and t["key"] > 0.0 and (best < 0 or t["key"] > q.tenants[best]["key"]):
                best = node
        if best < 0:
            break
        q.tenants[best]["key"] = 0.0
        q.tenants[best]["deserved"] += 1.0
        left -= 1.0


@kernel
def deserve(sim: Run, q: Queues) -> None:
    """Compute what each tenant requests and deserves [GPU]."""
    for node in range(len(q.tenants)):
        q.tenants[node]["request"] = 0.0
    for node in range(len(q.tenants) - 1, -1, -1):
        t = q.tenants[node]
        if t["lines"] > 0:
            t["request"] = t["held"] + t["asks"]
        asked = t["request"]
        t["request"] = min(asked, t["most"])
        if node > 0:
            q.tenants[t["parent"]]["request"] += asked if q.memory["policy"] == KAI else t["request"]
    q.tenants[0]["deserved"] = sim.world["gpus"]
    for node in range(len(q.tenants)):
        if q.tenants[node]["lines"] == 0 and q.tenants[node]["request"] > 0.0:
            if q.memory["policy"] == KAI:
                over_quota(q, node)
            else:
                proportion(q, node)


@kernel
def is_overused(q: Queues, leaf: int) -> bool:
    """Return whether a tenant, or one above it, holds what it deserves."""
    node = leaf
    while node > 0:
        if q.tenants[node]["held"] >= q.tenants[node]["deserved"]:
            return True
        node = q.tenants[node]["parent"]
    return False
