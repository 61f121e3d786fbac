"""The running jobs of each leaf, in the order in which they are preempted: the last entry of ``runners`` goes first.

They are sorted by priority, highest first, then by the latest start. Jobs in a checkpoint are in ``stopping`` instead.
"""

from __future__ import annotations

from gpusched_env.baselines.list_policies.lines import before
from gpusched_env.baselines.queues.state import Queues
from gpusched_env.core.handle import kernel
from gpusched_env.core.state import Run


@kernel
def place_of(q: Queues, leaf: int, row: int) -> int:
    """Return the entry of ``runners`` at which a job of ``leaf`` is, or belongs."""
    low = q.tenants[leaf]["runners"]
    high = low + q.tenants[leaf]["running"]
    while low < high:
        middle = (low + high) // 2
        if before(q.priorities, q.latest, row, q.runners[middle]):
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def add_runner(sim: Run, q: Queues, row: int) -> None:
    """Insert a job that has started."""
    line = q.line_of[row]
    leaf = q.owner[line]
    t = q.tenants[leaf]
    r = sim.replicas[sim.jobs[row]["replica"]]
    q.latest[row] = -r["sequence"]
    q.running[line] += 1
    t["started_s"] = max(t["started_s"], r["start_s"])
    at = place_of(q, leaf, row)
    for i in range(t["runners"] + t["running"], at, -1):
        q.runners[i] = q.runners[i - 1]
    q.runners[at] = row
    t["running"] += 1


@kernel
def drop_runner(q: Queues, row: int) -> None:
    """Remove a job that completes or goes into a checkpoint."""
    line = q.line_of[row]
    leaf = q.owner[line]
    t = q.tenants[leaf]
    at = place_of(q, leaf, row)
    q.running[line] -= 1
    t["running"] -= 1
    for i in range(at, t["runners"] + t["running"]):
        q.runners[i] = q.runners[i + 1]


@kernel
def add_stopping(q: Queues, row: int) -> None:
    """Insert a job that goes into a checkpoint."""
    q.stopping[q.memory["stopping"]] = row
    q.memory["stopping"] += 1


@kernel
def drop_stopping(q: Queues, row: int) -> None:
    """Remove a job whose checkpoint has ended."""
    m = q.memory
    m["stopping"] -= 1
    at = 0
    while q.stopping[at] != row:
        at += 1
    q.stopping[at] = q.stopping[m["stopping"]]


@kernel
def forget_runners(q: Queues) -> None:
    """Remove all jobs."""
    q.memory["stopping"] = 0
    for node in range(len(q.tenants)):
        q.tenants[node]["running"] = 0
    for line in range(len(q.lines)):
        q.running[line] = 0
