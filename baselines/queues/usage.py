"""How many GPUs of its quota, and of those of others, each tenant uses.

A tenant uses first the part of its quota that it does not lend. The rest counts at the tenant above (Kueue's
resource_node.go). The unit of all amounts is GPU.
"""

from __future__ import annotations

from gpusched_env.baselines.queues.state import KUEUE, Queues
from gpusched_env.core.handle import kernel


@kernel
def take(q: Queues, leaf: int, gpus: int) -> None:
    """Count GPUs of a job of ``leaf`` as used."""
    node = leaf
    while node >= 0 and gpus > 0:
        t = q.tenants[node]
        own = max(0, t["guar"] - t["use"])
        t["use"] += gpus
        gpus -= own
        node = t["parent"]


@kernel
def give(q: Queues, leaf: int, gpus: int) -> None:
    """Undo :func:`take`."""
    node = leaf
    while node >= 0 and gpus > 0:
        t = q.tenants[node]
        above = max(0, t["use"] - t["guar"])
        t["use"] -= gpus
        gpus = min(gpus, above)
        node = t["parent"]


@kernel
def available(q: Queues, leaf: int) -> int:
    """Return how many more GPUs the jobs of ``leaf`` may take, by the quotas and the limits of borrowing."""
    # Each tenant above bounds what may be taken through it: own part + min(what the tenant above has, what it borrows).
    free = 0  # own parts on the way up
    least = 1 << 60
    node = leaf
    while True:
        t = q.tenants[node]
        if t["parent"] < 0:
            return min(least, free + t["sub"] - t["use"])
        free += max(0, t["guar"] - t["use"])
        above = max(0, t["use"] - t["guar"])
        least = min(least, free + t["sub"] - t["guar"] - above + t["borrow"])
        node = t["parent"]


@kernel
def lowest_fit(q: Queues, leaf: int, gpus: int) -> int:
    """Return the lowest tenant, from ``leaf`` upwards, with ``gpus`` GPUs of its quota left; 0 = the root, or none."""
    node = leaf
    while q.tenants[node]["parent"] >= 0:
        t = q.tenants[node]
        if t["use"] + gpus <= t["sub"]:
            break
        gpus -= max(0, t["guar"] - t["use"])
        node = t["parent"]
    return node


@kernel
def reserve(q: Queues, leaf: int, gpus: int) -> None:
    """Count GPUs as used by ``leaf`` for the rest of a cycle."""
    take(q, leaf, gpus)
    q.tenants[leaf]["reserved"] += gpus
    q.memory["reserved"] += gpus


@kernel
def end_reservations(q: Queues) -> None:
    """Give back all that is reserved."""
    if q.memory["reserved"] > 0:
        for node in range(len(q.tenants)):
            give(q, node, q.tenants[node]["reserved"])
            q.tenants[node]["reserved"] = 0
        q.memory["reserved"] = 0


@kernel
def below_caps(q: Queues, leaf: int, gpus: int) -> bool:
    """Return whether ``leaf`` may hold ``gpus`` more GPUs by the field ``most`` of it and of the tenants above."""
    node = leaf
    while node >= 0:
        if q.tenants[node]["held"] + gpus > q.tenants[node]["most"]:
            return False
        node = q.tenants[node]["parent"]
    return True


@kernel
def admits(q: Queues, leaf: int, gpus: int) -> bool:
    """Return whether the jobs of ``leaf`` may take ``gpus`` more GPUs, by their caps and, with Kueue, by the quotas."""
    return below_caps(q, leaf, gpus) and (q.memory["policy"] != KUEUE or available(q, leaf) >= gpus)


@kernel
def hold(q: Queues, leaf: int, gpus: int) -> None:
    """Count GPUs that the jobs of ``leaf`` get, or give back if ``gpus`` < 0."""
    if gpus > 0:
        take(q, leaf, gpus)
    else:
        give(q, leaf, -gpus)
    node = leaf
    while node >= 0:
        q.tenants[node]["held"] += gpus
        node = q.tenants[node]["parent"]


@kernel
def ask(q: Queues, leaf: int, jobs: int, gpus: int) -> None:
    """Count waiting jobs of ``leaf``; both numbers are negative if jobs start."""
    node = leaf
    while node >= 0:
        q.tenants[node]["waiting"] += jobs
        q.tenants[node]["asks"] += gpus
        node = q.tenants[node]["parent"]


@kernel
def spend(q: Queues, line: int, jobs: int) -> None:
    """Count the other resources that jobs of a line get, or give back if ``jobs`` < 0."""
    for r in range(len(q.amounts)):
        node = q.owner[line]
        while node >= 0:
            q.spent[node, r] += jobs * q.needs[line, r]
            node = q.tenants[node]["parent"]


@kernel
def has_resources(q: Queues, line: int) -> bool:
    """Return whether the cluster has what a job of a line needs besides GPUs."""
    for r in range(len(q.amounts)):  # noqa: SIM110 - generators are not compiled
        if q.spent[0, r] + q.needs[line, r] > q.amounts[r]:
            return False
    return True


@kernel
def dominant(q: Queues, node: int) -> float:
    """Return the dominant share of a tenant, times the GPUs of the cluster."""
    most = float(q.tenants[node]["held"])
    for r in range(len(q.amounts)):
        most = max(most, float(q.spent[node, r]) * q.memory["gpus"] / q.amounts[r])  # bytes x GPUs exceed int64
    return most
