"""Kueue's cycle: the first job of each queue asks; those that fit start, others preempt, in order."""

from __future__ import annotations

from gpusched_env.baselines.kueue.fair_victims import fair_victims
from gpusched_env.baselines.kueue.shares import share_of
from gpusched_env.baselines.kueue.victims import (
    NO_VICTIMS,
    changes,
    classic_victims,
    could_preempt,
    count_jobs,
    gang_of,
    may_search,
    would_fit,
)
from gpusched_env.baselines.list_policies.lines import before
from gpusched_env.baselines.queues.state import ANY, Queues
from gpusched_env.baselines.queues.usage import admits, below_caps, end_reservations, give, lowest_fit, reserve, take
from gpusched_env.baselines.queues.waiting import (
    asks_rule,
    claim,
    first_claim,
    first_of,
    head_of,
    park,
    park_for_now,
    unclaimed_gpus,
)
from gpusched_env.core.driver import NOTHING, PREEMPT, START
from gpusched_env.core.handle import kernel
from gpusched_env.core.placement.placing import fits
from gpusched_env.core.state import Run

GATHER, SERVE, EVICT, ENTER = range(4)  # stages of a cycle
PREEMPTS, FITS, WAITS = range(3)  # modes of an entry


@kernel
def fits_now(sim: Run, q: Queues, leaf: int, line: int) -> bool:
    """Return whether GPUs are free for the first job of a line, and quota is available."""
    gpus = q.lines[line]["gpus"]
    if gpus > unclaimed_gpus(sim, q) or not admits(q, leaf, gpus):
        return False
    row = q.waiters[q.lines[line]["begin"]]
    return not asks_rule(sim, q, row) or fits(sim, sim.jobs[row]["job_class"], gpus, q.memory["rule"])


@kernel(lazy=True)
def find_victims(sim: Run, q: Queues, leaf: int, row: int) -> int:
    """Write the victims of a job to ``targets``; return their number: 0 if it fits after checkpoints, or NO_VICTIMS."""
    gpus = gang_of(q, row)
    count_jobs(q, q.stopping, q.memory["stopping"], -1)
    if would_fit(sim, q, leaf, gpus, 0, True):
        found = 0
    elif q.memory["by_share"]:
        found = fair_victims(sim, q, leaf, row)
    else:
        found = classic_victims(sim, q, leaf, row)
    count_jobs(q, q.targets, found, -1)
    q.memory["level"] = q.tenants[lowest_fit(q, leaf, gpus)]["height"]
    count_jobs(q, q.targets, found, 1)
    count_jobs(q, q.stopping, q.memory["stopping"], 1)
    return found


@kernel
def find_again(sim: Run, q: Queues, leaf: int, row: int) -> int:
    """Find victims as :func:`find_victims` does, and check that the job then fits beside what is reserved."""
    m = q.memory
    if m["reserved"] == 0:
        return find_victims(sim, q, leaf, row)
    for node in range(len(q.tenants)):
        give(q, node, q.tenants[node]["reserved"])
    found = find_victims(sim, q, leaf, row)
    for node in range(len(q.tenants)):
        take(q, node, q.tenants[node]["reserved"])
    count_jobs(q, q.stopping, q.memory["stopping"], -1)
    freed = count_jobs(q, q.targets, found, -1)
    fits = would_fit(sim, q, leaf, gang_of(q, row), freed, True)
    count_jobs(q, q.targets, found, 1)
    count_jobs(q, q.stopping, q.memory["stopping"], 1)
    return found if fits else NO_VICTIMS


@kernel
def reserve_for(q: Queues, leaf: int, line: int) -> None:
    """Reserve quota for the first job of ``leaf``, which neither fits nor has victims."""
    t = q.tenants[leaf]
    gpus = q.lines[line]["gpus"]
    most = t["sub"] - t["use"]
    if t["borrowing"] > 0:
        most += t["borrow"]
    reserve(q, leaf, max(0, min(gpus, most)))


@kernel
def add_waiting_heads(q: Queues) -> None:
    """Let also the first job of each queue that has to wait ask, so that it reserves quota (Kueue's StrictFIFO).

    If its mode is Preempt, but there are no victims, and if the queue cannot always reclaim (reclaimWithinCohort is not
    Any), it reserves quota against the jobs that come after it.
    """
    m = q.memory
    if m["entries"] == 0 or m["claiming"]:
        return
    for leaf in range(1, len(q.tenants)):
        t = q.tenants[leaf]
        if not t["strict"] or t["reclaim"] == ANY or t["waiting"] == 0 or t["line"] >= 0 or t["kept"] > 0:
            continue
        line = head_of(q, leaf)
        if line < 0:
            continue
        gpus = q.lines[line]["gpus"]
        if below_caps(q, leaf, gpus) and may_search(q, leaf, gpus):
            t["line"] = line
            t["mode"] = WAITS
            t["borrowing"] = q.tenants[lowest_fit(q, leaf, gpus)]["height"]
            m["entries"] += 1


