"""Whom a job of Kueue preempts: as few jobs as a greedy walk finds, those of borrowers first.

Kueue 0.14, pkg/scheduler/preemption/classical. Jobs in a checkpoint count as gone already: during a search,
they have been subtracted. Victims are subtracted as they are taken, and counted again at the end of
the search, as they still run.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from gpusched_env.baselines.kueue.shares import (
    borrows_from,
    highest_share_of_all,
    is_above,
    keeps_order,
    lowest_share_with,
)
from gpusched_env.baselines.list_policies.lines import before
from gpusched_env.baselines.queues.state import ANY, NEVER, NEWER, Queues
from gpusched_env.baselines.queues.usage import admits, hold, lowest_fit
from gpusched_env.core.handle import helper, kernel
from gpusched_env.core.placement.placing import fits
from gpusched_env.core.placement.taking import FREE
from gpusched_env.core.planning import lend
from gpusched_env.core.state import Run

Array = np.ndarray

NO_VICTIMS: Final = -1  # result of a search: preemption does not help


@kernel
def gang_of(q: Queues, row: int) -> int:
    """Return the number of GPUs of a job [GPU]."""
    gpus: int = q.lines[q.line_of[row]]["gpus"]
    return gpus


@kernel
def changes(sim: Run) -> int:
    """Return the number of arrivals and completions so far."""
    count: int = sim.world["entered"] + sim.world["finished"]
    return count


@kernel
def may_spare(sim: Run, q: Queues, leaf: int) -> bool:
    """Return quickly False if no job of ``leaf`` is spared now."""
    t = q.tenants[leaf]
    spares: bool = t["started_s"] == sim.world["clock_s"] or t["evicted"] == changes(sim)
    return spares


@kernel
def is_spared(sim: Run, q: Queues, row: int) -> bool:
    """Return whether a job must not be preempted now: it has just started, or nothing has changed since its last stop.

    Otherwise jobs could preempt each other in circles without any progress.
    """
    started_now = sim.replicas[sim.jobs[row]["replica"]]["start_s"] == sim.world["clock_s"]
    if started_now or q.evicted[row] == changes(sim):
        q.memory["spared"] = 1
        return True
    return False


@kernel
def may_preempt_own(q: Queues, leaf: int, row: int, victim: int) -> bool:
    """Return whether a job may preempt another one of its queue, ``leaf``."""
    within = q.tenants[leaf]["within"]
    own, other = q.priorities[row], q.priorities[victim]
    return within != NEVER and (other < own or (within == NEWER and other == own and victim > row))


@kernel
def next_own(sim: Run, q: Queues, leaf: int, row: int, at: int) -> int:
    """Return the index of the next candidate in the queue of the job itself, from ``at`` downwards; -1 = none."""
    while at >= 0:
        victim = q.runners[q.tenants[leaf]["runners"] + at]
        if q.priorities[victim] > q.priorities[row]:
            return -1
        if may_preempt_own(q, leaf, row, victim) and not is_spared(sim, q, victim):
            return at
        at -= 1
    return -1


@kernel
def restart_search(q: Queues) -> None:
    """Set ``next`` of each leaf to its first candidate."""
    for node in range(len(q.tenants)):
        q.tenants[node]["next"] = q.tenants[node]["running"] - 1


@kernel
def next_borrower(sim: Run, q: Queues, leaf: int, fit: int, outside: bool, below: float, highest: float) -> int:
    """Return the other leaf with the next candidate; -1 = none. Only leaves that borrow have candidates.

    ``outside`` : only leaves that are not below ``fit``, the lowest tenant whose quota the job fits into, else only
    those. Candidates have a priority less than ``below``, and not above ``highest``.
    """
    while True:
        best = -1
        first = -1
        for node in range(1, len(q.tenants)):
            t = q.tenants[node]
            if t["next"] < 0 or node == leaf or t["use"] <= t["sub"] or is_above(q, fit, node) == outside:
                continue
            victim = q.runners[t["runners"] + t["next"]]
            if q.priorities[victim] >= below or q.priorities[victim] > highest:
                continue
            if (best < 0 or before(q.priorities, q.latest, victim, first)) and borrows_from(q, node, leaf):
                best = node
                first = victim
        if best < 0 or not is_spared(sim, q, first):
            return best
        q.tenants[best]["next"] -= 1


@kernel
def has_place(sim: Run, q: Queues, gpus: int, freed: int) -> bool:
    """Return whether the placement rule finds a place for the job of the search, while ``freed`` held GPUs are lent."""
    sim.world["free_gpus"] += freed
    found = fits(sim, q.memory["asks"], gpus, q.memory["rule"])
    sim.world["free_gpus"] -= freed
    return found


@kernel
def offer(sim: Run, q: Queues, row: int, free: bool) -> None:
    """Let the GPUs of a job seem free to the placement rule, or end this, if the search asks the rule."""
    if q.memory["asks"] >= 0:
        number = sim.jobs[row]["replica"]
        lend(sim, number, FREE if free else number)


@kernel
def would_fit(sim: Run, q: Queues, leaf: int, gpus: int, freed: int, borrowing: bool) -> bool:
    """Return whether a job fits once all jobs in a checkpoint, and its victims with ``freed`` GPUs, are gone."""
    t = q.tenants[leaf]
    if not borrowing and t["use"] + gpus > t["sub"]:
        return False
    freed += sim.world["checkpointing_gpus"]
    if gpus > sim.world["free_gpus"] - q.memory["claimed_gpus"] + freed or not admits(q, leaf, gpus):
        return False
    return q.memory["asks"] < 0 or has_place(sim, q, gpus, freed)


@kernel
def take_nobody(q: Queues) -> None:
    """Begin a search: there are no victims yet, and the order of tenants does not matter."""
    q.memory["reclaims"] = 0
    q.memory["taken"] = 0
    q.memory["freed"] = 0


@kernel
def take_victim(sim: Run, q: Queues, victim: int) -> None:
    """Append a job to the targets and subtract it from the usage."""
    m = q.memory
    offer(sim, q, victim, True)
    q.targets[m["taken"]] = victim
    m["taken"] += 1
    m["freed"] += gang_of(q, victim)
    hold(q, q.owner[q.line_of[victim]], -gang_of(q, victim))


@helper
def count_jobs(q: Queues, rows: Array, count: int, sign: int) -> int:
    """Subtract ``rows[:count]`` from the usage (``sign`` = -1), or add them again (1); return their GPUs."""
    freed = 0
    for i in range(count):
        gpus = gang_of(q, rows[i])
        hold(q, q.owner[q.line_of[rows[i]]], sign * gpus)
        freed += gpus
    return freed


@kernel
def put_back(sim: Run, q: Queues, leaf: int, gpus: int, borrowing: bool, fits: bool) -> int:
    """Drop those of the victims taken that are not needed, latest first; return how many are left.

    The usage of all of them is counted again, as they still run. The result is NO_VICTIMS if the job does not fit. A
    job of KAI that ``reclaims`` must also keep the order of tenants.
    """
    taken = q.memory["taken"]
    freed = q.memory["freed"]
    kept = taken
    if fits:
        for i in range(taken - 2, -1, -1):
            victim = q.targets[i]
            owner = q.owner[q.line_of[victim]]
            size = gang_of(q, victim)
            hold(q, owner, size)
            offer(sim, q, victim, False)
            if would_fit(sim, q, leaf, gpus, freed - size, borrowing) and keeps_order(q, leaf, gpus):
                freed -= size
                kept -= 1
                for k in range(i, kept):
                    q.targets[k] = q.targets[k + 1]
            else:
                hold(q, owner, -size)
                offer(sim, q, victim, True)
    count_jobs(q, q.targets, kept, 1)
    for i in range(kept):
        offer(sim, q, q.targets[i], False)
    return kept if fits else NO_VICTIMS


@kernel
def own_victims(sim: Run, q: Queues, leaf: int, row: int, borrowing: bool, fits: bool) -> int:
    """Add victims of the job's own queue until it fits, and end the search as :func:`put_back` does."""
    t = q.tenants[leaf]
    gpus = gang_of(q, row)
    at = next_own(sim, q, leaf, row, t["running"] - 1)
    while at >= 0 and not fits:
        take_victim(sim, q, q.runners[t["runners"] + at])
        fits = would_fit(sim, q, leaf, gpus, q.memory["freed"], borrowing)
        at = next_own(sim, q, leaf, row, at - 1)
    return put_back(sim, q, leaf, gpus, borrowing, fits)


