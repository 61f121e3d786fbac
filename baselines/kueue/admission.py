"""Kueue's cycle: the first job of each queue asks; those that fit start, others preempt, in order."""

from __future__ import annotations

from typing import Final

from gpusched_env.baselines.kueue.shares import share_of
from gpusched_env.baselines.kueue.victims import could_preempt, find_victims, gang_of, is_stopping
from gpusched_env.baselines.listed.lines import before
from gpusched_env.baselines.queues.state import NEVER, NOTHING, PREEMPT, START, Queues
from gpusched_env.baselines.queues.usage import available, below_caps, give, take
from gpusched_env.baselines.queues.waiting import first_of, park, park_for_now
from gpusched_env.core.handle import kernel
from gpusched_env.core.state import Run

GATHER, SERVE, EVICT, ENTER = range(4)  # stages of a cycle
FITS: Final = 1  # mode of an entry; otherwise it preempts


@kernel
def fits_now(sim: Run, q: Queues, leaf: int, gpus: int) -> bool:
    """Return whether GPUs are free and quota is available."""
    if gpus > sim.world["free_gpus"] - q.memory["held_back_gpus"]:
        return False
    return available(q, leaf) >= gpus and below_caps(q, leaf, gpus)


@kernel
def gather(sim: Run, q: Queues) -> None:
    """Let the first job of each queue ask; park jobs that neither fit nor can preempt."""
    m = q.memory
    preempts = m["within"] != NEVER or m["reclaim"] != NEVER
    m["entries"] = 0
    for leaf in range(1, len(q.tenants)):
        t = q.tenants[leaf]
        t["line"] = -1
        while t["open"] and t["line"] < 0:
            most = sim.world["gpus"] if preempts else sim.world["free_gpus"]
            line = first_of(sim, q, leaf, most)
            if line < 0:
                t["open"] = 0
                break
            gpus = q.lines[line]["gpus"]
            if fits_now(sim, q, leaf, gpus):
                t["mode"] = FITS
            else:
                row = q.waiters[q.lines[line]["begin"]]
                if not preempts or not could_preempt(q, leaf, row) or find_victims(sim, q, leaf, row) == 0:
                    if m["again"]:  # its chances may change without a release
                        park_for_now(q, line)
                    else:
                        park(sim, q, line)
                    continue
                t["mode"] = 0
            t["line"] = line
            t["borrowing"] = t["use"] + gpus > t["sub"]
            m["entries"] += 1


@kernel
def first_entry(q: Queues) -> int:
    """Return the leaf whose entry comes first: not borrowing, then priority, then age."""
    best = -1
    for leaf in range(1, len(q.tenants)):
        t = q.tenants[leaf]
        if t["line"] < 0:
            continue
        if best < 0 or t["borrowing"] < q.tenants[best]["borrowing"]:
            best = leaf
        elif t["borrowing"] == q.tenants[best]["borrowing"]:
            row = q.waiters[q.lines[t["line"]]["begin"]]
            other = q.waiters[q.lines[q.tenants[best]["line"]]["begin"]]
            if before(q.keys, q.ranks, row, other):
                best = leaf
    return best


@kernel
def fairest_entry(q: Queues) -> int:
    """Return the leaf whose entry wins from the root down: lowest share with its job, then priority, then age."""
    for node in range(len(q.tenants)):
        q.tenants[node]["best"] = node if q.tenants[node]["line"] >= 0 else -1
    for node in range(len(q.tenants) - 1, 0, -1):
        t = q.tenants[node]
        leaf = t["best"]
        if leaf < 0:
            continue
        line = q.tenants[leaf]["line"]
        gpus = q.lines[line]["gpus"]
        take(q, leaf, gpus)
        t["key"] = share_of(q, node)
        give(q, leaf, gpus)
        above = q.tenants[t["parent"]]
        other = above["best"]
        wins = other < 0 or t["key"] < above["key"]
        if not wins and t["key"] == above["key"]:
            row = q.waiters[q.lines[line]["begin"]]
            wins = before(q.keys, q.ranks, row, q.waiters[q.lines[q.tenants[other]["line"]]["begin"]])
        if wins:
            above["best"] = leaf
            above["key"] = t["key"]
    return q.tenants[0]["best"]


@kernel
def evict(sim: Run, q: Queues) -> bool:
    """Set ``job`` to the next victim that still runs; return False if there is none."""
    m = q.memory
    while m["at"] < m["targets"]:
        row = q.targets[m["at"]]
        m["at"] += 1
        if not is_stopping(sim, row):
            m["job"] = row
            return True
    return False


@kernel
def keep_for(sim: Run, q: Queues, leaf: int, gpus: int) -> None:
    """Keep quota and free GPUs for a job whose victims are in a checkpoint, until the next decision point."""
    stopping = 0
    for i in range(q.memory["targets"]):
        stopping += gang_of(q, q.targets[i])
    take(q, leaf, gpus)
    q.tenants[leaf]["kept"] += gpus
    q.memory["held_back_gpus"] += max(0, gpus - stopping)


@kernel(lazy=True)
def admit(sim: Run, q: Queues) -> int:
    """Return what to do next, NOTHING, START or PREEMPT; ``job`` is the row of the job."""
    m = q.memory
    while True:
        if m["stage"] == GATHER:
            gather(sim, q)
            if m["entries"] == 0:
                return NOTHING
            m["stage"] = SERVE
        elif m["stage"] == SERVE:
            if m["entries"] == 0:
                m["stage"] = GATHER
                continue
            leaf = fairest_entry(q) if m["by_share"] else first_entry(q)
            m["leaf"] = leaf
            t = q.tenants[leaf]
            line = t["line"]
            t["line"] = -1
            m["entries"] -= 1
            row = q.waiters[q.lines[line]["begin"]]
            if t["mode"] == FITS:
                if fits_now(sim, q, leaf, q.lines[line]["gpus"]):
                    m["job"] = row
                    return START
            else:
                m["targets"] = find_victims(sim, q, leaf, row)
                if m["targets"] > 0:
                    m["at"] = 0
                    t["cursor"] = line
                    m["stage"] = EVICT
        elif m["stage"] == EVICT:
            if evict(sim, q):
                return PREEMPT
            m["stage"] = ENTER
        else:
            m["stage"] = SERVE
            leaf = m["leaf"]
            line = q.tenants[leaf]["cursor"]
            gpus = q.lines[line]["gpus"]
            if fits_now(sim, q, leaf, gpus):
                m["job"] = q.waiters[q.lines[line]["begin"]]
                return START
            keep_for(sim, q, leaf, gpus)
            park_for_now(q, line)
