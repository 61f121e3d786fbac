"""Whom a job of Kueue preempts: as few jobs as a greedy walk finds, those of borrowers first.

Kueue's pkg/scheduler/preemption. A job that has started at the present time cannot be preempted (the simulator's rule).
A job in a checkpoint is a victim already, and comes first.
"""

from __future__ import annotations

import math
from typing import Final

from gpusched_env.baselines.kueue.shares import borrows_from, branch, share_of
from gpusched_env.baselines.listed.lines import sort_rows
from gpusched_env.baselines.queues.state import ANY, NEVER, NEWER, Queues
from gpusched_env.baselines.queues.usage import available, below_caps, give, take
from gpusched_env.core.handle import kernel
from gpusched_env.core.state import CHECKPOINTING, Run

UNTRIED, RETRY, TAKEN = range(3)  # states of a candidate
EVICTED, OTHERS, OWN = range(3)  # groups of candidates, in the order in which they are tried
NO_THRESHOLD: Final = math.inf


@kernel
def is_stopping(sim: Run, row: int) -> bool:
    """Return whether a running job is in a checkpoint."""
    phase: bool = sim.replicas[sim.jobs[row]["replica"]]["phase"] == CHECKPOINTING
    return phase


@kernel
def may_preempt(q: Queues, leaf: int, row: int, victim: int) -> bool:
    """Return whether the policies allow a job of ``leaf`` to preempt ``victim``."""
    m = q.memory
    own, other = q.priorities[row], q.priorities[victim]
    if q.owner[q.line_of[victim]] == leaf:
        if m["within"] == NEVER:
            return False
        return other < own or (m["within"] == NEWER and other == own and victim > row)
    if m["reclaim"] == NEVER:
        return False
    return (m["reclaim"] == ANY or other < own) and borrows_from(q, q.owner[q.line_of[victim]], leaf)


@kernel
def list_candidates(sim: Run, q: Queues, leaf: int, row: int) -> int:
    """Write the candidates to ``victims``, in order of priority and latest start first; return their number."""
    count = 0
    floor = math.inf
    for i in range(sim.world["running"]):
        r = sim.replicas[sim.running[i]]
        victim = r["job"]
        if q.owner[q.line_of[victim]] == leaf:
            floor = min(floor, q.priorities[victim])
        if not may_preempt(q, leaf, row, victim):
            continue
        if r["start_s"] == sim.world["clock_s"]:
            q.memory["again"] = 1
            continue
        q.latest[victim] = -r["sequence"]
        q.victims[count] = victim
        count += 1
    q.tenants[leaf]["floor"] = floor
    sort_rows(q.victims, q.scratch, q.priorities, q.latest, count)
    for i in range(count):
        q.states[i] = UNTRIED
    return count


@kernel
def group_of(sim: Run, q: Queues, leaf: int, victim: int) -> int:
    """Return the group of a candidate."""
    if is_stopping(sim, victim):
        return EVICTED
    return OWN if q.owner[q.line_of[victim]] == leaf else OTHERS


@kernel
def gang_of(q: Queues, row: int) -> int:
    """Return the number of GPUs of a job [GPU]."""
    gpus: int = q.lines[q.line_of[row]]["gpus"]
    return gpus


@kernel
def would_fit(sim: Run, q: Queues, leaf: int, gpus: int, freed: int, freed_own: int, borrowing: bool) -> bool:
    """Return whether a job fits once its victims, which hold ``freed`` GPUs, are gone."""
    t = q.tenants[leaf]
    if not borrowing and t["use"] + gpus > t["sub"]:
        return False
    if gpus > sim.world["free_gpus"] - q.memory["held_back_gpus"] + freed:
        return False
    return available(q, leaf) >= gpus and below_caps(q, leaf, gpus - freed_own)