@kernel
def own_gpus(sim: Run, q: Queues, leaf: int, row: int) -> int:
    """Return the GPUs of all candidates in the queue of the job itself [GPU]."""
    gpus = 0
    at = next_own(sim, q, leaf, row, q.tenants[leaf]["running"] - 1)
    while at >= 0:
        gpus += gang_of(q, q.runners[q.tenants[leaf]["runners"] + at])
        at = next_own(sim, q, leaf, row, at - 1)
    return gpus


@kernel
def may_search(q: Queues, leaf: int, gpus: int) -> bool:
    """Return whether a job of ``leaf`` may have victims at all: whether Kueue's mode of it is Preempt.

    It must fit into the quota of its queue, or of a tenant below the root, unless borrowers may preempt in other
    queues.
    """
    t = q.tenants[leaf]
    if t["borrows"] or (q.memory["by_share"] and t["reclaim"] != NEVER) or gpus <= t["sub"]:
        return True
    return lowest_fit(q, leaf, gpus) > 0


@kernel
def priority_to_reclaim(q: Queues, leaf: int, row: int) -> float:
    """Return the priority below which jobs of other queues may be victims of a job of ``leaf``; - inf = none may."""
    if q.tenants[leaf]["reclaim"] == NEVER:
        return -math.inf
    if q.tenants[leaf]["reclaim"] == ANY:
        return math.inf
    below: float = q.priorities[row]
    return below


