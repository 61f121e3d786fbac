"""What each gang does next, and when: a tournament over all rows of the replica table finds the earliest.

Node i of the tournament has the children 2 i and 2 i + 1; node n + r is row r of n. The winners of the nodes 1 .. n - 1
stand in rows 1 .. n - 1 of the table itself.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from gpusched_env.simulator.jit import helper, int64
from gpusched_env.simulator.state import CHECKPOINTING, IDLE

Array = np.ndarray[Any, Any]

# Kinds of next event beside the phases of a replica (ACTIVE completes, CHECKPOINTING releases), in the order in
# which simultaneous events are played.
LEASE_ENDS: Final = CHECKPOINTING + 1
# A gang whose work ends with its lease completes: rounding may put the completion so much later.
LEASE_SLACK: Final = 1e-12


@helper
def entrants(world: Array, b: int) -> int:
    """Count the rows of the replica table that the environment uses."""
    return int64(world[b]["gpu_jobs"] * world[b]["gpus"])


@helper
def before(replicas: Array, b: int, one: int, other: int) -> bool:
    """Tell whether what one gang does next comes before what another does: by time, kind, then job row."""
    r = replicas[b, one]
    q = replicas[b, other]
    if r["due_s"] != q["due_s"]:
        return r["due_s"] < q["due_s"]
    if r["due"] != q["due"]:
        return r["due"] < q["due"]
    return r["job"] < q["job"]


@helper
def winner(replicas: Array, b: int, node: int, rows: int) -> int:
    """Row that wins the part of the tournament below a node."""
    return node - rows if node >= rows else int64(replicas[b, node]["winner"])


@helper
def set_due(world: Array, replicas: Array, b: int, number: int) -> None:
    """Note what a gang does next after its completion, release or lease has been set anew."""
    r = replicas[b, number]
    r["due"] = r["phase"]
    r["due_s"] = np.inf if r["phase"] == IDLE else r["until_s"]
    if r["phase"] != IDLE and r["lease_s"] * (1.0 + LEASE_SLACK) < r["until_s"]:
        r["due_s"] = r["lease_s"]
        r["due"] = LEASE_ENDS
    rows = entrants(world, b)
    node = (rows + number) // 2
    while node >= 1:
        best = winner(replicas, b, 2 * node, rows)
        rival = winner(replicas, b, 2 * node + 1, rows)
        if before(replicas, b, rival, best):
            best = rival
        if best != number and replicas[b, node]["winner"] == best:
            return  # it neither was the winner here nor is, so nothing changes above
        replicas[b, node]["winner"] = best
        node //= 2


@helper
def next_due(world: Array, replicas: Array, b: int) -> int:
    """Row of the gang whose next event comes first."""
    return winner(replicas, b, int64(1), entrants(world, b))
