"""The waiting jobs of each leaf.

A leaf has a line for each gang size. If the first job of a line finds no place, no other job of the line does, as it
is of lower priority or newer. The line is then parked until GPUs come free or another job becomes its first.
"""

from __future__ import annotations

import numpy as np

from gpusched_env.baselines.listed.lines import before, join_line, leave_line
from gpusched_env.baselines.queues.state import KUEUE, NOTHING, START, Queues
from gpusched_env.baselines.queues.usage import ask, give, hold, take
from gpusched_env.core.handle import kernel
from gpusched_env.core.state import WAITING, Run
from gpusched_env.event_log import ARRIVAL, COMPLETE, RELEASE, RESUME
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
    """Follow the records of the log that are new: arrivals, starts, releases and completions."""
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
            join(q, row)
        elif kind in (STARTED, RESUME):
            leave_line(q.lines, q.waiters, q.keys, q.ranks, line)
            ask(q, leaf, -1, -gpus)
            hold(q, leaf, gpus)
            q.tenants[leaf]["floor"] = min(q.tenants[leaf]["floor"], q.priorities[row])
        elif kind == COMPLETE:
            hold(q, leaf, -gpus)
        elif kind == RELEASE:
            hold(q, leaf, -gpus)
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
        t["floor"] = -np.inf
    for line in range(len(q.lines)):
        q.lines[line]["count"] = 0
    first = sim.world["first_waiting"]
    for i in range(first, first + sim.world["waiting"]):
        join(q, sim.waiting[i])
    for i in range(sim.world["running"]):
        line = q.line_of[sim.replicas[sim.running[i]]["job"]]
        hold(q, q.owner[line], q.lines[line]["gpus"])
    for node in range(len(q.tenants)):
        if q.tenants[node]["kept"] > 0:
            take(q, node, q.tenants[node]["kept"])
    q.memory["read"] = sim.world["events"]


@kernel
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
    unkeep(q)
    open_all(sim, q)


@kernel
def open_all(sim: Run, q: Queues) -> None:
    """Open all leaves if GPUs have come free."""
    if q.memory["returns"] != sim.world["returns"]:
        q.memory["returns"] = sim.world["returns"]
        for node in range(len(q.tenants)):
            q.tenants[node]["open"] = 1


@kernel
def first_of(sim: Run, q: Queues, leaf: int, most: int) -> int:
    """Find the line of the job of ``leaf`` that comes next; -1 = none.

    Lines of gangs of more than ``most`` GPUs count as parked. If the rules are Kueue's strict ones, the result is -1 as
    soon as the first job of the whole queue is parked.
    """
    m = q.memory
    strict = m["strict"] and m["policy"] == KUEUE
    begin = q.tenants[leaf]["begin"]
    best = -1
    first = -1
    blocked = False
    for line in range(begin, begin + q.tenants[leaf]["lines"]):
        if q.lines[line]["count"] == 0:
            continue
        row = q.waiters[q.lines[line]["begin"]]
        p = q.parked[line]
        is_parked = q.lines[line]["gpus"] > most or (
            p["row"] == row and (p["returns"] == sim.world["returns"] or p["point"] == m["point"])
        )
        if is_parked and not strict:
            continue
        if best < 0 or before(q.keys, q.ranks, row, first):
            best = line
            first = row
            blocked = is_parked
    return -1 if blocked else best


@kernel
def park(sim: Run, q: Queues, line: int) -> None:
    """Park a line until GPUs come free."""
    p = q.parked[line]
    p["row"] = q.waiters[q.lines[line]["begin"]]
    p["returns"] = sim.world["returns"]
    p["point"] = -1


@kernel
def park_for_now(q: Queues, line: int) -> None:
    """Park a line until the next decision point."""
    p = q.parked[line]
    p["row"] = q.waiters[q.lines[line]["begin"]]
    p["returns"] = -1
    p["point"] = q.memory["point"]
    q.memory["again"] = 1


@kernel
def settle(sim: Run, q: Queues) -> None:
    """Note what has become of the action: if the placement rule refused the job, its line is parked."""
    m = q.memory
    row = m["job"]
    if m["action"] == START and sim.jobs[row]["status"] == WAITING:
        park(sim, q, q.line_of[row])
    m["action"] = NOTHING
    open_all(sim, q)


@kernel
def unkeep(q: Queues) -> None:
    """End all reservations for jobs whose victims are in a checkpoint."""
    for node in range(len(q.tenants)):
        if q.tenants[node]["kept"] > 0:
            give(q, node, q.tenants[node]["kept"])
            q.tenants[node]["kept"] = 0
    q.memory["held_back_gpus"] = 0
