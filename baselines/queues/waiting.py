"""The waiting jobs of each leaf, in a line for each gang size and for the nodes that the jobs may use.

Where other resources count, there is also a line for each of the needs. If the first job of a line finds no place, no
other job of it does: the line is parked until GPUs come free or another job becomes its first; with Volcano and KAI
also until a job arrives, which changes what tenants deserve.
A job whose victims are in a checkpoint claims their GPUs. Jobs with claims are served first at each decision point,
until their victims have gone; otherwise jobs could preempt each other in circles.
"""

from __future__ import annotations

from gpusched_env.baselines.list_policies.lines import before, join_line, leave_line
from gpusched_env.baselines.queues.runners import add_runner, add_stopping, drop_runner, drop_stopping, forget_runners
from gpusched_env.baselines.queues.state import KAI, KUEUE, VOLCANO, Queues
from gpusched_env.baselines.queues.usage import ask, hold, spend, take
from gpusched_env.core.driver import NOTHING, START
from gpusched_env.core.handle import helper, kernel
from gpusched_env.core.placement.taking import in_parts
from gpusched_env.core.state import CHECKPOINTING, REFUSED, WAITING, Run
from gpusched_env.event_log import ARRIVAL, COMPLETE, PREEMPT, RELEASE, RESUME
from gpusched_env.event_log import START as STARTED


@kernel
def join(q: Queues, row: int) -> None:
    """Insert a waiting job into its line."""
    line = q.line_of[row]
    leaf = q.owner[line]
    join_line(q.lines, q.waiters, q.keys, q.ranks, line, row)
    ask(q, leaf, 1, q.lines[line]["gpus"])
    q.tenants[leaf]["open"] = 1


@kernel
def follow(sim: Run, q: Queues) -> None:
    """Follow the records of the log that are new."""
    m = q.memory
    for i in range(m["read"], sim.world["events"]):
        event = sim.events[i]
        kind = event["kind"]
        row = event["job"]
        if row < 0:
            continue
        line = q.line_of[row]
        leaf = q.owner[line]
        gpus = q.lines[line]["gpus"]
        if kind == ARRIVAL:
            if sim.jobs[row]["status"] != REFUSED:  # else it was cancelled at once
                join(q, row)
        elif kind in (STARTED, RESUME):
            leave_line(q.lines, q.waiters, q.keys, q.ranks, line)
            ask(q, leaf, -1, -gpus)
            hold(q, leaf, gpus)
            spend(q, line, 1)
            if m["preempts"]:
                add_runner(sim, q, row)
        elif kind == PREEMPT:
            drop_runner(q, row)
            add_stopping(q, row)
        elif kind == COMPLETE:
            hold(q, leaf, -gpus)
            spend(q, line, -1)
            if m["preempts"]:
                drop_runner(q, row)
        elif kind == RELEASE:
            hold(q, leaf, -gpus)
            spend(q, line, -1)
            drop_stopping(q, row)
            join(q, row)
    m["read"] = sim.world["events"]


@kernel
def recount(sim: Run, q: Queues) -> None:
    """Count everything from the state of the run; the result is that of following each event."""
    for node in range(len(q.tenants)):
        t = q.tenants[node]
        t["use"] = 0
        t["held"] = 0
        t["asks"] = 0
        t["waiting"] = 0
        for r in range(len(q.amounts)):
            q.spent[node, r] = 0
    forget_runners(q)
    for line in range(len(q.lines)):
        q.lines[line]["count"] = 0
    first = sim.world["first_waiting"]
    for i in range(first, first + sim.world["waiting"]):
        join(q, sim.waiting[i])
    for i in range(sim.world["running"]):
        r = sim.replicas[sim.running[i]]
        line = q.line_of[r["job"]]
        hold(q, q.owner[line], q.lines[line]["gpus"])
        spend(q, line, 1)
        if r["phase"] == CHECKPOINTING:
            add_stopping(q, r["job"])
        elif q.memory["preempts"]:
            add_runner(sim, q, r["job"])
    for node in range(len(q.tenants)):
        if q.tenants[node]["kept"] > 0:
            hold(q, node, q.tenants[node]["kept"])
        take(q, node, q.tenants[node]["reserved"])
    q.memory["read"] = sim.world["events"]


@helper
def begin_point(sim: Run, q: Queues) -> None:
    """Begin a decision point."""
    m = q.memory
    m["point"] += 1
    m["stage"] = 0
    m["entries"] = 0
    m["action"] = NOTHING
    if m["again"]:
        m["again"] = 0
        m["returns"] = -1
    end_claims(q)
    open_all(sim, q)


@helper
def chances(sim: Run, q: Queues) -> int:
    """Return a number that grows whenever a job that found no place may find one."""
    w = sim.world
    return w["returns"] + w["entered"] * (q.memory["policy"] in (VOLCANO, KAI))


@helper
def open_all(sim: Run, q: Queues) -> None:
    """Open all leaves if GPUs have come free, or if shares have changed."""
    now = chances(sim, q)
    if q.memory["returns"] != now:
        q.memory["returns"] = now
        for node in range(len(q.tenants)):
            q.tenants[node]["open"] = 1


@helper
def earlier(q: Queues, best: int, line: int) -> int:
    """Return that of two lines whose first job comes first; ``best`` -1 = ``line``."""
    if best < 0 or before(q.keys, q.ranks, q.waiters[q.lines[line]["begin"]], q.waiters[q.lines[best]["begin"]]):
        return line
    return best