@kernel
def gather(sim: Run, q: Queues) -> None:
    """Let the first job of each queue ask, or only jobs with claims; park jobs that neither fit nor can preempt."""
    m = q.memory
    end_reservations(q)
    m["entries"] = 0
    m["acted"] = 0
    m["borrowers"] = -1
    m["highest"] = -1.0
    m["searched"] = -1
    most = sim.world["gpus"] if m["preempts"] else sim.world["free_gpus"]
    for leaf in range(1, len(q.tenants)):
        t = q.tenants[leaf]
        t["line"] = -1
        while t["open"] and t["waiting"] > 0 and t["line"] < 0:
            line = first_claim(q, leaf) if m["claiming"] else first_of(sim, q, leaf, most)
            if line < 0:
                t["open"] = m["claiming"]
                break
            row = q.waiters[q.lines[line]["begin"]]
            gpus = q.lines[line]["gpus"]
            t["mode"] = FITS
            if fits_now(sim, q, leaf, line):
                t["borrowing"] = q.tenants[lowest_fit(q, leaf, gpus)]["height"]
            else:
                found = NO_VICTIMS
                m["spared"] = 0
                if m["claiming"] or (m["preempts"] and could_preempt(q, leaf, row)):
                    found = find_victims(sim, q, leaf, row)
                    m["targets"] = found
                    m["searched"] = leaf
                if found < 0 or (found == 0 and not m["claiming"]):
                    if m["spared"]:  # its chances may change without a release
                        park_for_now(q, line)
                    else:
                        park(sim, q, line)
                    continue
                t["mode"] = PREEMPTS
                t["borrowing"] = m["level"]
            t["line"] = line
            m["entries"] += 1
    add_waiting_heads(q)


@kernel
def first_entry(q: Queues) -> int:
    """Return the leaf whose entry comes first: by the level from which it borrows, then priority, then age."""
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
    if q.memory["entries"] == 1:
        return first_entry(q)
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
    """Set ``job`` to the next victim; return False if there is none."""
    m = q.memory
    if m["at"] == m["targets"]:
        return False
    m["job"] = q.targets[m["at"]]
    q.evicted[m["job"]] = changes(sim)
    q.tenants[q.owner[q.line_of[m["job"]]]]["evicted"] = changes(sim)
    m["at"] += 1
    return True


@kernel(lazy=True)
def serve(sim: Run, q: Queues) -> bool:
    """Serve the next entry; return whether its job, ``job``, starts. It may also reserve, or have victims."""
    m = q.memory
    leaf = fairest_entry(q) if m["by_share"] else first_entry(q)
    m["leaf"] = leaf
    t = q.tenants[leaf]
    line = t["line"]
    t["line"] = -1
    m["entries"] -= 1
    row = q.waiters[q.lines[line]["begin"]]
    if t["mode"] == WAITS:
        m["searched"] = -1
        reserve_for(q, leaf, line)
    elif t["mode"] == FITS:
        if fits_now(sim, q, leaf, line):
            m["searched"] = -1
            m["acted"] = 1
            m["job"] = row
            return True
    else:
        if m["searched"] != leaf:
            m["targets"] = find_again(sim, q, leaf, row)
        m["searched"] = -1
        if m["targets"] > 0 or (m["targets"] == 0 and m["claiming"]):
            m["at"] = 0
            m["acted"] = 1
            t["cursor"] = line
            m["stage"] = EVICT
    return False


@kernel
def enter(sim: Run, q: Queues) -> bool:
    """Return whether the job whose victims are preempted, ``job``, can start; otherwise it claims their GPUs."""
    line = q.tenants[q.memory["leaf"]]["cursor"]
    q.memory["job"] = q.waiters[q.lines[line]["begin"]]
    if fits_now(sim, q, q.memory["leaf"], line):
        return True
    claim(q, line)
    return False


@kernel(lazy=True)
def admit(sim: Run, q: Queues) -> int:
    """Return what to do next, NOTHING, START or PREEMPT; ``job`` is the row of the job."""
    m = q.memory
    while True:
        if m["stage"] == GATHER:
            gather(sim, q)
            if m["entries"] > 0:
                m["stage"] = SERVE
            elif m["claiming"]:
                m["claiming"] = 0
            else:
                return NOTHING
        elif m["stage"] == SERVE:
            if m["entries"] == 0:
                m["stage"] = GATHER
                if not (m["acted"] or m["claiming"]):  # nobody fits beside what is reserved
                    end_reservations(q)
                    return NOTHING
                continue
            if serve(sim, q):
                return START
        elif m["stage"] == EVICT:
            if evict(sim, q):
                return PREEMPT
            m["stage"] = ENTER
        else:
            m["stage"] = SERVE
            if enter(sim, q):
                return START