@kernel
def put_back(
    sim: Run, q: Queues, leaf: int, gpus: int, taken: int, freed: int, freed_own: int, borrowing: bool, fits: bool
) -> int:
    """Drop those of ``targets[:taken]`` that are not needed, latest first; return how many are left.

    The usage of all of them is counted again, as they still run. The result is 0 if the job does not fit.
    """
    kept = taken
    if fits:
        for i in range(taken - 2, -1, -1):
            victim = q.targets[i]
            if is_stopping(sim, victim):
                continue
            owner = q.owner[q.line_of[victim]]
            size = gang_of(q, victim)
            own = size * (owner == leaf)
            take(q, owner, size)
            if would_fit(sim, q, leaf, gpus, freed - size, freed_own - own, borrowing):
                freed -= size
                freed_own -= own
                for j in range(i, kept - 1):
                    q.targets[j] = q.targets[j + 1]
                kept -= 1
            else:
                give(q, owner, size)
    for i in range(kept):
        take(q, q.owner[q.line_of[q.targets[i]]], gang_of(q, q.targets[i]))
    return kept if fits else 0


@kernel
def walk_candidates(
    sim: Run, q: Queues, leaf: int, row: int, count: int, first: int, borrowing: bool, threshold: float
) -> int:
    """Take victims until the job fits, then put back those that are not needed; return their number, 0 = it does not.

    Parameters
    ----------
    first : first group that may be taken, besides those in a checkpoint
    borrowing : whether the job may borrow
    threshold : other queues' jobs of this priority or above are taken only if the job does not borrow
    """
    gpus = gang_of(q, row)
    taken = 0
    freed = 0
    freed_own = 0
    fits = False
    for group in range(3):
        if fits:
            break
        for i in range(count):
            victim = q.victims[i]
            if group_of(sim, q, leaf, victim) != group:
                continue
            owner = q.owner[q.line_of[victim]]
            if owner != leaf:
                if first == OWN or not borrows_from(q, owner, leaf):
                    continue
                if q.priorities[victim] >= threshold:
                    borrowing = False
            give(q, owner, gang_of(q, victim))
            q.targets[taken] = victim
            taken += 1
            freed += gang_of(q, victim)
            freed_own += gang_of(q, victim) * (owner == leaf)
            if would_fit(sim, q, leaf, gpus, freed, freed_own, borrowing):
                fits = True
                break
    return put_back(sim, q, leaf, gpus, taken, freed, freed_own, borrowing, fits)


@kernel
def classic_victims(sim: Run, q: Queues, leaf: int, row: int) -> int:
    """Write the victims of a job to ``targets``; return their number, 0 = preemption does not help."""
    m = q.memory
    t = q.tenants[leaf]
    if gang_of(q, row) > t["sub"] and not m["borrows"]:
        return 0
    count = list_candidates(sim, q, leaf, row)
    others = False
    for i in range(count):
        others = others or q.owner[q.line_of[q.victims[i]]] != leaf
    if count == 0:
        return 0
    if not others:
        return walk_candidates(sim, q, leaf, row, count, OWN, True, NO_THRESHOLD)
    below = t["use"] < t["sub"]
    if m["borrows"]:
        threshold = min(q.priorities[row], m["threshold"])
        if not below:
            kept = 0
            for i in range(count):
                victim = q.victims[i]
                if q.owner[q.line_of[victim]] == leaf or q.priorities[victim] < threshold:
                    q.victims[kept] = victim
                    kept += 1
            count = kept
        return walk_candidates(sim, q, leaf, row, count, OTHERS, True, threshold)
    if below:
        found = walk_candidates(sim, q, leaf, row, count, OTHERS, False, NO_THRESHOLD)
        if found > 0:
            return found
    return walk_candidates(sim, q, leaf, row, count, OWN, True, NO_THRESHOLD)


@kernel
def next_of(sim: Run, q: Queues, leaf: int, count: int, last_state: int) -> int:
    """Return the first candidate of ``leaf`` whose state is ``last_state`` at most, those in a checkpoint first."""
    found = -1
    for i in range(count):
        if q.states[i] <= last_state and q.owner[q.line_of[q.victims[i]]] == leaf:
            if is_stopping(sim, q.victims[i]):
                return i
            if found < 0:
                found = i
    return found