@helper
def is_parked(sim: Run, q: Queues, line: int, most: int) -> bool:
    """Return whether a line is parked; lines of gangs of more than ``most`` GPUs count as parked."""
    p = q.parked[line]
    same = p["row"] == q.waiters[q.lines[line]["begin"]]
    return q.lines[line]["gpus"] > most or (
        same and (p["returns"] == chances(sim, q) or p["point"] == q.memory["point"])
    )


@kernel
def first_of(sim: Run, q: Queues, leaf: int, most: int) -> int:
    """Find the line of the job of ``leaf`` that comes next and is not parked; -1 = none.

    In a strict queue of Kueue, the result is -1 as soon as the first job of the whole queue is parked.
    """
    if q.tenants[leaf]["strict"] and q.memory["policy"] == KUEUE:
        line = head_of(q, leaf)
        return -1 if line < 0 or is_parked(sim, q, line, most) else line
    best = -1
    begin = q.tenants[leaf]["begin"]
    for line in range(begin, begin + q.tenants[leaf]["lines"]):
        if q.lines[line]["count"] > 0 and not is_parked(sim, q, line, most):
            best = earlier(q, best, line)
    return best


@kernel
def head_of(q: Queues, leaf: int) -> int:
    """Find the line of the first job of ``leaf``, parked or not; -1 = none waits."""
    best = -1
    begin = q.tenants[leaf]["begin"]
    for line in range(begin, begin + q.tenants[leaf]["lines"]):
        if q.lines[line]["count"] > 0:
            best = earlier(q, best, line)
    return best


@kernel
def park(sim: Run, q: Queues, line: int) -> None:
    """Park a line until :func:`chances` grows."""
    p = q.parked[line]
    p["row"] = q.waiters[q.lines[line]["begin"]]
    p["returns"] = chances(sim, q)
    p["point"] = -1
    p["claims"] = 0
    p["refused"] = 0


@kernel
def park_for_now(q: Queues, line: int) -> None:
    """Park a line until the next decision point."""
    p = q.parked[line]
    p["row"] = q.waiters[q.lines[line]["begin"]]
    p["returns"] = -1
    p["point"] = q.memory["point"]
    p["claims"] = 0
    p["refused"] = 0
    q.memory["again"] = 1


@kernel
def unpark_refused(q: Queues) -> None:
    """Unpark the lines whose first job lacks only a place, so that it may preempt."""
    for line in range(len(q.lines)):
        if q.parked[line]["refused"]:
            q.parked[line]["refused"] = 0
            q.parked[line]["row"] = -1


@helper
def asks_rule(sim: Run, q: Queues, row: int) -> bool:
    """Return whether numbers of GPUs do not tell if a job has a place; the quota of Kueue does not look at nodes."""
    return q.memory["policy"] in (VOLCANO, KAI) and in_parts(sim, sim.jobs[row]["job_class"])


@helper
def settle(sim: Run, q: Queues) -> None:
    """Note what has become of the action: if the placement rule refused the job, its line is parked."""
    m = q.memory
    row = m["job"]
    if m["action"] == START and sim.jobs[row]["status"] == WAITING:
        park(sim, q, q.line_of[row])
        q.parked[q.line_of[row]]["refused"] = m["preempts"] and asks_rule(sim, q, row)
    m["action"] = NOTHING
    open_all(sim, q)


@kernel
def claim(q: Queues, line: int) -> None:
    """Keep quota and GPUs for the first job of a line, whose victims are in a checkpoint, in this decision point."""
    m = q.memory
    gpus = q.lines[line]["gpus"]
    hold(q, q.owner[line], gpus)
    q.tenants[q.owner[line]]["kept"] += gpus
    m["claims"] += 1
    m["claimed_gpus"] += gpus
    park_for_now(q, line)
    q.parked[line]["claims"] = 1


@kernel
def unclaimed_gpus(sim: Run, q: Queues) -> int:
    """Return the number of free GPUs, without those that jobs with claims need besides those of their victims [GPU]."""
    gpus: int = sim.world["free_gpus"] - max(0, q.memory["claimed_gpus"] - sim.world["checkpointing_gpus"])
    return gpus


@kernel
def end_claims(q: Queues) -> None:
    """Give back what the last decision point has kept; its claims are served first."""
    m = q.memory
    m["claiming"] = m["claims"] > 0
    m["claims"] = 0
    m["claimed_gpus"] = 0
    if m["claiming"]:
        for node in range(len(q.tenants)):
            if q.tenants[node]["kept"] > 0:
                hold(q, node, -q.tenants[node]["kept"])
                q.tenants[node]["kept"] = 0


@kernel
def first_claim(q: Queues, leaf: int) -> int:
    """Find the line of ``leaf`` whose first job had a claim at the last decision point and comes next; -1 = none."""
    best = -1
    begin = q.tenants[leaf]["begin"]
    for line in range(begin, begin + q.tenants[leaf]["lines"]):
        p = q.parked[line]
        claims = p["claims"] > 0 and p["point"] == q.memory["point"] - 1
        if q.lines[line]["count"] > 0 and claims and p["row"] == q.waiters[q.lines[line]["begin"]]:
            best = earlier(q, best, line)
    return best