@kernel
def walk_candidates(sim: Run, q: Queues, leaf: int, row: int, fit: int, borrowing: bool) -> int:
    """Take victims until the job fits, then put back those that are not needed; return their number, or NO_VICTIMS.

    First come jobs outside of ``fit``, whose quota they use; then jobs of other queues, only those that
    borrowWithinCohort allows if the job may borrow (``borrowing``); then jobs of its own queue.
    """
    m = q.memory
    t = q.tenants[leaf]
    gpus = gang_of(q, row)
    if not borrowing and t["use"] + gpus > t["sub"] + own_gpus(sim, q, leaf, row):
        return NO_VICTIMS  # whatever the other queues give
    below = priority_to_reclaim(q, leaf, row)
    highest = math.inf
    fits = False
    outside = True
    take_nobody(q)
    restart_search(q)
    while not fits:
        node = -1 if outside and fit == 0 else next_borrower(sim, q, leaf, fit, outside, below, highest)
        if node < 0:
            if not outside or (borrowing and not t["borrows"]):
                break
            outside = False
            if borrowing:
                below = min(below, q.priorities[row])
                highest = t["threshold"]
            continue
        other = q.tenants[node]
        victim = q.runners[other["runners"] + other["next"]]
        other["next"] -= 1
        take_victim(sim, q, victim)
        fits = would_fit(sim, q, leaf, gpus, m["freed"], borrowing)
    return own_victims(sim, q, leaf, row, borrowing, fits)


@kernel
def classic_victims(sim: Run, q: Queues, leaf: int, row: int) -> int:
    """Write the victims of a job to ``targets``; return their number, or NO_VICTIMS."""
    t = q.tenants[leaf]
    if not may_search(q, leaf, gang_of(q, row)):
        return NO_VICTIMS
    fit = lowest_fit(q, leaf, gang_of(q, row))
    below = priority_to_reclaim(q, leaf, row)
    restart_search(q)
    has_advantage = fit > 0 and next_borrower(sim, q, leaf, fit, True, below, math.inf) >= 0
    has_others = has_advantage or next_borrower(sim, q, leaf, fit, False, below, math.inf) >= 0
    if not has_others or (not t["borrows"] and t["use"] >= t["sub"]):
        return walk_candidates(sim, q, leaf, row, fit, True)
    borrowing = has_advantage or t["borrows"] > 0  # in the first of two attempts
    found = walk_candidates(sim, q, leaf, row, fit, borrowing)
    if found == NO_VICTIMS and borrowing:
        restart_search(q)
        if next_borrower(sim, q, leaf, fit, False, below, math.inf) < 0:
            return NO_VICTIMS  # without borrowing there are no other candidates
    return found if found != NO_VICTIMS else walk_candidates(sim, q, leaf, row, fit, not borrowing)


@kernel
def count_borrowers(q: Queues) -> int:
    """Return the number of leaves that use more than their quota."""
    borrowers = 0
    for leaf in range(1, len(q.tenants)):
        borrowers += q.tenants[leaf]["lines"] > 0 and q.tenants[leaf]["use"] > q.tenants[leaf]["sub"]
    return borrowers


@kernel
def could_preempt(q: Queues, leaf: int, row: int) -> bool:
    """Return quickly False if a job of ``leaf`` can have no victim."""
    m = q.memory
    t = q.tenants[leaf]
    if t["within"] != NEVER and t["running"] > 0:
        least, own = q.priorities[q.runners[t["runners"] + t["running"] - 1]], q.priorities[row]
        if least < own or (least == own and t["within"] == NEWER):
            return True
    if t["reclaim"] == NEVER:
        return False
    if not (t["borrows"] or m["by_share"]) and t["use"] >= t["sub"] and lowest_fit(q, leaf, gang_of(q, row)) == 0:
        return False
    borrows: int = t["use"] > t["sub"]
    if m["borrowers"] < 0:
        m["borrowers"] = count_borrowers(q)
    if m["borrowers"] <= borrows:
        return False
    if not m["by_share"] or m["stopping"] > 0:
        return True
    # Jobs of a tenant are preempted only if its share is at least that of the preemptor. Most searches end here.
    if m["highest"] < 0.0:
        m["highest"] = highest_share_of_all(q)
    fair: bool = lowest_share_with(q, leaf, gang_of(q, row)) <= m["highest"]
    return fair