@kernel
def highest_share(q: Queues) -> int:
    """Return the leaf with candidates left that a walk from the root along the highest shares finds; -1 = none."""
    for node in range(len(q.tenants)):
        q.tenants[node]["best"] = node if q.tenants[node]["left"] > 0 else -1
    for node in range(len(q.tenants) - 1, 0, -1):
        t = q.tenants[node]
        if t["best"] < 0:
            continue
        t["key"] = share_of(q, node)
        above = q.tenants[t["parent"]]
        # ties: the tenant of the lowest row, which is visited last
        if above["best"] < 0 or t["key"] >= above["key"]:
            above["best"] = t["best"]
            above["key"] = t["key"]
    return q.tenants[0]["best"]


@kernel
def fair_victims(sim: Run, q: Queues, leaf: int, row: int) -> int:
    """Write the victims of a job under fair sharing to ``targets``; return their number, 0 = preemption does not help.

    First the strategy LessThanOrEqualToFinalShare, then, if it is on, LessThanInitialShare.
    """
    gpus = gang_of(q, row)
    count = list_candidates(sim, q, leaf, row)
    taken = 0
    freed = 0
    freed_own = 0
    fits = False
    take(q, leaf, gpus)  # shares are those with the job
    for node in range(len(q.tenants)):
        q.tenants[node]["left"] = 0
        q.tenants[node]["later"] = 0
    for i in range(count):
        q.tenants[q.owner[q.line_of[q.victims[i]]]]["left"] += 1
    for strategy in range(1 + q.memory["initial"]):
        if strategy == 1:
            for node in range(len(q.tenants)):
                q.tenants[node]["left"] = q.tenants[node]["later"]
        while not fits:
            owner = highest_share(q)
            if owner < 0:
                break
            t = q.tenants[owner]
            mine, before = 0.0, 0.0
            if owner != leaf:
                if not borrows_from(q, owner, leaf):
                    t["left"] = 0
                    t["later"] = 0
                    continue
                mine = share_of(q, branch(q, leaf, owner))
                before = share_of(q, branch(q, owner, leaf))
                if mine > before or (strategy == 1 and mine == before):  # no job of this queue passes the test
                    t["later"] += t["left"]
                    t["left"] = 0
                    continue
            i = next_of(sim, q, owner, count, UNTRIED if strategy == 0 else RETRY)
            victim = q.victims[i]
            size = gang_of(q, victim)
            t["left"] -= 1
            q.states[i] = TAKEN
            if owner != leaf and strategy == 0:
                give(q, owner, size)
                if mine > share_of(q, branch(q, owner, leaf)):
                    q.states[i] = RETRY
                    t["later"] += 1
                take(q, owner, size)
            if q.states[i] == TAKEN:
                give(q, owner, size)
                q.targets[taken] = victim
                taken += 1
                freed += size
                freed_own += size * (owner == leaf)
                give(q, leaf, gpus)
                fits = would_fit(sim, q, leaf, gpus, freed, freed_own, True)
                take(q, leaf, gpus)
    give(q, leaf, gpus)
    return put_back(sim, q, leaf, gpus, taken, freed, freed_own, True, fits)


@kernel
def could_preempt(q: Queues, leaf: int, row: int) -> bool:
    """Return quickly False if a job of ``leaf`` can have no victim."""
    m = q.memory
    floor, own = q.tenants[leaf]["floor"], q.priorities[row]
    if (floor < own and m["within"] != NEVER) or (floor == own and m["within"] == NEWER):
        return True
    if m["reclaim"] == NEVER:
        return False
    if not (m["borrows"] or m["by_share"]) and q.tenants[leaf]["use"] >= q.tenants[leaf]["sub"]:
        return False
    for node in range(1, len(q.tenants)):
        t = q.tenants[node]
        if node != leaf and t["lines"] > 0 and t["use"] > t["sub"]:
            return True
    return False


@kernel(lazy=True)
def find_victims(sim: Run, q: Queues, leaf: int, row: int) -> int:
    """Write the victims of a job of ``leaf`` to ``targets``; return their number."""
    if q.memory["by_share"]:
        return fair_victims(sim, q, leaf, row)
    return classic_victims(sim, q, leaf, row)
