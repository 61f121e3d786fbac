"""Which tenant comes first: a walk from the root, at each level to the tenant that is furthest below its share."""

from __future__ import annotations

from gpusched_env.baselines.queues.state import CAPACITY, FAIR, KAI, NO_LIMIT, VOLCANO, Queues
from gpusched_env.baselines.queues.usage import below_caps, dominant, has_resources
from gpusched_env.baselines.queues.waiting import first_of, park, unclaimed_gpus
from gpusched_env.baselines.volcano_kai.shares import is_overused
from gpusched_env.core.driver import NOTHING, START
from gpusched_env.core.handle import kernel
from gpusched_env.core.state import Run


@kernel
def set_key(q: Queues, node: int) -> None:
    """Compute the key of a tenant; the lowest comes first, those below their minimum before all others.

    DRF: dominant share / weight, times the GPUs of the cluster. FAIR: of tenants below min(quota, demand) GPUs held /
    that, of the others GPUs held / weight. CAPACITY: GPUs held / quota, else / weight. VOLCANO, KAI: GPUs held /
    deserved.
    """
    t = q.tenants[node]
    held = float(t["held"])
    t["needy"] = 0
    t["key"] = dominant(q, node) / t["weight"]
    if q.memory["policy"] == FAIR:
        least = min(t["quota"], t["held"] + t["asks"])
        if t["held"] < least:
            t["needy"] = 1
            t["key"] = held / least
    elif q.memory["policy"] == CAPACITY and t["quota"] > 0:
        t["needy"] = 1
        t["key"] = held / t["quota"]
    elif q.memory["policy"] in (VOLCANO, KAI):
        t["key"] = held / t["deserved"] if t["deserved"] > 0.0 else min(held, 1.0)


@kernel
def first_tenant(q: Queues) -> int:
    """Return the leaf that comes first among those with a line in ``line``; -1 = none. Ties: the lowest row."""
    for node in range(len(q.tenants)):
        q.tenants[node]["best"] = node if q.tenants[node]["line"] >= 0 else -1
    for node in range(len(q.tenants) - 1, 0, -1):
        t = q.tenants[node]
        if t["best"] < 0:
            continue
        set_key(q, node)
        above = q.tenants[t["parent"]]
        rival = above["cursor"]
        wins = above["best"] < 0
        if not wins:
            other = q.tenants[rival]
            wins = t["needy"] > other["needy"] or (t["needy"] == other["needy"] and t["key"] <= other["key"])
        if wins:
            above["best"] = t["best"]
            above["cursor"] = node
    return q.tenants[0]["best"]


@kernel
def find_job(sim: Run, q: Queues, leaf: int, most: int) -> int:
    """Return the line of the next job of a leaf that its caps and the other resources admit; -1 = none."""
    while True:
        line = first_of(sim, q, leaf, most)
        if line < 0 or (below_caps(q, leaf, q.lines[line]["gpus"]) and has_resources(q, line)):
            return line
        park(sim, q, line)


@kernel(lazy=True)
def serve(sim: Run, q: Queues) -> int:
    """Return START if the job ``job`` starts next, otherwise NOTHING."""
    m = q.memory
    free = unclaimed_gpus(sim, q)
    if free == 0:
        return NOTHING
    for leaf in range(1, len(q.tenants)):
        t = q.tenants[leaf]
        t["line"] = -1
        if t["open"] and not (m["policy"] == VOLCANO and is_overused(q, leaf)):
            t["line"] = find_job(sim, q, leaf, NO_LIMIT if m["strict"] else free)
            t["open"] = t["line"] >= 0
    leaf = first_tenant(q)
    if leaf < 0:
        return NOTHING
    line = q.tenants[leaf]["line"]
    if q.lines[line]["gpus"] > free:  # only if the order is strict
        return NOTHING
    m["job"] = q.waiters[q.lines[line]["begin"]]
    return START
