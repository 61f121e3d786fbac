"""KAI's fair shares and its check of a reclaim, written from its source, in exact fractions; GPUs are the one resource.

kai-scheduler/KAI-Scheduler at 521a99aa, pkg/scheduler/plugins/proportion: resource_division.go (``fair_shares``),
reclaimable/reclaimable.go and reclaimable/strategies/strategies.go (``allows``). Queues have no limit and no priority,
and the plugin's arguments have their defaults. Two choices are ours (docs/volcano.md): the order of the listed queues
replaces their age, and the quota of an inner queue is at least the sum of those below it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from math import inf

from gpusched_env.problem.tenants import ROOT, Tenant


def divide(
    total: int, queues: Sequence[Tenant], quota: Mapping[str, int], request: Mapping[str, int]
) -> dict[str, int]:
    """FairShare of each of the queues of one parent (setResourceShare)."""
    fair = {q.name: min(quota[q.name], request[q.name]) for q in queues}  # setDeservedResource
    left = total - sum(fair.values())
    if left <= 0:
        return fair
    remaining: dict[str, Fraction] = {}
    while True:  # divideUpToFairShare
        unsatisfied = [q for q in queues if request[q.name] > fair[q.name]]
        weights = sum((Fraction(q.weight) for q in unsatisfied), Fraction(0))
        another, to_give = False, left
        for q in unsatisfied:
            asked, share = request[q.name] - fair[q.name], to_give * Fraction(q.weight) / weights
            if asked <= share:
                given = asked
                remaining.pop(q.name, None)
            else:
                given = int(share)
                if share > given:
                    remaining[q.name] = share - given
            fair[q.name] += given
            left -= given
            another = another or asked < share
        if not another or left == 0:
            break
    listed = [q.name for q in queues]
    for name in sorted(remaining, key=lambda name: (-remaining[name], listed.index(name)))[:left]:
        fair[name] += 1
    return fair


def fair_shares(tree: Sequence[Tenant], asked: Mapping[str, int], gpus: int) -> dict[str, int]:
    """FairShare of each queue, from the root down.

    Parameters
    ----------
    asked : GPUs that the jobs of each leaf hold or wait for [GPU]
    """
    request = {q.name: sum(asked.get(leaf.name, 0) for leaf in tree if q.name in path(tree, leaf.name)) for q in tree}
    quota, fair = quotas(tree), {ROOT: gpus}
    for parent in [ROOT, *(q.name for q in tree)]:  # parents are listed first
        below = [q for q in tree if q.parent == parent]
        if below:
            fair |= divide(fair[parent], below, quota, request)
    return fair


def quotas(tree: Sequence[Tenant]) -> dict[str, int]:
    """Quota of each queue, at least that of the queues below it together."""
    found: dict[str, int] = {}
    for q in reversed(tree):
        found[q.name] = max(q.quota, sum(found[below.name] for below in tree if below.parent == q.name))
    return found


def path(tree: Sequence[Tenant], leaf: str) -> list[str]:
    """The queue and those above it, from the top (getHierarchyPath)."""
    parents = {q.name: q.parent for q in tree}
    names = [leaf]
    while parents[names[0]] != ROOT:
        names.insert(0, parents[names[0]])
    return names


def allows(
    tree: Sequence[Tenant], held: Mapping[str, int], fair: Mapping[str, int], winner: str, gpus: int,
    victims: Sequence[tuple[str, int]],
) -> bool:  # fmt: skip
    """Whether a preemptible job of ``gpus`` GPUs of the leaf ``winner`` may reclaim the jobs ``victims``.

    Parameters
    ----------
    held : GPUs that each leaf holds before [GPU]
    victims : leaf and GPUs of each job, in the order in which they are taken
    """
    quota = quotas(tree)
    allocated = {q.name: sum(n for leaf, n in held.items() if q.name in path(tree, leaf)) for q in tree}
    if allocated[winner] + gpus > fair[winner]:  # CanReclaimResources
        return False
    remaining: dict[str, int] = {}
    for leaf, size in victims:  # reclaimResourcesFromReclaimees
        levels = zip(path(tree, winner), path(tree, leaf), strict=False)
        mine, theirs = next((mine, theirs) for mine, theirs in levels if mine != theirs)
        left = remaining.setdefault(theirs, allocated[theirs])
        maintains = left > max(quota[theirs], fair[theirs])
        guarantees = allocated[mine] + gpus <= quota[mine] and left > quota[theirs]
        if not (maintains or guarantees):
            return False
        for name in path(tree, leaf):
            remaining[name] = remaining.get(name, allocated[name]) - size
    parents = {q.name: q.parent for q in tree}
    for name in path(tree, winner):  # reclaimingQueuesRemainWithinBoundaries
        mine_after = saturation(remaining.get(name, allocated[name]) + gpus, fair[name])
        for sibling, left in remaining.items():
            if sibling != name and parents[sibling] == parents[name] and fair[sibling] > 0:
                theirs_after = saturation(left, fair[sibling])
                if mine_after > 1 and mine_after >= theirs_after:
                    return False
    return True


def saturation(allocated: int, fair: int) -> Fraction | float:
    """Allocated / fair share (fairShareSaturationRatio)."""
    if fair == 0:
        return inf if allocated > 0 else 0.0
    return Fraction(allocated, fair)
