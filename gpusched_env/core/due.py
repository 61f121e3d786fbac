"""The next event of each gang: a tournament tree over the n rows of the replica table finds the earliest.

Node i has the children 2 i and 2 i + 1. Leaf n + r is row r, and node 1 holds the overall winner.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from gpusched_env.core.handle import helper, kernel
from gpusched_env.core.state import CHECKPOINTING, IDLE, Run

# The phase of a replica is also the kind of its next event (ACTIVE completes, CHECKPOINTING releases); this is the one
# further kind. Simultaneous events are played in ascending order of their kinds.
LEASE_ENDS: Final = CHECKPOINTING + 1
# Relative. A gang whose work ends with its lease completes, even if rounding puts the completion this much later.
LEASE_SLACK: Final = 1e-12
FIRST: Final = 1  # node of the gang whose next event comes first
_TOP: Final = 256  # nodes below are always replayed: an early exit saves little there, and its branch is mispredicted


@helper
def comes_before(sim: Run, one_kind: int, one: int, other_kind: int, other: int) -> bool:
    """Tell whether ``one`` precedes ``other``, two events of the same instant: by kind, then job row."""
    if one_kind != other_kind:
        return one_kind < other_kind
    return sim.replicas[one]["job"] < sim.replicas[other]["job"]


@kernel
def set_due(sim: Run, number: int) -> None:
    """Update the tree after a gang's phase or the time of its completion, release or lease has changed."""
    r = sim.replicas[number]
    kind = r["phase"]
    due_s = np.inf if kind == IDLE else r["until_s"]
    if kind != IDLE and r["lease_s"] * (1.0 + LEASE_SLACK) < r["until_s"]:
        due_s = r["lease_s"]
        kind = LEASE_ENDS
    best = number
    node = sim.world["gpu_jobs"] * sim.world["gpus"] + number
    while True:
        winner = sim.due[node]
        winner["due_s"] = due_s
        winner["number"] = best
        winner["kind"] = kind
        if node == FIRST:
            return
        rival = sim.due[node ^ 1]
        rival_s, rival_number, rival_kind = rival["due_s"], rival["number"], rival["kind"]
        loses = rival_s < due_s
        if rival_s == due_s and due_s < np.inf:
            loses = comes_before(sim, rival_kind, rival_number, kind, best)
        due_s = rival_s if loses else due_s
        best = rival_number if loses else best
        kind = rival_kind if loses else kind
        node >>= 1
        if node >= _TOP and best != number and sim.due[node]["number"] == best:
            return  # the gang neither was nor is the winner here, so nothing changes above
