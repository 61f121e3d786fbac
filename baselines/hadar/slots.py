"""The time slots of HadarE as a pure function: the assignment of copies to nodes.

This is a reconstruction of Sultana et al., arXiv 2503.10918. It is certain that a job is forked into copies on separate
nodes that train at the same time. The orders and the overheads are our choices (``docs/hadar.md``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from gpusched_env.portable.keys import rounded_keys

ORDERS: Final = ("longest", "shortest", "arrival", "forked")
SPARE_ORDERS: Final = ("latest-finish", "scheduler")


def plan_slot(
    remaining: Sequence[float] | np.ndarray,
    rates: np.ndarray,
    most_copies: int | np.ndarray | None = None,
    spare_order: str = "latest-finish",
    order: str = "longest",
    held: np.ndarray | None = None,
) -> np.ndarray:
    """Give every node of a slot to a copy of a job: first one copy of each job, then the nodes left over.

    ``remaining`` : steps of J jobs, 0 = finished. ``rates`` : float64 [J, n], 0 = it cannot run there. ``most_copies``
    : of a job, or of each. ``held`` : int64 [n], job that keeps each node, -1 = the node is to be given. Returns the
    job of each node, -1 = idle; the copies of a job are on different nodes.

    ``spare_order`` says whose a spare node is: "latest-finish" = of the job that would end last with its present
    copies; "scheduler" = of the jobs in turn. ``order`` of the first pass: "longest" or "shortest" = by run time on the
    fastest node; "arrival" = by row; "forked" = by row, all copies of a job at once.

    Notes
    -----
    First pass: jobs without a node, in order, ties by row; each takes its fastest free node, ties by index. Spare
    nodes: equal finishes are ordered as in the first pass.
    """
    left = np.asarray(remaining, float)
    table = np.asarray(rates, float)
    jobs, nodes = table.shape
    limit = np.broadcast_to(nodes if most_copies is None else most_copies, jobs)
    given = np.full(nodes, -1) if held is None else np.array(held)
    fastest = table.max(axis=1, initial=0.0)
    able = np.flatnonzero((left > 0) & (fastest > 0))
    seconds = rounded_keys(left[able] / fastest[able])
    ranks = {"longest": -seconds, "shortest": seconds, "arrival": able, "forked": able}[order]
    candidates = able[np.argsort(ranks, kind="stable")].tolist()
    speed, copies = np.zeros(jobs), np.zeros(jobs, np.int64)
    kept = np.flatnonzero(given >= 0)
    np.add.at(speed, given[kept], table[given[kept], kept])
    np.add.at(copies, given[kept], 1)

    def take(job: int) -> bool:
        """Give the job its fastest free node."""
        free = np.where(given < 0, table[job], 0.0)
        node = int(free.argmax())
        if copies[job] == limit[job] or free[node] == 0.0:
            return False
        given[node] = job
        speed[job] += table[job, node]
        copies[job] += 1
        return True

    for job in candidates:
        if order == "forked":
            while take(job):
                pass
        elif copies[job] == 0:
            take(job)
    while candidates:
        if spare_order == "latest-finish":
            with np.errstate(divide="ignore"):
                ends = rounded_keys(left[candidates] / speed[candidates])
            chosen = candidates[int(np.argmax(ends))]  # ties: the first
        else:
            chosen = candidates[0]
        candidates.remove(chosen)
        if take(chosen):
            candidates.append(chosen)
    return given
